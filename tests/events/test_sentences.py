"""The sentence of each kind of event."""

from __future__ import annotations

import string
from typing import Any

import pytest

from apps.events.kinds import Kind
from apps.events.sentences import BY_SOMEBODY_ELSE, OF_ONESELF, PARTS, SENTENCES, sentence
from tests.web.page_client import plain

pytestmark = pytest.mark.once
HOSTILE = '<script>raise()</script>"'


def record(kind: str, **changed: Any) -> dict[str, Any]:
    """The record of an event by bob in team acme, with all values that a sentence may use."""
    data = {
        "username": "carol",
        "role": "viewer",
        "changed": ["name", "default_branch"],
        "commit_count": 2,
        "forced": False,
        "branch": "release/*",
        "sha": "1234567890",
        "target_branch": "main",
        "after": "in_progress",
        "name": "laptop",
        "scope": "write",
        "status": "approved",
    }
    record: dict[str, Any] = {
        "kind": kind,
        "actor_user_username": "bob",
        "repo_path": "teams/acme/api",
        "team_slug": "acme",
        "target": {"kind": "pull", "number": 7, "name": "topic"},
        "data": data,
        "summary": {"thread_title": "Slow pushes", "web_url": "/teams/acme/api/pulls/7"},
    }
    for name, value in changed.items():
        record[name] = {**record[name], **value} if isinstance(value, dict) else value
    return record


def said(kind: str, **changed: Any) -> str:
    return plain(sentence(record(kind, **changed)))


WHERE = "#7 Slow pushes in acme/api"
SAID = {
    Kind.TEAM_CREATED: "created the team acme",
    Kind.TEAM_UPDATED: "changed the team acme : name, default branch",
    Kind.MEMBER_ADDED: "added carol to the team acme as viewer",
    Kind.MEMBER_UPDATED: "made carol viewer of the team acme",
    Kind.MEMBER_REMOVED: "removed carol from the team acme",
    Kind.REPO_CREATED: "created the repository acme/api",
    Kind.REPO_UPDATED: "changed the repository acme/api : name, default branch",
    Kind.FORK_CREATED: "made the fork acme/api",
    Kind.BRANCH_CREATED: "pushed the new branch topic to acme/api",
    Kind.BRANCH_PUSHED: "pushed 2 commits to topic in acme/api",
    Kind.BRANCH_DELETED: "deleted the branch topic in acme/api",
    Kind.TAG_CREATED: "pushed the tag topic to acme/api",
    Kind.COMMIT_FORGOTTEN: "removed the commit 1234567 from acme/api for good",
    Kind.PROTECTION_CREATED: "protected release/* in acme/api",
    Kind.APPROVER_ADDED: "made carol an approver of release/* in acme/api",
    Kind.PULL_CREATED: f"opened {WHERE}",
    Kind.PULL_MERGED: f"merged {WHERE} into main",
    Kind.REVIEW_CREATED: f"approved {WHERE}",
    Kind.THREAD_STATUS_CHANGED: f"marked {WHERE} as in progress",
    Kind.REPLY_CREATED: f"replied in {WHERE}",
    Kind.TOKEN_CREATED: "made the API token laptop",
    Kind.SSH_KEY_CREATED: "added the SSH key laptop",
    Kind.USER_JOINED: "added the account of carol",
    Kind.USER_UPDATED: "changed the account of carol : name, default branch",
    Kind.SITE_SETTINGS_UPDATED: "changed the settings of the site: name, default branch",
    Kind.RATE_LIMIT_DELETED: "lifted the rate limit for write",
}
"""One sentence of each sort. Links are followed by a space here."""


def test_every_kind_has_a_sentence_of_parts_that_there_are():
    assert set(SENTENCES) == set(Kind) and all(SENTENCES.values())
    for text in (*SENTENCES.values(), *OF_ONESELF.values(), *BY_SOMEBODY_ELSE.values()):
        names = {name for _, name, _, _ in string.Formatter().parse(text) if name}
        assert names <= set(PARTS), text
    assert {said(kind) for kind in Kind} >= {*SAID.values()}
    assert len({said(kind) for kind in Kind}) == len(Kind)


@pytest.mark.parametrize("kind", SAID, ids=str)
def test_an_event_says_what_has_happened_where(kind):
    assert said(kind) == SAID[kind]


def test_what_somebody_does_with_themselves_is_said_so():
    own = {"data": {"username": "bob"}, "target": {"username": "bob"}}
    assert said(Kind.MEMBER_REMOVED, **own) == "left the team acme"
    assert said(Kind.USER_UPDATED, **own) == "changed their account: name, default branch"
    assert said(Kind.USER_JOINED, **own) == "joined"


def test_reviews_and_pushes_say_of_what_sort_they_are():
    requested = said(Kind.REVIEW_CREATED, data={"status": "changes_requested"})
    assert requested == f"requested changes on {WHERE}"
    assert said(Kind.REVIEW_CREATED, data={"status": "commented"}) == f"reviewed {WHERE}"
    forced = said(Kind.BRANCH_PUSHED, data={"commit_count": 1, "forced": True})
    assert forced == "pushed 1 commit by force to topic in acme/api"
    unknown = said(Kind.BRANCH_PUSHED, data={"commit_count": None, "forced": None})
    assert unknown == "pushed commits to topic in acme/api"


@pytest.mark.parametrize("kind", Kind, ids=str)
def test_what_is_missing_or_gone_breaks_no_sentence_and_gets_no_link(kind):
    gone = {"thread_title": None, "web_url": None}
    bare = {**record(kind), "data": {}, "target": {"kind": "x"}, "summary": gone}
    html = sentence({**bare, "repo_path": None, "team_slug": None, "actor_user_username": None})
    assert html and "<a" not in html and "None" not in html


@pytest.mark.parametrize("kind", [*Kind, "moon-risen"], ids=str)
def test_what_people_wrote_is_escaped(kind):
    hostile = record(kind)
    hostile["data"] = dict.fromkeys(hostile["data"], HOSTILE) | {"changed": [HOSTILE]}
    hostile["target"] |= {"name": HOSTILE}
    hostile["summary"] = {"thread_title": HOSTILE, "web_url": "/x"}
    assert "<script" not in sentence(hostile)


def test_links_begin_with_the_address_of_the_site_where_one_is_given():
    html = sentence(record(Kind.MEMBER_ADDED), "http://there")
    assert 'href="http://there/users/carol"' in html and 'href="http://there/teams/acme"' in html
