"""The targets of links in a README."""

from __future__ import annotations

import pytest

from apps.accounts.models import User
from apps.core.markdown import render
from apps.repos.models import Repo
from apps.web.code import history_address, link_target, path_address, resolved

pytestmark = pytest.mark.once


@pytest.fixture
def repo():
    return Repo(owner_user=User(username="ada"), slug="api")


@pytest.mark.parametrize(
    ("address", "leads"),
    [
        ("a.md", "/users/ada/api/files/sub/a.md?ref=v1"),
        ("./a b.md#part", "/users/ada/api/files/sub/a%20b.md?ref=v1#part"),
        ("a%20b", "/users/ada/api/files/sub/a%20b?ref=v1"),
        ("../a", "/users/ada/api/files/a?ref=v1"),
        ("../../../a", "/users/ada/api/files/a?ref=v1"),
        ("/a/./b", "/users/ada/api/files/a/b?ref=v1"),
        ("..", "/users/ada/api/files?ref=v1"),
        ("?x=1", "/users/ada/api/files/sub?ref=v1"),
        ("#part", "#part"),
        ("", ""),
        ("https://example.org/a", "https://example.org/a"),
        ("//example.org/a", "//example.org/a"),
        ("mailto:ada@example.org", "mailto:ada@example.org"),
        ("a%ff", "/users/ada/api/files/sub/a%EF%BF%BD?ref=v1"),
    ],
)
def test_a_relative_link_leads_to_a_file_of_the_same_ref(repo, address, leads):
    assert link_target(address, repo, b"sub", "v1", "files") == leads


def test_a_readme_is_shown_with_its_pictures_and_below_the_headings_of_the_page(repo):
    text = "# One\n\n###### Six\n\n[a](b&c.md) ![d](e.png) ![f](https://example.org/g.png) &lt;h1>"
    html = resolved(render(text, relative=True), repo, b"", "")
    assert "<h3>One</h3>" in html and "<h6>Six</h6>" in html and "&lt;h1&gt;" in html
    assert 'href="/users/ada/api/files/b%26c.md"' in html
    assert '<img src="/users/ada/api/raw/e.png" alt="d">' in html
    assert html.count("<img") == 1


def test_whatever_is_in_a_path_stays_in_its_place(repo):
    assert path_address(repo, "raw", b"a?b#c/\xff", "x&y") == (
        "/users/ada/api/raw/a%3Fb%23c/%EF%BF%BD?ref=x%26y&path_base64=YT9iI2Mv_w"
    )
    assert history_address(repo, b"") == "/users/ada/api/commits"
    assert history_address(repo, b"a/b", "x") == "/users/ada/api/commits?ref=x&path=a%2Fb"
