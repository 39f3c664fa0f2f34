"""The buttons on the page of a pull that push to its source branch, and the message of a merge."""

from __future__ import annotations

import pytest

from apps.pulls.actions import create_pull
from tests.principals import access_of
from tests.web.test_pull_pages import address as address
from tests.web.test_pull_pages import clone as clone
from tests.web.test_pull_pages import pull as pull

UPDATE = "Update the branch</button>"
DELETE = "Delete the branch</button>"
RESTORE = "Restore the branch</button>"
DEFAULT = "Merge pull #{}: Add an arch"


def default_of(pull):
    return DEFAULT.format(pull.number)


@pytest.fixture
def sent(pull):
    return {"merge_strategy": "merge", "expected_head_sha": pull.head_sha}


def test_a_branch_that_is_behind_is_updated_from_the_page(
    visit, pull, address, clone, alice, carol, events
):
    person = visit(alice)
    assert UPDATE not in person.get(address).gives().html
    clone.push_commit("main", {"gate": "1"}, onto="main")
    for part in (address, f"{address}/verdict"):
        page = person.get(part).gives()
        assert UPDATE in page.html
        assert "main has commits that this branch lacks" in page.text
    with events("branch-pushed", "pull-pushed"):
        sent = {"expected_head_sha": pull.head_sha}
        person.post(f"{address}/update-branch", **sent).redirects_to(f"{address}#verdict")
    assert UPDATE not in person.get(address).html
    refused = person.post(f"{address}/update-branch", **sent).gives(409)
    assert "The head is now" in refused.alert()
    pull.repo.visibility = "public"
    pull.repo.save()
    clone.push_commit("main", {"gate": "2"}, onto="main")
    assert UPDATE not in visit(carol).get(address).html


def test_the_branch_of_a_merged_pull_is_deleted_and_restored_from_its_page(
    visit, pull, address, alice, sent, events
):
    person = visit(alice)
    assert DELETE not in person.get(address).html
    person.post(f"{address}/merge", **sent).redirects_to(f"{address}#verdict")
    assert DELETE in person.get(address).html
    with events("branch-deleted"):
        person.post(f"{address}/source-branch/delete").redirects_to(f"{address}#verdict")
    page = person.get(address)
    assert "The branch feature has been deleted" in page.text
    assert DELETE not in page.html and RESTORE in page.html
    with events("branch-created"):
        person.post(f"{address}/source-branch/restore").redirects_to(f"{address}#verdict")
    refused = person.post(f"{address}/source-branch/restore").gives(409)
    assert "There is a branch feature already" in refused.alert()


def test_the_branch_of_a_closed_pull_and_a_lost_branch_of_an_open_one(
    visit, pull, address, clone, alice
):
    person = visit(alice)
    clone.push(":feature")
    assert RESTORE in person.get(address).html
    person.post(f"{address}/source-branch/restore").redirects_to(f"{address}#verdict")
    person.post(f"{address}/status", status="closed").redirects_to(address)
    assert DELETE in person.get(address).html


def test_a_merge_from_the_page_deletes_the_branch_if_it_is_ticked(
    visit, pull, address, alice, sent
):
    person = visit(alice)
    assert 'name="delete_source_branch"' in person.get(address).html
    ticked = {**sent, "delete_source_branch": "on"}
    person.post(f"{address}/merge", **ticked).redirects_to(f"{address}#verdict")
    assert pull.repo.branch_sha("feature") is None


def test_a_branch_that_stays_after_a_merge_is_told(visit, pull, address, clone, alice, sent):
    clone.push("main:release")
    fields = {"title": "Also", "body": "", "source_branch": "feature", "target_branch": "release"}
    create_pull(access=access_of(alice, pull.repo), **fields)
    ticked = {**sent, "delete_source_branch": "on"}
    page = visit(alice).post(f"{address}/merge", **ticked).gives(409)
    assert "The pull is merged, but its branch stays" in page.alert()
    assert "Merged by alice" in page.text


def test_the_message_of_a_merge_is_filled_in_and_may_be_changed(
    visit, pull, address, clone, alice, sent
):
    person = visit(alice)
    assert f">\n{default_of(pull)}</textarea>" in person.get(address).html
    own = {**sent, "message": "Add an arch\r\n\r\nIt is the first."}
    person.post(f"{address}/merge", **own).redirects_to(f"{address}#verdict")
    shown = clone.server("log", "-1", "--format=%B", "main")
    assert shown == "Add an arch\n\nIt is the first."


@pytest.mark.parametrize("emptied", [False, True])
def test_a_default_message_is_that_of_the_chosen_strategy(
    visit, pull, address, clone, alice, sent, emptied
):
    squash = {**sent, "merge_strategy": "squash"}
    message = "" if emptied else default_of(pull)
    visit(alice).post(f"{address}/merge", **squash, message=message).redirects_to(
        f"{address}#verdict"
    )
    shown = clone.server("log", "-1", "--format=%s", "main")
    assert shown == f"Add an arch (#{pull.number})"


def test_a_message_that_has_no_commit_is_refused_and_stays_on_the_page(
    visit, pull, address, alice, sent, events
):
    own = {**sent, "merge_strategy": "rebase", "message": "Mine"}
    with events():
        page = visit(alice).post(f"{address}/merge", **own).gives(422)
    assert "keeps the messages" in page.alert() and ">\nMine</textarea>" in page.html
    assert "<details open>" in page.html


def test_an_auto_merge_from_the_page_takes_the_message_along(
    visit, make, pull, address, alice, sent
):
    make.protection(pull.repo, by=alice)
    own = {**sent, "message": "Mine", "delete_source_branch": "on"}
    visit(alice).post(f"{address}/auto-merge", **own).redirects_to(f"{address}#verdict")
    pull.refresh_from_db()
    assert (pull.auto_merge.message, pull.auto_merge.deletes_source) == ("Mine", True)
    page = visit(alice).get(address)
    assert "with a message of their own" in page.text
    assert "to delete the branch afterwards" in page.text
