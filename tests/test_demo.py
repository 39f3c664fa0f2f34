"""serve --demo: the example is whole, reads as the API tells it, and is made once."""

import re

import pytest
from django.db import transaction

from apps.accounts.models import User
from apps.events.models import Event
from apps.repos.models import Repo
from config import demo
from tests.api import Api
from tests.factories import UserFactory
from tests.git.scratch import git as run_git

REPO = "/teams/acme/repos/hello"


def test_nothing_is_made_beside_somebody_who_has_one_of_the_names(db):
    UserFactory.create(username="Dave")
    assert "there is Dave already" in demo.load()
    assert list(User.objects.values_list("username", flat=True)) == ["Dave"]


@pytest.fixture(scope="module")
def people(django_db_setup, django_db_blocker):
    """What each person of the demo sees; with the token that it has printed.

    Made once for all tests below, which also ask for `db`.
    """
    with django_db_blocker.unblock(), transaction.atomic():
        printed = demo.load()
        found = re.findall(r"^ +(\w+) +(ght_\w+)", printed, re.M)
        yield {name: Api(token) for name, token in found}
        transaction.set_rollback(True)


def test_a_second_start_changes_nothing_and_shows_no_secret(people, db):
    before = Event.objects.count()
    said = demo.load()
    assert "ght_" not in said and "alice" in said and said.count("\n") == 1
    assert (Event.objects.count(), User.objects.count(), Repo.objects.count()) == (before, 4, 1)


def test_the_people_the_history_and_the_thread_are_as_told(people, db):
    levels = {name: api.get(REPO).gives()["caller_permission"] for name, api in people.items()}
    assert levels == {"alice": "owner", "bob": "write", "carol": "read", "dave": "read"}
    git = Repo.objects.get().git
    assert run_git(git.path, "fsck", "--strict", "--no-dangling") == b""
    refs = git.refs()
    assert set(refs) >= {f"refs/heads/{name}" for name in ("main", "names", "licence", "shout")}
    authors = git.commit_authors(refs["refs/heads/licence"], refs["refs/heads/names"])
    assert [person.name for person in authors] == ["bob"]
    replies = people["dave"].get(f"{REPO}/threads/4").gives()["replies"]
    shape = [(reply["number"], reply["depth"], reply["is_deleted"]) for reply in replies]
    assert shape == [(1, 0, False), (2, 1, True), (3, 2, False), (4, 0, False)]


def test_a_pull_is_merged_one_is_under_review_and_one_conflicts(people, db):
    pulls = people["dave"].get(f"{REPO}/pulls?ordering=number").gives()["results"]
    assert [pull["status"] for pull in pulls] == ["merged", "open", "draft"]
    assert pulls[1]["commit_count"] == 2 and pulls[1]["changed_files"] == 2
    reviews = people["dave"].get(f"{REPO}/pulls/2/reviews").gives()["results"]
    assert [review["status"] for review in reviews] == ["changes_requested", "commented"]
    assert reviews[0]["is_stale"]
    people["alice"].put(f"{REPO}/pulls/3/status", status="open").gives()
    people["alice"].post(f"{REPO}/pulls/3/merge").fails(409, "merge_conflict")
    people["alice"].post(f"{REPO}/pulls/2/merge").gives()
