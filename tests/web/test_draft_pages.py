"""Draft reviews and suggestions on the pages of a pull, without scripts."""

from __future__ import annotations

import re

import pytest

from apps.events.models import Event
from apps.pulls.draft_reviews import DraftComment, DraftReview
from apps.pulls.models import Review
from apps.threads.models import Reply
from apps.web import line_comments, review_pages
from tests.test_queries import costing
from tests.web.page_client import plain
from tests.web.test_pull_files import (
    address,
    anchor_in,
    base,
    comment_on,
    pull,
    push_head,
    section,
    text,
)

__all__ = ["address", "base", "pull", "push_head"]
pytestmark = pytest.mark.once
BADGE = "Draft, only you see it"
NOTICED = re.compile(r"/draft/|draft comment|name=.draft|Draft, only")
ACTION = r'<form class="tight" method="post" action="([^"]*)#say-line"'


@pytest.fixture
def anchor(visit, address, bob):
    return anchor_in(visit(bob).get(f"{address}/files").gives(), "app/main.py")


def draft_on(person, address, place, body="Half a thought."):
    comment_on(person, address, place, body, draft="yes").gives(303)
    return DraftComment.objects.latest("pk")


def test_a_review_is_started_and_sent_with_its_comments(visit, address, anchor, bob, alice):
    person, author = visit(bob), visit(alice)
    form = person.get(f"{address}/files?comment={anchor}-n50").gives()
    assert "Start a review" in form.text and "Add to review" not in form.text
    for path in (address, f"{address}/files"):
        assert not NOTICED.search(person.get(path).gives().html)
    sent = comment_on(person, address, f"{anchor}-n50", "Half a thought.", draft="yes")
    sent.redirects_to(f"{address}/files?open={anchor}#{anchor}-n50")
    main = section(person.get(f"{address}/files").gives(), "app/main.py")
    row = re.search(rf'<tr id="{anchor}-n50".*?<tr class="below">(.*?)</tr>', main, re.DOTALL)
    assert row and BADGE in row[1] and "Half a thought." in row[1]
    form = person.get(f"{address}/files?comment={anchor}-n51").gives()
    assert "Add to review" in form.text and "Start a review" not in form.text
    for path in (address, f"{address}/files"):
        page, others = person.get(path).gives(), author.get(path).gives()
        assert "1 draft comment" in page.text and page.value("draft")
        assert not NOTICED.search(others.html) and "Half a thought." not in others.text
    comment_on(author, address, f"{anchor}-n48", "Sent at once.").gives(303)
    assert Reply.objects.count() == 1 and not Review.objects.exists()
    sent = {name: page.value(name) for name in ("draft", "expected_head_sha")}
    person.post(f"{address}/reviews", status="changes_requested", body="See below.", **sent)
    review = Review.objects.get()
    assert (review.status, review.body) == ("changes_requested", "See below.")
    assert Reply.objects.latest("number").body == "Half a thought."
    assert Event.objects.filter(kind="review-created").count() == 1
    assert not DraftReview.objects.exists() and BADGE not in person.get(f"{address}/files").text
    late = person.post(f"{address}/reviews", status="approved", body="Twice.", **sent).gives(404)
    assert "no draft review" in late.alert() and "Twice." in late.html


def test_a_draft_comment_is_edited_deleted_and_discarded(visit, address, anchor, bob, alice):
    person = visit(bob)
    comment = draft_on(person, address, f"{anchor}-n50")
    below = f"{address}/draft/{comment.uuid}"
    here = f"{address}/files?open={anchor}#draft-{comment.uuid}"
    page = person.get(f"{address}/files").gives()
    assert f'href="{below}/edit"' in page.html and f'href="{below}/delete"' in page.html
    page = person.get(f"{below}/edit").gives()
    assert "Half a thought." in page.html
    fields = page.inputs() | {"kind": "question"}
    person.post(f"{below}/edit", **fields, body=" ").gives(422)
    preview = person.post(f"{below}/edit", **fields, body="**so**", preview="yes").gives()
    assert "<strong>so</strong>" in preview.html
    person.post(f"{below}/edit", **fields, body="A whole one?").redirects_to(here)
    comment.refresh_from_db()
    assert (comment.kind, comment.body) == ("question", "A whole one?")
    for path in (f"{below}/edit", f"{below}/delete", f"{address}/draft/discard"):
        visit(alice).get(path).gives(404)
        visit(alice).post(path, kind="comment", body="Mine.").gives(404)
        visit().post(path).gives(401)
    assert "Delete draft comment?" in person.get(f"{below}/delete").gives().text
    person.post(f"{below}/delete").redirects_to(f"{address}/files")
    assert not DraftComment.objects.exists() and DraftReview.objects.exists()
    draft_on(person, address, f"{anchor}-n50")
    assert "its 1 comment" in person.get(f"{address}/draft/discard").gives().text
    person.post(f"{address}/draft/discard").redirects_to(f"{address}/files")
    assert not DraftReview.objects.exists()
    person.get(f"{address}/draft/discard").gives(404)


def test_a_draft_answers_comments_and_stands_at_its_file_after_a_push(
    visit, address, anchor, push_head, bob, alice
):
    person = visit(bob)
    comment_on(visit(alice), address, f"{anchor}-n50").gives(303)
    page = person.get(f"{address}/files?reply=1").gives()
    assert "Start a review" in page.text
    sent = person.post(page.find(ACTION), kind="answer", body="Because.", draft="yes").gives(303)
    uuid = DraftComment.objects.get().uuid
    assert sent.header("Location") == f"{address}/files#draft-{uuid}"
    main = section(person.get(f"{address}/files").gives(), "app/main.py")
    comment = re.search(r'id="comment-1".*?Because\..*?</td>', main, re.DOTALL)
    assert comment and BADGE in comment[0]
    draft_on(person, address, f"{anchor}-n48", "On the first version.")
    push_head({b"app/main.py": text(l50="other", l48="more")})
    main = section(person.get(f"{address}/files").gives(), "app/main.py")
    assert main.index("On the first version.") < main.index("<table")
    assert "On line 48 at" in main
    push_head({b"app/main.py": text()})
    page = person.get(f"{address}/files").gives()
    assert "Draft comments beside these changes" in page.text
    assert "On the first version." in page.text
    old = person.get(f"{address}/files?version=1").gives()
    assert "Show the newest version to send them" in old.text
    assert not re.search("Approve|Request changes", old.text)


def test_the_number_of_queries_does_not_depend_on_drafts(visit, address, anchor, bob):
    person, costs = visit(bob), []
    for number in (48, 49, 51, 52):
        draft_on(person, address, f"{anchor}-n{number}")
        for path in (address, f"{address}/files"):
            person.get(path).gives()
            with costing() as cost:
                person.get(path).gives()
            costs.append((cost.sql, cost.git))
    assert len({*costs[::2]}) == len({*costs[1::2]}) == 1
    assert costs[1][0] <= 22 and costs[1][1] == 0


def test_a_draft_is_written_by_those_who_may_review(visit, address, anchor, pull, bob, carol):
    fields = {"kind": "comment", "body": "b", "draft": "yes"}
    path = f"{address}/comments/{anchor}-n50?at=1"
    visit().post(path, **fields).gives(401)
    visit(carol).post(path, **fields).gives(403)
    comment = draft_on(visit(bob), address, f"{anchor}-n50")
    pull.repo.is_archived = True
    pull.repo.save()
    visit(bob).post(path, **fields).gives(409)
    for below in (f"{comment.uuid}/delete", "discard"):
        visit(bob).post(f"{address}/draft/{below}").gives(409)
    page = visit(bob).get(f"{address}/files").gives()
    assert BADGE in page.text and f"/draft/{comment.uuid}" not in page.html


SUGGESTED = "Better so:\n\n```suggestion\nbetter <b>\nmore\n```\n"


def test_a_suggestion_begins_with_the_lines(visit, address, anchor, push_head, bob):
    person = visit(bob)
    page = person.get(f"{address}/files?comment={anchor}-n49-50").gives()
    link = page.find(r'<a class="small" href="([^"]*)" data-suggest=')
    block = page.find(r'data-suggest="([^"]*)"')
    assert block == "```suggestion\nline 49\nother\n```\n"
    page = person.get(link.partition("#")[0]).gives()
    assert (
        block
        in page.find(r'<textarea[^>]*id="line_body"[^>]*>(.*?)</textarea>').replace("\r", "") + "\n"
    )
    assert '<option value="suggestion" selected' in page.html
    push_head({b"app/main.py": text(l50="````", l51="\xff")})
    page = person.get(f"{address}/files?comment={anchor}-n50-50").gives()
    assert page.find(r'data-suggest="([^"]*)"').startswith("`````suggestion\n````\n`````")
    for place in (f"{anchor}-o50", "f000000000000-n1"):
        page = person.get(f"{address}/files?comment={place}").gives()
        assert "Suggest a change" not in page.text


def test_a_suggestion_is_shown_and_applied(visit, address, anchor, pull, bob, alice, carol):
    person, writer = visit(bob), visit(alice)
    pull.repo.visibility = "public"
    pull.repo.save()
    comment_on(person, address, f"{anchor}-n49-50", SUGGESTED, kind="suggestion").gives(303)
    for path in (address, f"{address}/files"):
        page = writer.get(path).gives()
        table = re.search(r'<table[^>]* aria-label="Suggested.*?</table>', page.html, re.DOTALL)
        rows = re.findall(r'<td class="c (\w+)">(.*?)</td>', table[0]) if table else []
        old, new = [("del", "line 49"), ("del", "other")], [("add", "better &lt;b&gt;")]
        assert rows == [*old, *new, ("add", "more")]
        assert f'href="{address}/apply-suggestions?comments=1"' in page.html
        assert "Apply 1 suggestion" in page.text and "<pre><code>better" not in page.html
        assert "apply-suggestions" not in visit(carol).get(path).gives().html
    visit(carol).get(f"{address}/apply-suggestions").gives(403)
    form = f"{address}/apply-suggestions?comments=1"
    page = writer.get(form).gives()
    assert "better <b>" in page.text and page.inputs()["comments"] == "1"
    head = {"expected_head_sha": page.value("expected_head_sha")}
    empty = writer.post(form, **head, message="Why not").gives(422)
    assert "Choose at least one." in empty.alert() and "Why not" in empty.html
    wrong = writer.post(form, expected_head_sha="1" * 40, comments=[1]).gives(409)
    assert "head" in wrong.alert()
    done = writer.post(form, **head, comments=[1], message="Sing")
    done.redirects_to(f"{address}/files#comment-1")
    page = writer.get(f"{address}/files").gives()
    assert "more" in lines(section(page, "app/main.py"))
    assert "Resolved: bob" in page.text and "apply-suggestions" not in page.find("(<main.*)")
    again = writer.post(form, **head, comments=[1]).gives(409)
    assert again.alert()


def lines(html):
    cells = re.findall(r'<td class="c add">(.*?)</td>', html)
    return [plain(cell) for cell in cells]


def test_several_suggestions_become_one_commit_and_refusals_say_why(
    visit, address, anchor, push_head, bob, alice, monkeypatch
):
    person, writer = visit(bob), visit(alice)
    block = "```suggestion\n{}\n```"
    for place, body in (
        (f"{anchor}-n49", block.format("a")),
        (f"{anchor}-n50", block.format("b")),
        (f"{anchor}-n51", block.format("c")),
        (f"{anchor}-o50", block.format("d")),
        (f"{anchor}-n52", block.format("e") + "\n\n" + block.format("f")),
        (f"{anchor}-n48", "No suggestion."),
    ):
        comment_on(person, address, place, body, kind="suggestion").gives(303)
    page = writer.get(address).gives()
    assert "Apply 3 suggestions" in page.text
    assert "because the pull removes the lines" in page.text
    assert "This comment has several suggestions." in page.text
    push_head({b"app/main.py": text(l50="again another")})
    page = writer.get(f"{address}/files").gives()
    assert "Apply 2 suggestions" in page.text
    assert "This cannot be applied: the lines have changed since." in page.text
    page = writer.get(f"{address}/apply-suggestions").gives()
    assert re.findall(r'name="comments" value="(\d)" checked', page.html) == ["1", "3"]
    with monkeypatch.context() as patch:
        patch.setattr(review_pages, "APPLIED_MAX", 1)
        first = writer.get(f"{address}/apply-suggestions").gives()
    assert re.findall(r'name="comments" value="(\d)" checked', first.html) == ["1"]
    head = {"expected_head_sha": page.value("expected_head_sha")}
    form = f"{address}/apply-suggestions"
    late = writer.post(form, **head, comments=[1, 2], message="Both").gives(409)
    assert "The lines of comment 2 are not in the head any more" in late.alert()
    assert "Both" in late.html
    assert re.findall(r'name="comments" value="(\d)" checked', late.html) == ["1"]
    many = writer.post(form, **head, comments=[*range(51)]).gives(422)
    assert "At most 50" in many.alert()
    writer.post(form, **head, comments=[1, 3]).gives(303)
    assert {*lines(section(writer.get(f"{address}/files").gives(), "app/main.py"))} >= {"a", "c"}
    page = writer.get(f"{address}/apply-suggestions").gives()
    assert 'name="comments"' not in page.html and page.text.count("This cannot be applied") == 2


def test_further_comments_are_links_that_open_them(visit, address, anchor, pull, monkeypatch, bob):
    monkeypatch.setattr(line_comments, "COMMENTS", 2)
    person = visit(bob)
    for number in (48, 49, 51):
        comment_on(person, address, f"{anchor}-n{number}", f"On {number}.").gives(303)
    page = person.get(f"{address}/files?view=split").gives()
    assert "On 48." in page.text and "On 49." in page.text and "On 51." not in page.text
    link = page.find(r'<a href="([^"]*)" data-part>Comment by bob on line 51')
    assert link == "?view=split&comments=2#comment-3" and 'id="comment-3"' in page.html
    page = person.get(f"{address}/files{link.partition('#')[0]}").gives()
    assert "On 51." in page.text and "On 48." not in page.text
    person.get(f"{address}/files?comments=x").gives(422)
