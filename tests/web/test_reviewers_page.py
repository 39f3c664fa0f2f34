"""Asking for a review and changing the target branch, on the pages."""

from pathlib import Path

import pytest

from apps.pulls.actions import set_reviewers, update_pull
from apps.pulls.models import Pull
from apps.web.jobs import prepare_next_changes
from tests.gitclient import Clone
from tests.principals import access_of


@pytest.fixture
def clone(tmp_path: Path, team_repo, alice) -> Clone:
    clone = Clone(tmp_path / "clone", team_repo, alice)
    clone.push_commit("main", {"README": "A place to meet.\n"}, email="sam@example.org")
    clone.push_commit("feature", {"README": "Two places.\n"}, onto="main")
    clone.push_commit("release", {"NEWS": "none\n"}, onto="main")
    return clone


@pytest.fixture
def pull(make, clone: Clone, alice) -> Pull:
    made: Pull = make.pull(clone.repo, by=alice, title="Two places")
    return made


@pytest.fixture
def address(pull: Pull) -> str:
    return f"/{pull.repo.path}/pulls/{pull.number}"


def test_people_are_asked_and_requests_withdrawn(visit, make, pull, address, alice, bob, events):
    person = visit(alice)
    page = person.get(address).gives()
    assert "Reviewers" in page.text and "not reviewed yet" not in page.text
    with events("review-requested"):
        person.post(f"{address}/reviewers", reviewers="Bob").redirects_to(f"{address}#reviewers")
    for part in (address, f"{address}/verdict"):
        assert "A review is requested from bob ." in person.get(part).gives().text
    page = person.get(address)
    assert "not reviewed yet" in page.text
    assert "alice asked for a review of the pull: bob" in page.text
    assert "review requested from bob" in person.get(f"/{pull.repo.path}/pulls").gives().text
    assert "a review by bob is requested" in person.get("/").gives().text
    assert "alice requested your review" in visit(bob).get("/").gives().text
    with events("review-request-removed"):
        sent = {"remove": page.find(r'<button name="remove" value="(\w+)"')}
        person.post(f"{address}/reviewers", **sent).redirects_to(f"{address}#reviewers")
    page = person.get(address)
    assert "not reviewed yet" not in page.text
    assert "took back a request for a review of the pull: bob" in page.text


def test_a_person_who_has_reviewed_it_is_asked_again(visit, make, pull, address, alice, bob):
    set_reviewers(access=access_of(alice, pull.repo), pull=pull, reviewers=["bob"])
    review = make.review(pull, by=bob, status="changes_requested")
    page = visit(alice).get(address).gives()
    assert f'href="#review-{review.uuid}"' in page.html and "requested changes" in page.text
    assert page.find(r'aria-label="([^"]*)">Ask again') == "Ask bob again"
    visit(alice).post(f"{address}/reviewers", reviewers="bob").redirects_to(f"{address}#reviewers")
    assert "not reviewed yet" in visit(alice).get(address).text


def test_a_refusal_stands_at_the_field(visit, pull, address, alice, events):
    with events():
        page = visit(alice).post(f"{address}/reviewers", reviewers="nobody").gives(422)
        assert 'There is no user "nobody".' in page.alert()
        assert page.value("reviewers") == "nobody"
        page = visit(alice).post(f"{address}/reviewers", reviewers="").gives(422)
        assert "This field is required." in page.alert()
        page = visit(alice).post(f"{address}/reviewers", reviewers="alice").gives(422)
        assert "alice has opened the pull." in page.alert()


def test_readers_see_who_is_asked_and_ask_nobody(visit, pull, address, alice, carol, events):
    pull.repo.visibility = "public"
    pull.repo.save()
    assert "Reviewers" not in visit(carol).get(address).gives().text
    set_reviewers(access=access_of(alice, pull.repo), pull=pull, reviewers=["bob"])
    for reader in (carol, None):
        page = visit(reader).get(address).gives()
        assert "not reviewed yet" in page.text
        assert "Withdraw" not in page.text and "Request a review" not in page.text
    with events():
        visit(carol).post(f"{address}/reviewers", reviewers="sam").gives(403)


def test_a_merged_pull_only_lists_them(visit, pull, address, alice):
    set_reviewers(access=access_of(alice, pull.repo), pull=pull, reviewers=["bob"])
    visit(alice).post(f"{address}/status", status="closed").redirects_to(address)
    page = visit(alice).get(address).gives()
    assert "not reviewed yet" in page.text and "Request a review" not in page.text


def test_authors_of_changed_lines_are_suggested_once_the_worker_has_found_them(
    visit, pull, address, alice, sam
):
    sam.email = "sam@example.org"
    sam.save()
    assert "Suggested:" not in visit(alice).get(address).gives().text
    while prepare_next_changes():
        pass
    page = visit(alice).get(address).gives()
    assert "Suggested: sam" in page.text
    assert page.find(r'<option value="sam">([^<]*)<') == "wrote 1 of the changed line"


def test_the_target_is_chosen_on_the_form(visit, pull, address, alice, events):
    person = visit(alice)
    page = person.get(f"{address}/edit").gives()
    assert page.find(r'<option value="(\w+)" selected>') == "main"
    assert '<option value="release">release</option>' in page.html
    fields = {"title": "Two places", "body": "", "target_branch": "release"}
    shown = {f"initial-{name}": value for name, value in fields.items()}
    with events("pull-target-changed"):
        sent = {**shown, **fields, "initial-target_branch": "main"}
        person.post(f"{address}/edit", **sent).redirects_to(address)
    page = person.get(address).gives()
    assert "into release from feature" in page.text
    assert "alice changed the target branch of the pull from main to release" in page.text
    with events():
        sent["initial-target_branch"] = "release"
        refused = person.post(f"{address}/edit", **{**sent, "target_branch": "gone"}).gives(422)
    assert "gone" in refused.alert()
    person.post(f"{address}/status", status="closed").redirects_to(address)
    assert "target_branch" not in person.get(f"{address}/edit").gives().html


def test_a_review_and_a_merge_are_for_the_target_that_the_page_has_shown(
    visit, pull, address, alice, bob, events
):
    page = visit(bob).get(address).gives()
    names = ("expected_head_sha", "expected_target_branch")
    shown = {name: page.value(name) for name in names}
    assert shown["expected_target_branch"] == "main"
    update_pull(access=access_of(alice, pull.repo), pull=pull, target_branch="release")
    with events():
        refused = visit(bob).post(f"{address}/reviews", status="approved", body="x", **shown)
        assert "The target branch is now release" in refused.gives(409).alert()
        for form in ("merge", "auto-merge"):
            refused = visit(bob).post(f"{address}/{form}", merge_strategy="merge", **shown)
            assert "The target branch is now release" in refused.gives(409).alert()


def test_an_outdated_form_does_not_change_the_target_back(visit, pull, address, alice, bob):
    fields = {"title": "Two places", "body": "", "target_branch": "main"}
    shown = {f"initial-{name}": value for name, value in fields.items()}
    changed = {**shown, **fields, "target_branch": "release"}
    visit(bob).post(f"{address}/edit", **changed).redirects_to(address)
    visit(alice).post(f"{address}/edit", **{**shown, **fields, "title": "Two"}).redirects_to(
        address
    )
    pull.refresh_from_db()
    assert (pull.target_branch, pull.thread.title) == ("release", "Two")
