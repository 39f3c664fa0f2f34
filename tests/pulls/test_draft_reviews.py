"""`…/pulls/{number}/reviews/draft`: reviews that only their author sees until they are sent."""

from __future__ import annotations

from functools import partial
from uuid import uuid4

import pytest

from apps.events.models import Event, Ping
from apps.pulls import jobs
from apps.pulls.actions import drafting
from apps.pulls.draft_reviews import DraftComment, DraftReview
from apps.pulls.models import Review
from apps.repos.purge import purge_user
from apps.threads.models import Reply
from apps.uploads.models import Upload
from tests.pulls import paths
from tests.races import at_once

LINES = [f"line {number}\n" for number in range(1, 41)]
TEXT = "".join(LINES)


def draft_of(pull):
    return f"{paths.reviews(pull)}/draft"


def replies(pull):
    return f"{pull.repo.api_path}/threads/{pull.number}/replies"


@pytest.fixture
def book(pull, clone):
    """The pull, whose newest version has a file `book` of 40 lines."""
    clone.push_commit("feature", {"book": TEXT})
    pull.refresh_from_db()
    return pull


def place(pull, line=5, **others):
    return {"commit_sha": pull.head_sha, "path": "book", "line": line, **others}


def noted(api, pull, by, body="Why?", **fields):
    """Add a comment on a line of `book` to the draft; return its record."""
    values = fields if "parent_reply_number" in fields else {**place(pull), **fields}
    return api(by).post(f"{draft_of(pull)}/comments", body=body, **values).gives(201)


def sent(api, pull, by, status="commented", **fields):
    return api(by).post(f"{draft_of(pull)}/submit", status=status, **fields).gives(201)


def test_a_draft_begins_with_its_text_and_is_changed_by_it(api, book, carol, events):
    url = draft_of(book)
    for send in (api(carol).get, api(carol).delete):
        assert "no draft review" in send(url).fails(404, "not_found")
    api(carol).put(url).fails(422, "validation_failed")
    with events():
        first = api(carol).put(url, body="So far *good*.").gives()
        again = api(carol).put(url, body="Nearly.").gives()
        assert api(carol).patch(url).gives() == again
    assert (first["status"], first["body"], first["comments"]) == ("draft", "So far *good*.", [])
    assert (again["uuid"], again["body"]) == (first["uuid"], "Nearly.")
    assert again["pull_number"] == book.number
    assert api(carol).get(url).gives() == again
    api(carol).delete(url).gives(204)
    api(carol).get(url).fails(404, "not_found")


def test_a_comment_keeps_its_lines_and_is_changed_and_deleted(api, book, carol, events):
    with events():
        record = noted(api, book, carol, line=6, start_line=5, kind="question")
        noted(api, book, carol, "Second.", line=9)
        url = f"{draft_of(book)}/comments/{record['uuid']}"
        edited = api(carol).patch(url, body="How?").gives()
        assert api(carol).put(url, kind="task").gives()["body"] == "How?"
        assert api(carol).put(url, kind="answer").gives()["kind"] == "answer"
    assert record["anchor"] == {
        "commit_sha": book.head_sha,
        "path": "book",
        "side": "new",
        "start_line": 5,
        "line": 6,
        "snippet": ["line 2", "line 3", "line 4", "line 5", "line 6"],
    }
    assert (edited["kind"], edited["body"]) == ("question", "How?")
    comments = api(carol).get(draft_of(book)).gives()["comments"]
    assert [row["body"] for row in comments] == ["How?", "Second."]
    api(carol).delete(url).gives(204)
    api(carol).delete(url).fails(404, "not_found")
    [rest] = api(carol).get(draft_of(book)).gives()["comments"]
    assert rest["body"] == "Second."


def test_a_comment_is_on_lines_or_an_answer_and_its_place_is_checked(api, book, carol):
    url = f"{draft_of(book)}/comments"
    person = api(carol)
    person.post(url, body="x").fails(422, "validation_failed")
    person.post(url, body="x", parent_reply_number=1, line=1).fails(422, "validation_failed")
    person.post(url, body="x", commit_sha=book.head_sha, line=1).fails(422, "validation_failed")
    person.post(url, body="", **place(book)).fails(422, "validation_failed")
    person.post(url, body="x", **place(book, line=41)).fails(422, "line_not_found")
    person.post(url, body="x", **{**place(book), "commit_sha": "1" * 40}).fails(
        422, "commit_not_found"
    )
    person.post(url, body="x", parent_reply_number=7).fails(422, "parent_reply_not_found")
    person.get(draft_of(book)).fails(404, "not_found")
    assert not DraftReview.objects.exists()


def test_nobody_else_finds_a_draft_anywhere(api, book, alice, bob, carol, sam):
    api(carol).put(draft_of(book), body="secretword of @alice").gives()
    record = noted(api, book, carol, "secretword of @bob")
    url = f"{draft_of(book)}/comments/{record['uuid']}"
    uuid = api(carol).get(draft_of(book)).gives()["uuid"]
    reads = [f"{paths.reviews(book)}", f"{paths.pull(book)}/comments", replies(book), "/pings"]
    reads += [f"{book.repo.api_path}/threads/{book.number}", f"/events?scope=repo:{book.repo.path}"]
    reads += [f"{paths.pull(book)}/comments?review_uuid={uuid}", "/pulls?search=secretword"]
    reads += [f"{book.repo.api_path}/threads/{book.number}/participants"]
    for person in (alice, bob, sam, carol):
        for address in reads:
            assert "secretword" not in str(api(person).get(address).gives())
    for person in (alice, bob, sam):
        api(person).get(draft_of(book)).fails(404, "not_found")
        api(person).patch(url, body="x").fails(404, "not_found")
        api(person).delete(url).fails(404, "not_found")
        api(person).get(f"{paths.reviews(book)}/{uuid}").fails(404, "not_found")
        api(person).post(f"{draft_of(book)}/submit", status="approved").fails(404, "not_found")
    assert api(carol).get(draft_of(book)).gives()["comments"][0]["body"] == "secretword of @bob"


def test_a_draft_is_sent_with_all_comments_in_one_event(api, book, alice, bob, carol, events):
    answered = api(bob).post(replies(book), kind="comment", body="First.").gives(201)["number"]
    draft = api(carol).put(draft_of(book), body="Good, @alice.").gives()
    one = noted(api, book, carol, "Why, @bob?", line=6)
    two = noted(api, book, carol, "So it is.", parent_reply_number=answered)
    Ping.objects.all().delete()
    with events("review-created") as recorded:
        review = sent(api, book, carol, status="approved")
    assert (review["uuid"], review["body"]) == (draft["uuid"], "Good, @alice.")
    assert (review["status"], review["commit_sha"]) == ("approved", book.head_sha)
    assert recorded[0].data == {"status": "approved", "reply_numbers": [2, 3]}
    comment = api(alice).get(f"{replies(book)}/2").gives()
    assert (comment["uuid"], comment["body"]) == (one["uuid"], "Why, @bob?")
    assert comment["anchor"]["review_uuid"] == review["uuid"]
    assert comment["anchor"]["current"]["line"] == 6
    answer = api(alice).get(f"{replies(book)}/3").gives()
    assert (answer["uuid"], answer["parent_reply_number"]) == (two["uuid"], answered)
    of_review = f"{paths.pull(book)}/comments?review_uuid={review['uuid']}"
    assert [row["number"] for row in api(alice).get(of_review).gives()["results"]] == [2]
    pings = {ping.user.username: ping.kind for ping in Ping.objects.select_related("user")}
    assert pings == {"alice": "mention", "bob": "mention"}
    assert Ping.objects.count() == 2
    api(carol).get(draft_of(book)).fails(404, "not_found")
    assert not DraftComment.objects.exists()
    assert api(alice).get(f"{book.repo.api_path}/threads/{book.number}").gives()["reply_count"] == 3


def test_who_is_answered_and_who_opened_the_pull_are_pinged_once(api, book, alice, bob, carol):
    number = api(bob).post(replies(book), kind="comment", body="First.").gives(201)["number"]
    for _ in range(2):
        noted(api, book, carol, "Yes.", parent_reply_number=number)
    noted(api, book, carol)
    Ping.objects.all().delete()
    sent(api, book, carol)
    pings = sorted((ping.user.username, ping.kind) for ping in Ping.objects.select_related("user"))
    assert pings == [("alice", "reply"), ("bob", "reply")]


def test_a_review_without_comments_is_one_as_ever(api, book, alice, carol, events):
    api(carol).put(draft_of(book), body="").gives()
    with events("review-created") as recorded:
        review = sent(api, book, carol, status="changes_requested", body="No.")
    assert recorded[0].data == {"status": "changes_requested"}
    assert review["body"] == "No."
    assert not Ping.objects.filter(user=alice).exists()


def test_sending_checks_the_head_that_was_read(api, book, clone, carol, events):
    old = book.head_sha
    noted(api, book, carol)
    clone.push_commit("feature", {"window": "1\n"})
    url = f"{draft_of(book)}/submit?expected_head_sha={old}"
    with events():
        api(carol).post(url, status="approved").fails(409, "head_changed")
    assert len(api(carol).get(draft_of(book)).gives()["comments"]) == 1
    assert not Review.objects.exists() and not Reply.objects.exists()


def test_comments_follow_the_code_until_they_are_sent(api, book, clone, alice, carol):
    noted(api, book, carol, "Moves.", line=5)
    noted(api, book, carol, "Goes.", line=20)
    clone.push_commit("feature", {"book": "new\n" + TEXT.replace("line 20\n", "line twenty\n")})
    sent(api, book, carol)
    moved, gone = (api(alice).get(f"{replies(book)}/{n}").gives()["anchor"] for n in (1, 2))
    assert (moved["current"]["line"], moved["is_outdated"]) == (6, False)
    assert (gone["current"], gone["outdated_reason"]) == (None, "changed")
    assert gone["snippet"][-1] == "line 20"


def test_comments_on_a_deleted_file_and_answers_to_deleted_replies_are_sent(
    api, book, clone, alice, bob, carol
):
    number = api(bob).post(replies(book), kind="comment", body="First.").gives(201)["number"]
    noted(api, book, carol, "On a file.")
    noted(api, book, carol, "Answer.", parent_reply_number=number)
    api(bob).delete(f"{replies(book)}/{number}").gives(204)
    clone.commit("feature", {"arch": "open\n"}, onto="main", message="without the book")
    clone.push("feature")
    sent(api, book, carol)
    on_file = api(alice).get(f"{replies(book)}/2").gives()
    assert on_file["anchor"]["outdated_reason"] == "file_deleted"
    assert api(alice).get(f"{replies(book)}/3").gives()["parent_reply_number"] == number
    assert api(alice).get(f"{replies(book)}/{number}").gives()["is_deleted"] is True


@pytest.mark.parametrize("status", ["closed", "draft"])
def test_a_draft_stays_whatever_becomes_of_the_pull(api, book, alice, carol, status):
    noted(api, book, carol)
    api(alice).put(f"{paths.pull(book)}/status", status=status).gives()
    assert len(api(carol).get(draft_of(book)).gives()["comments"]) == 1
    assert sent(api, book, carol)["status"] == "commented"


def test_a_draft_waits_for_the_return_of_lost_access(api, book, carol):
    noted(api, book, carol)
    repo = book.repo
    repo.visibility = "private"
    repo.save(update_fields=["visibility"])
    assert api(carol).get(draft_of(book)).status in {403, 404}
    assert api(carol).post(f"{draft_of(book)}/submit", status="approved").status in {403, 404}
    repo.visibility = "internal"
    repo.save(update_fields=["visibility"])
    assert len(api(carol).get(draft_of(book)).gives()["comments"]) == 1
    repo.is_archived = True
    repo.save(update_fields=["is_archived"])
    api(carol).put(draft_of(book), body="x").fails(409, "repo_archived")
    assert len(api(carol).get(draft_of(book)).gives()["comments"]) == 1


def test_two_tabs_lose_nothing(api, book, carol):
    first = noted(api, book, carol, "One.", line=1)
    noted(api, book, carol, "Two.", line=2)
    url = f"{draft_of(book)}/comments/{first['uuid']}"
    api(carol).put(url, body="One, by the first tab.").gives()
    api(carol).put(draft_of(book), body="Text.").gives()
    api(carol).put(url, body="One, by the second tab.").gives()
    draft = api(carol).get(draft_of(book)).gives()
    assert draft["body"] == "Text."
    assert [row["body"] for row in draft["comments"]] == ["One, by the second tab.", "Two."]


def test_a_comment_that_another_tab_adds_while_the_draft_is_sent_is_sent_too(
    api, book, alice, carol, monkeypatch
):
    noted(api, book, carol, "One.")
    prepare = drafting._anchors_of

    def meanwhile(*args):
        anchors = prepare(*args)
        noted(api, book, carol, "Two.", line=7)
        return anchors

    monkeypatch.setattr(drafting, "_anchors_of", meanwhile)
    sent(api, book, carol)
    bodies = [row["body"] for row in api(alice).get(replies(book)).gives()["results"]]
    assert bodies == ["One.", "Two."]
    assert jobs.follow_next_comments()
    assert api(alice).get(f"{replies(book)}/2").gives()["anchor"]["current"]["line"] == 7


def test_a_comment_after_sending_begins_another_draft(api, book, alice, carol):
    noted(api, book, carol, "One.")
    sent(api, book, carol)
    noted(api, book, carol, "Two.")
    assert [row["body"] for row in api(alice).get(replies(book)).gives()["results"]] == ["One."]
    assert len(api(carol).get(draft_of(book)).gives()["comments"]) == 1


def test_a_draft_has_a_hundred_comments_at_most(api, book, carol, monkeypatch):
    monkeypatch.setattr(drafting, "DRAFT_COMMENTS_MAX", 2)
    for _ in range(2):
        noted(api, book, carol)
    answer = api(carol).post(f"{draft_of(book)}/comments", body="x", **place(book))
    answer.fails(409, "draft_limit")
    sent(api, book, carol)
    noted(api, book, carol)


def test_a_repeated_post_adds_one_comment_and_sends_one_review(api, book, carol):
    key = {"Idempotency-Key": str(uuid4())}
    url = f"{draft_of(book)}/comments"
    body = {"body": "Why?", **place(book)}
    first = api(carol).send("POST", url, body=body, headers=key).gives(201)
    assert api(carol).send("POST", url, body=body, headers=key).gives(201) == first
    assert DraftComment.objects.count() == 1
    key = {"Idempotency-Key": str(uuid4())}
    url, body = f"{draft_of(book)}/submit", {"status": "approved"}
    review = api(carol).send("POST", url, body=body, headers=key).gives(201)
    assert api(carol).send("POST", url, body=body, headers=key).gives(201) == review
    assert (Review.objects.count(), Reply.objects.count()) == (1, 1)
    api(carol).post(url, status="approved").fails(404, "not_found")


def test_bodies_are_html_if_asked(api, book, carol):
    api(carol).put(draft_of(book), body="*Good*").gives()
    noted(api, book, carol, "**Why?**")
    draft = api(carol).get(f"{draft_of(book)}?render=html").gives()
    assert draft["body_html"] == "<p><em>Good</em></p>\n"
    assert draft["comments"][0]["body_html"] == "<p><strong>Why?</strong></p>\n"
    assert "body_html" not in api(carol).get(draft_of(book)).gives()


def test_uploads_of_a_draft_stay_with_its_texts(api, make, book, carol):
    uploads = [make.upload(book.repo, by=carol) for _ in range(2)]
    addresses = [f"/uploads/{upload.uuid}" for upload in uploads]
    api(carol).put(draft_of(book), body=f"![a]({addresses[0]})").gives()
    noted(api, book, carol, f"![b]({addresses[1]})")
    assert Upload.objects.filter(is_used=True).count() == 2
    api(carol).delete(draft_of(book)).gives(204)
    assert Upload.objects.filter(is_used=True).count() == 0


def test_a_deleted_account_leaves_no_draft(api, book, carol):
    noted(api, book, carol)
    purge_user(carol)
    assert not DraftReview.objects.exists() and not DraftComment.objects.exists()


def test_reading_costs_the_same_with_many_comments(api, book, carol, django_assert_max_num_queries):
    for line in range(1, 12):
        noted(api, book, carol, line=line)
    with django_assert_max_num_queries(7):
        assert len(api(carol).get(draft_of(book)).gives()["comments"]) == 11
    assert Event.objects.filter(kind__startswith="review").count() == 0


@pytest.mark.slow
@pytest.mark.django_db(transaction=True)
def test_a_draft_that_is_sent_twice_at_once_is_one_review(api, book, carol):
    noted(api, book, carol)
    send = partial(api(carol).post, f"{draft_of(book)}/submit", status="approved")
    assert at_once(send, send) == {(201, None): 1, (404, "not_found"): 1}
    assert (Review.objects.count(), Reply.objects.count()) == (1, 1)


@pytest.mark.slow
@pytest.mark.django_db(transaction=True)
def test_comments_that_are_written_while_the_draft_is_sent_are_not_lost(api, book, carol):
    noted(api, book, carol, "First.")
    add = partial(api(carol).post, f"{draft_of(book)}/comments", body="More.", **place(book))
    send = partial(api(carol).post, f"{draft_of(book)}/submit", status="approved")
    assert at_once(add, send, add, add) == {(201, None): 4}
    assert Reply.objects.count() + DraftComment.objects.count() == 4
    assert Review.objects.count() == 1
