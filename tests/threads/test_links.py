"""Valid kinds and targets of links (docs/threads.md)."""

from __future__ import annotations

import pytest

from apps.threads.rules import TARGETS, link_problem, word_problem

pytestmark = pytest.mark.once

GOOD = {
    "url": ["http://localhost", "HTTPS://example.org:8000/a?b=c#d", "https://é.example/ü"],
    "thread": ["12", "#12", "teams/core/api#12", "users/Bob/a.b/12", "https://example.org/x"],
    "pull": ["1", "#999999999"],
    "reply": ["3", "#3", "12/3", "#12/3", "teams/core/api#12/3", "users/bob/api/12/3"],
    "commit": ["1f2e", "A" * 40, "teams/core/api@1f2e3d4c"],
    "file": ["README", "docs/setup.md", ".ci/run", "a b/…#L10", "...", "a\\b"],
    "other": ["", " ", "javascript:alert(1)"],
}
BAD = {
    "url": [
        "",
        "example.org",
        "ftp://example.org",
        "javascript:alert(1)",
        "http://",
        "http:///x",
        "https://a b",
        "https://a\nb",
        "https://[",
        "http://a:99999",
        "//example.org",
        " http://a",
    ],
    "thread": ["0", "012", "##1", "1 ", "x", "-1", "1234567890", "core/api#1", "teams/core#1"],
    "pull": ["", "#", "teams/core/api", "teams/core/api#0", "٣", "1\n"],
    "reply": ["", "0", "1/0", "1/2/3", "teams/core/api#1", "1#2"],
    "commit": ["", "main", "123", "g" * 40, "a" * 41, "core/api@1f2e3d", "1f2e\n"],
    "file": ["", "/etc/passwd", "a//b", "a/", "../a", "a/./b", "a/..", "a\nb", "a\0"],
}


@pytest.mark.parametrize("kind", GOOD)
def test_a_well_formed_target_will_do(kind):
    assert [target for target in GOOD[kind] if link_problem(kind, target) is not None] == []


@pytest.mark.parametrize("kind", BAD)
def test_a_target_of_another_form_is_refused(kind):
    assert [target for target in BAD[kind] if link_problem(kind, target) is None] == []


def test_every_known_kind_is_tried():
    assert set(TARGETS) == set(BAD) == set(GOOD) - {"other"}


def test_a_word_will_do():
    words = ["comment", "a", "x" * 30, "a-b_c9"]
    assert [word for word in words if word_problem(word) is not None] == []


def test_what_is_no_word_is_refused():
    words = ["", "A", "9a", "-a", "a b", "a\n", "é", "x" * 31]
    assert [word for word in words if word_problem(word) is None] == []
