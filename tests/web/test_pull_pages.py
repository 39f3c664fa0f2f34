"""The pages of pulls: conditions, reviews, merging."""

import re
from pathlib import Path
from typing import Any

import pytest

from apps.pulls.actions import comment_on_line, set_auto_merge
from apps.pulls.models import Pull, PullStatus, Review
from apps.pulls.places import LinePlace
from apps.pulls.queries import get_pull
from apps.repos.actions import add_approver, update_protection
from apps.statuses.actions import create_status
from apps.teams.actions import create_bot
from apps.threads import serializers
from apps.threads.actions import update_reply
from tests.git.stand_ins import failing_git
from tests.gitclient import Clone
from tests.principals import access_of, team_access_of


@pytest.fixture
def clone(tmp_path: Path, team_repo, alice) -> Clone:
    clone = Clone(tmp_path / "clone", team_repo, alice)
    clone.commit("main", {"README": "A place to meet.\n"}, message="begin")
    clone.push("main")
    clone.commit("feature", {"arch": "open\n"}, onto="main", message="add an arch")
    clone.push("feature")
    return clone


@pytest.fixture
def pull(make, clone: Clone, alice) -> Pull:
    made: Pull = make.pull(clone.repo, by=alice, title="Add an arch", body="See *arch*.")
    return made


@pytest.fixture
def address(pull: Pull) -> str:
    return f"/{pull.repo.path}/pulls/{pull.number}"


def conditions(html: str) -> list[bool]:
    """Which conditions on the page are met, in their order."""
    found = re.search(r'<ul class="checks">(.*)</ul>', html, re.DOTALL)
    assert found
    return [words == "Met: " for words in re.findall(r'<span class="unseen">([\w ]+: )', found[1])]


def test_a_pull_that_can_be_merged_is_merged_from_its_page(visit, pull, address, alice, events):
    person = visit(alice)
    page = person.get(address).gives()
    assert page.h1 == f"Add an arch #{pull.number}" and "<em>arch</em>" in page.html
    assert conditions(page.html) == [True] * 6 and "Can be merged" in page.text
    seen = page.find(r'name="expected_head_sha" value="([0-9a-f]{40})"')
    sent = {"merge_strategy": "squash", "expected_head_sha": seen}
    with events("branch-pushed", "pull-merged"):
        person.post(f"{address}/merge", **sent).redirects_to(f"{address}#verdict")
    page = person.get(address)
    assert "Merged by alice" in page.text and "Merge</button>" not in page.html


def test_all_conditions_are_shown_at_once_and_a_refused_merge_shows_them_again(
    visit, make, pull, address, clone, alice, bob, events
):
    protection = make.protection(pull.repo, by=alice)
    access = access_of(alice, pull.repo)
    update_protection(access=access, protection=protection, required_approvals=1)
    make.review(pull, by=bob, status="changes_requested")
    clone.commit("main", {"arch": "closed\n"}, onto="main", message="close it")
    clone.push("main")
    visit(alice).post(f"{address}/status", status="draft").redirects_to(address)
    page = visit(alice).get(address).gives()
    assert conditions(page.html) == [False, True, True, False, False, False]
    assert "4 conditions not met" in page.text and 'aria-disabled="true"' in page.html
    assert "arch" in page.text and "Changes are requested by bob" in page.text
    assert '<option value="merge">Merge commit</option>' in page.html
    with events():
        sent = {"merge_strategy": "merge", "expected_head_sha": pull.head_sha}
        refused = visit(alice).post(f"{address}/merge", **sent)
    assert conditions(refused.gives(409).html) == conditions(page.html)
    assert "is a draft" in refused.alert() and "change the same lines" in refused.alert()
    assert not re.search(r"[a-z]_[a-z]", refused.alert())


def test_a_bot_that_has_set_an_auto_merge_is_labelled(visit, make, pull, address, acme, alice):
    bot = create_bot(access=team_access_of(alice, acme), username="ci").user
    make.protection(pull.repo, by=alice)
    set_auto_merge(access=access_of(bot, pull.repo), pull=pull)
    assert "ci bot has set this to merge when it is ready" in visit(alice).get(address).text


def test_a_pull_is_set_to_merge_when_it_is_ready_and_cancelled_on_its_page(
    visit, make, pull, address, alice, carol, events
):
    person = visit(alice)
    assert "Merge when ready" not in person.get(address).text
    make.protection(pull.repo, by=alice)
    page = person.get(address).gives()
    assert f'<button formaction="{address}/auto-merge">Merge when ready</button>' in page.html
    sent = {"merge_strategy": "squash", "expected_head_sha": page.value("expected_head_sha")}
    with events("auto-merge-set"):
        person.post(f"{address}/auto-merge", **sent).redirects_to(f"{address}#verdict")
    for part in (address, f"{address}/verdict"):
        page = person.get(part).gives()
        assert "alice has set this to merge when it is ready (Squash into one commit)" in page.text
        assert "Merge when ready" not in page.text
    with events("auto-merge-ended"):
        for _ in range(2):
            cancelled = person.post(f"{address}/auto-merge/cancel")
            cancelled.redirects_to(f"{address}#verdict")
    page = person.get(address)
    assert "Merge when ready" in page.text
    assert "ended the auto-merge of the pull: cancelled" in page.text
    pull.repo.visibility = "public"
    pull.repo.save()
    assert "Merge when ready" not in visit(carol).get(address).text


def test_a_pull_that_git_cannot_merge_is_not_set_to_merge(
    visit, make, pull, address, clone, alice, events
):
    clone.push_commit("main", {"arch": "closed\n"}, onto="main", message="close it")
    assert "Merge when ready" not in visit(alice).get(address).gives().text
    sent = {"merge_strategy": "merge", "expected_head_sha": "0" * 40}
    with events():
        refused = visit(alice).post(f"{address}/auto-merge", **sent).gives(409)
    assert "The head is now" in refused.alert()


def test_who_can_approve_is_named_where_no_approver_is(
    visit, make, pull, address, alice, bob, carol
):
    everybody = "Can approve: everybody with write access to teams/acme/api"
    assert everybody not in visit(alice).get(address).text
    protection = make.protection(pull.repo, by=alice)
    members = 'href="/teams/acme/~members">teams/acme/api</a>'
    for part in (address, f"{address}/verdict"):
        page = visit(alice).get(part).gives()
        assert everybody in page.text and members in page.html
        assert "named below" not in page.text
    add_approver(access=access_of(alice, pull.repo), protection=protection, user=bob)
    page = visit(alice).get(address).gives()
    assert "Can approve: bob" in page.text and everybody not in page.text
    pull.repo.visibility = "public"
    pull.repo.save()
    protection.approvers.all().delete()
    page = visit(carol).get(address).gives()
    assert everybody in page.text and members not in page.html


def test_a_closed_pull_says_so_and_is_opened_again_from_there(visit, pull, address, alice, carol):
    person = visit(alice)
    person.post(f"{address}/status", status="closed").redirects_to(address)
    pull.repo.visibility = "public"
    pull.repo.save()
    for part in (address, f"{address}/verdict"):
        closed = person.get(part).gives()
        assert "Closed without a merge" in closed.text and "mergeable" not in closed.text
        assert " open</a>" not in closed.html and closed.html.count("Reopen") == 1
        assert closed.value("expected_head_sha") == pull.head_sha
        assert "Reopen" not in visit(carol).get(part).gives().html
    person.post(f"{address}/status", status="open").redirects_to(address)
    assert "Can be merged" in person.get(address).text


def test_a_closed_pull_can_be_opened_again_while_git_fails(
    visit, pull, address, clone, alice, tmp_path, monkeypatch
):
    person = visit(alice)
    clone.commit("main", {"hall": "long\n"}, onto="main", message="nobody has asked about this")
    clone.push("main")
    person.post(f"{address}/status", status="closed").redirects_to(address)
    with failing_git(tmp_path, monkeypatch, status=128):
        for part in (address, f"{address}/verdict"):
            closed = person.get(part).gives()
            assert "Closed without a merge" in closed.text and "Reopen" in closed.html
        person.post(f"{address}/status", status="open").redirects_to(address)
        assert "Git did not tell in time" in person.get(address).gives().text


def test_after_a_refused_review_the_links_to_long_texts_lead_to_the_page_of_the_pull(
    visit, make, pull, address, bob, monkeypatch
):
    monkeypatch.setattr(serializers, "HTML_MAX", 64 * 1024)
    for number in range(1, 3):
        make.reply(pull.thread, by=bob, body="- a\n" * 4000 + f"\nLast {number}")
    review = {"status": "approved", "body": "", "expected_head_sha": "1" * 40}
    page = visit(bob).post(f"{address}/reviews", **review).gives(409)
    [link] = re.findall(r'<a href="([^"#]*)#[^"]*">A long text: open it</a>', page.html)
    assert link.startswith(f"{address}?show=")
    assert "Last 2" in visit(bob).get(link).gives().text


def test_what_was_not_seen_is_neither_merged_nor_approved(
    visit, pull, address, clone, alice, bob, events
):
    seen = pull.head_sha
    clone.commit("feature", {"arch": "wide\n"}, onto="feature", message="widen")
    clone.push("feature")
    with events():
        merge = {"merge_strategy": "merge", "expected_head_sha": seen}
        assert "head" in visit(alice).post(f"{address}/merge", **merge).gives(409).alert()
        approval = {"status": "approved", "body": "Fine so.", "expected_head_sha": seen}
        page = visit(bob).post(f"{address}/reviews", **approval).gives(409)
    assert "Fine so." in page.html and not Review.objects.exists()


def test_reviews_replies_and_pushes_stand_in_one_conversation(
    visit, make, pull, address, clone, alice, bob, events
):
    person = visit(bob)
    with events("review-created"):
        person.post(f"{address}/reviews", status="approved", body="**Good**", expected_head_sha="")
    with events("reply-created"):
        replies = f"/{pull.repo.path}/threads/{pull.number}/replies"
        person.post(replies, kind="comment", body="When?").redirects_to(f"{address}#reply-1")
    clone.commit("feature", {"arch": "wide\n"}, onto="feature", message="widen")
    clone.push("feature")
    page = person.get(address).gives()
    order = re.findall(r'<li id="(review|reply|event)-', page.html)
    assert order == ["review", "reply", "event"]
    assert "<strong>Good</strong>" in page.html and "stale" in page.text
    form = person.get(f"/{pull.repo.path}/threads/{pull.number}/replies/1/reply").gives()
    assert form.h1 == page.h1 and "Reply to bob, reply 1" in form.text
    assert "<title>Reply to bob, reply 1 · Add an arch" in form.html


def test_a_refused_reply_to_a_pull_shows_the_pull_and_keeps_its_text(visit, pull, bob):
    replies = f"/{pull.repo.path}/threads/{pull.number}/replies"
    page = visit(bob).post(replies, kind="no such kind", body="Long thought").gives(422)
    assert page.h1.startswith("Add an arch") and "Long thought" in page.html


def test_pulls_are_opened_found_edited_and_closed(visit, clone, alice, bob, events):
    person, address = visit(alice), f"/{clone.repo.path}/pulls"
    assert "open a pull" in person.get(address).gives().text
    form = person.get(f"{address}/new?head=feature").gives()
    assert (form.value("source_branch"), form.value("target_branch")) == ("feature", "main")
    wanted = {"source_branch": "feature", "target_branch": "main", "body": "", "status": "draft"}
    with events("pull-created"):
        person.post(f"{address}/new", title="Arch", **wanted).redirects_to(f"{address}/1")
    again = person.post(f"{address}/new", title="Arch once more", **wanted).gives(409)
    assert "already" in again.alert() and again.value("title") == "Arch once more"
    assert "Arch" in person.get(f"{address}?status=draft&search=arc").gives().text
    assert "No pull matches" in person.get(f"{address}?status=merged").text
    with events("pull-updated"):
        person.post(f"{address}/1/edit", title="An arch", body="")
    with events("pull-readied", "pull-closed"):
        person.post(f"{address}/1/status", status="open")
        person.post(f"{address}/1/status", status="closed")
    assert get_pull(clone.repo, 1).status == PullStatus.CLOSED
    visit(bob).get(f"{address}/1/edit").gives()


def test_who_only_reads_is_offered_no_merge(visit, pull, address, carol):
    pull.repo.visibility = "public"
    pull.repo.save()
    for person in (visit(), visit(carol)):
        page = person.get(address).gives()
        assert "/merge" not in page.html and f"{address}/edit" not in page.html


def test_resolved_comments_are_counted_among_the_conditions(visit, make, pull, address, alice, bob):
    assert "comments on lines" not in visit(alice).get(address).gives().text
    place = LinePlace(str(pull.head_sha), b"arch", 1, None, "new")
    access = access_of(bob, pull.repo)
    replies = [
        comment_on_line(access=access, pull=pull, place=place, body="Why?") for _ in range(3)
    ]
    update_reply(access=access, reply=replies[0], status="resolved")
    page = visit(alice).get(address).gives()
    assert "1 of 3 comments on lines resolved; this does not block a merge" in page.text
    assert conditions(page.html) == [True] * 7
    protection = make.protection(pull.repo, by=alice)
    settings: Any = {"required_approvals": 0, "resolved_required": True}
    update_protection(access=access_of(alice, pull.repo), protection=protection, **settings)
    for part in (address, f"{address}/verdict"):
        page = visit(alice).get(part).gives()
        assert "1 of 3 comments on lines resolved. Answer them" in page.text
        assert conditions(page.html) == [True] * 6 + [False]
        assert "Merge when ready" in page.text
    assert "2 comments on lines to resolve" in visit(alice).get("/").gives().text
    for reply in replies[1:]:
        update_reply(access=access, reply=reply, status="resolved")
    page = visit(alice).get(address).gives()
    assert "3 of 3 comments on lines resolved" in page.text and "Can be merged" in page.text


def test_required_statuses_are_listed_with_who_can_report_them(
    visit, make, pull, address, alice, bob
):
    protection = make.protection(pull.repo, by=alice)
    access = access_of(alice, pull.repo)
    both: dict[str, Any] = {"required_statuses": ["ci/build"], "status_reporters": ["bob"]}
    update_protection(access=access, protection=protection, required_approvals=0, **both)
    page = visit(alice).get(address).gives()
    assert "ci/build : not reported." in page.text and "Can report: bob" in page.text
    create_status(
        access=access_of(bob, pull.repo),
        sha=pull.head_sha,
        context="ci/build",
        state="success",
        description="3 <jobs>",
        target_url="https://ci.example.org/7",
    )
    page = visit(alice).get(address).gives()
    assert "Checks passed" in page.text and "Can be merged" in page.text
    commit = f"/{pull.repo.path}/commits/{pull.head_sha}"
    assert f'href="{commit}#checks"' in page.html
    page = visit(alice).get(commit).gives()
    assert 'href="https://ci.example.org/7"' in page.html and "3 <jobs>" in page.text
    for shown in ("pulls", "commits?ref=feature", "branches"):
        assert "Checks passed" in visit(alice).get(f"/{pull.repo.path}/{shown}").gives().text
