"""A meaningful colour has a word or an icon beside it; and the check that finds others."""

from __future__ import annotations

import re

import pytest
from django.template.loader import render_to_string

from apps.pulls.models import PullStatus
from apps.threads.models import ReplyStatus, ThreadStatus
from tests.web.page_client import plain
from tests.web.signs import colour_alone

pytestmark = pytest.mark.once
BARE = [
    '<p><span class="state good"></span></p>',
    '<p class="message bad"><br></p>',
    '<ul><li class="unread">#1 Slow pushes</li></ul>',
    '<li class="d0 accepted"><article>So it is.</article></li>',
    '<span class="stat"><span>11</span><span>3</span></span>',
    '<p>1 <svg class="tint-bad"><path d="M1 1"/></svg></p>',
    '<ul class="checks"><li class="met"><svg class="tint-good"></svg><div>A branch</div></li></ul>',
    '<input name="title" aria-invalid="true" aria-describedby="title_helptext">',
]
SAID = [
    '<ul><li class="unread"><span class="unseen">unread</span> #1</li></ul>',
    '<span class="stat"><span>+11</span><span>\u22123</span></span>',
    '<p>bob <svg class="tint-bad"><path d="M1 1"/></svg></p>',
    '<ul class="checks"><li><svg class="tint-good"></svg><div>Met: A branch</div></li></ul>',
    '<input name="title" aria-invalid="true" aria-describedby="title_helptext title_error">',
]


@pytest.mark.parametrize("html", BARE)
def test_a_colour_alone_is_found(html):
    assert colour_alone(html) != []


@pytest.mark.parametrize("html", SAID)
def test_a_colour_with_a_word_or_a_sign_is_none(html):
    assert colour_alone(html) == []


@pytest.mark.parametrize(
    ("template", "statuses"),
    [("_pull_state", PullStatus), ("_state", ThreadStatus), ("_state", ReplyStatus)],
)
def test_each_state_has_a_word_of_its_own_and_an_icon(template, statuses):
    shown = [render_to_string(f"web/{template}.html", {"status": str(one)}) for one in statuses]
    words = [plain(html) for html in shown]
    assert len({*words}) == len(statuses) and words == [
        str(one).replace("_", " ").capitalize() for one in statuses
    ]
    for html in shown:
        assert colour_alone(html) == [] and re.search(r"<svg.*</svg>\w", html, re.DOTALL)
