"""Titles and names without characters that make them look like others."""

from __future__ import annotations

import pytest

from apps.accounts.models import ApiToken
from apps.git.merge import Strategy
from apps.pulls.rules import merge_message

NAMES = ["a\nb", "a\x1b[31m", "a\x85", "a\u202eb", "\u2066a", "\u200f", "a\u061c"]
IN_ANY_SCRIPT = [
    "Café",
    "\u0645\u06cc\u200c\u062e\u0648\u0627\u0647\u0645",
    "\u2764\ufe0f",
    "\u05e9\u05dc\u05d5\u05dd",
    "\U0001f469\u200d\U0001f4bb tools",
    "a\u0301",
]
INVISIBLE = ["a\u200bb", "a\u2060", "\ufeffa", "a\xadb", "a\u2028b", "a\u3164", "a\u115f"]
INVISIBLE += ["a\u2064"]


@pytest.mark.parametrize("name", [*NAMES, *INVISIBLE])
def test_titles_and_names_with_controls_are_refused(api, team_repo, alice, name):
    repo = team_repo.api_path
    text = {"title": name, "body": ""}
    branches = {"source_branch": "a", "target_branch": "main"}
    for method, path, body, field in [
        ("put", "/users/self", {"display_name": name}, "display_name"),
        ("post", "/teams", {"name": name, "slug": "new"}, "name"),
        ("post", "/teams/acme/repos", {"name": name, "slug": "new"}, "name"),
        ("post", "/api-tokens", {"name": name}, "name"),
        ("post", f"{repo}/threads", {**text, "kind": "issue"}, "title"),
        ("post", f"{repo}/pulls", {**text, **branches}, "title"),
    ]:
        answer = getattr(api(alice), method)(path, **body)
        assert answer.fails(422, "validation_failed").startswith(f"{field}: "), path


def test_names_in_any_script_are_taken(api, alice):
    for name in IN_ANY_SCRIPT:
        api(alice).post("/api-tokens", name=name).gives(201)
    assert ApiToken.objects.filter(name="Café").exists()


@pytest.mark.parametrize("strategy", [Strategy.MERGE, Strategy.SQUASH])
def test_the_message_of_a_merge_has_no_controls_of_an_old_title(make, team_repo, alice, strategy):
    pull = make.pull(team_repo, by=alice, title="One\ntwo")
    pull.thread.title = "One\ntwo \u202etxt\u2069\x07."
    assert "One two txt." in merge_message(pull, strategy)
