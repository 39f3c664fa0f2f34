"""Searches ignore the case of every letter, on SQLite as on PostgreSQL."""

from __future__ import annotations

from urllib.parse import quote

import pytest

from apps.accounts.actions import create_token
from apps.teams.actions import update_team
from tests.factories import TeamFactory
from tests.principals import principal_of, team_access_of


@pytest.fixture
def place(make, alice):
    """A team, a repository, a thread, a pull and a token with "Über" in the searched text."""
    team = TeamFactory.create(slug="core", owner=alice)
    update_team(access=team_access_of(alice, team), name="Über (Core)", slug="core")
    repo = make.repo(team, "api", by=alice, description="Über (alles)")
    make.thread(repo, by=alice, title="Über (Namen)")
    make.pull(repo, by=alice, title="Über (Zeit)")
    create_token(principal=principal_of(alice), owner=alice, name="Über (Fluss)")


LISTS = ["/teams?search=", "/teams/core/repos?search=", "/teams/core/repos/api/threads?search="]
LISTS += ["/teams/core/repos/api/pulls?search="]


@pytest.mark.parametrize("path", LISTS)
def test_a_part_is_found_whatever_its_case_and_taken_word_for_word(api, alice, place, path):
    def found(text: str) -> int:
        return len(api(alice).get(path + quote(text)).gives()["results"])

    assert [found(text) for text in ("über", "ÜBER (", "Über", "BER (")] == [1, 1, 1, 1]
    assert [found(text) for text in ("ü.er", "ü%", "ü_er", "ubër")] == [0, 0, 0, 0]


def test_a_token_is_found_by_its_whole_name_whatever_its_case(api, alice, place):
    def found(text: str) -> int:
        return len(api(alice).get(f"/api-tokens?name={quote(text)}").gives()["results"])

    assert [found(text) for text in ("ÜBER (FLUSS)", "über (fluss)", "tests")] == [1, 1, 1]
    assert [found(text) for text in ("ÜBER (FLUSS", "ÜBER .FLUSS.", "ber (Fluss)")] == [0, 0, 0]


def test_the_shortest_texts_are_found_in_titles_of_all_repositories(api, make, team_repo, alice):
    titles = ["C++ or C?", "Über a_b", "日本語", "100% 'a\\b'", "{a,b}"]
    for title in titles:
        make.thread(team_repo, by=alice, title=title)

    def found(text: str) -> list[str]:
        rows = api(alice).get(f"/threads?search={quote(text)}").gives()["results"]
        return sorted(row["title"] for row in rows)

    texts = [
        "c",
        "+",
        "ü",
        "本",
        "%",
        "'",
        "\\",
        "_",
        "c+",
        "++",
        "+c",
        " o",
        "ÜB",
        "日本",
        "a\\",
        "{a",
    ]
    for text in [*texts, ",b", "0%", "c++", "a_b", "本語", "'a\\", "a,b", "zz", "q", "语"]:
        assert found(text) == sorted(one for one in titles if text.upper() in one.upper()), text
