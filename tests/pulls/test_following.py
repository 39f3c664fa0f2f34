"""Comments on lines follow the code: by pushes, by the worker, and when they are written."""

from __future__ import annotations

import datetime as dt

import pytest
from django.core.management import call_command
from django.utils import timezone

from apps.events.models import Event
from apps.git import run
from apps.pulls import following, jobs, places
from apps.pulls.actions import comment_on_line
from apps.pulls.models import Pull, PullVersion, VersionContents
from apps.pulls.places import LinePlace
from apps.threads.anchors import Anchor
from tests.gitclient import Clone
from tests.principals import access_of
from tests.pulls import paths, push_hook
from tests.pulls.forks import opened

TEXT = "".join(f"line {number}\n" for number in range(1, 41))
MIB = 1024 * 1024


@pytest.fixture
def book(pull, clone):
    """The pull, whose newest version has a file `book` of 40 lines; alice's clone is at it."""
    clone.push_commit("feature", {"book": TEXT})
    pull.refresh_from_db()
    clone.checkout("feature")
    return pull


def comments(pull):
    return f"{paths.pull(pull)}/comments"


def comment(api, pull, by, line=20, **fields):
    """Comment on a line of `book` at the pull's head; return the anchor."""
    place = {"commit_sha": pull.head_sha, "path": "book", "line": line, **fields}
    return api(by).post(comments(pull), body="Why?", **place).gives(201)["anchor"]


def anchors(api, pull, by):
    return [row["anchor"] for row in api(by).get(comments(pull)).gives()["results"]]


def place_of(anchor):
    """The path and the lines at the head; the reason if there are none."""
    current = anchor["current"]
    assert anchor["is_outdated"] is (current is None)
    if current is None:
        return anchor["outdated_reason"]
    return (current["path"], current["start_line"], current["line"])


def pushed(clone, text, *, name="book", force=False):
    """Push a commit in which `book` has this text; return it."""
    (clone.folder / name).write_text(text)
    clone.git("commit", "--quiet", "--all", "-m", "edit")
    clone.push("feature")
    return clone.sha("HEAD")


def outdated_by_last_push():
    return Event.objects.filter(kind="pull-pushed").latest("id").data["comments_outdated"]


def text_at(repo, anchor):
    """The text of the lines at the head, as git has it."""
    current = anchor["current"]
    name = f"{current['commit_sha']}:{current['path']}"
    lines = repo.git.git("cat-file", "blob", name).out.decode().split("\n")
    return "\n".join(lines[current["start_line"] - 1 : current["line"]])


def lines_above(clone):
    return pushed(clone, "new\n" * 7 + TEXT)


def rename(clone):
    clone.git("mv", "book", "novel")
    return pushed(clone, TEXT.replace("line 1\n", "first line\n"), name="novel")


def move_target(clone):
    clone.push_commit("main", {"README": "Another place.\n", "book": "other\n" + TEXT})


def rebase(clone):
    move_target(clone)
    clone.git("rebase", "--quiet", "-X", "ours", "main")
    clone.push("feature")
    return clone.sha("HEAD")


def merge(clone):
    move_target(clone)
    clone.git("merge", "--quiet", "-X", "theirs", "-m", "merge", "main")
    clone.push("feature")
    return clone.sha("HEAD")


@pytest.mark.parametrize("change", [lines_above, rename, rebase, merge])
def test_a_comment_stays_on_its_text(api, book, clone, alice, change):
    comment(api, book, alice, start_line=19, line=20)
    head = change(clone)
    [anchor] = anchors(api, book, alice)
    assert anchor["current"]["commit_sha"] == head
    assert text_at(clone.repo, anchor) == "line 19\nline 20"
    assert (anchor["path"], anchor["start_line"], anchor["line"]) == ("book", 19, 20)
    assert outdated_by_last_push() == 0
    assert Anchor.objects.get().due_at is None


def test_a_force_push_away_and_back_leaves_it_as_it_was(api, book, clone, alice):
    before = comment(api, book, alice)
    comment(api, book, alice, line=2)
    head = clone.sha("HEAD")
    pushed(clone, TEXT.replace("line 20\n", "line XX\n"))
    assert [place_of(anchor) for anchor in anchors(api, book, alice)] == [("book", 2, 2), "changed"]
    assert outdated_by_last_push() == 1
    pushed(clone, "x\n" + TEXT.replace("line 20\n", "line XX\n"))
    assert outdated_by_last_push() == 0
    clone.git("reset", "--quiet", "--hard", head)
    clone.push("feature")
    assert anchors(api, book, alice)[1] == before
    assert outdated_by_last_push() == 0


def test_a_comment_on_an_earlier_version_is_shown_where_its_lines_are_now(api, book, clone, alice):
    seen = book.head_sha
    head = lines_above(clone)
    anchor = comment(api, book, alice, commit_sha=seen)
    assert (anchor["commit_sha"], anchor["line"]) == (seen, 20)
    assert anchor["current"] == {
        "commit_sha": head,
        "path": "book",
        "start_line": 27,
        "line": 27,
    }
    pushed(clone, "one line\n")
    gone = comment(api, book, alice, commit_sha=seen, line=21)
    assert (gone["is_outdated"], gone["outdated_reason"]) == (True, "changed")


def test_a_comment_on_an_earlier_version_is_left_to_the_worker_if_git_has_no_time(
    api, book, clone, alice, monkeypatch
):
    seen = book.head_sha
    lines_above(clone)
    with monkeypatch.context() as patch:
        patch.setattr(places, "PUSH_SECONDS", 0.0)
        anchor = comment(api, book, alice, commit_sha=seen)
    assert anchor["current"]["commit_sha"] == seen
    assert jobs.follow_next_comments()
    assert not jobs.follow_next_comments()
    assert place_of(anchors(api, book, alice)[0]) == ("book", 27, 27)


def test_a_push_while_somebody_comments_makes_the_comment_due(api, book, clone, alice):
    before = Pull.objects.select_related("thread__created_by").get()
    before.repo = clone.repo
    head = lines_above(clone)
    place = LinePlace(str(before.head_sha), b"book", 20)
    comment_on_line(access=access_of(alice, clone.repo), pull=before, place=place, body="Why?")
    assert anchors(api, book, alice)[0]["current"]["commit_sha"] == book.head_sha
    assert jobs.follow_next_comments()
    assert anchors(api, book, alice)[0]["current"]["commit_sha"] == head


def deleted(clone):
    clone.git("rm", "--quiet", "book")


def binary(clone):
    (clone.folder / "book").write_text(TEXT + "\0")


def large(clone):
    (clone.folder / "book").write_text(TEXT + "x" * (2 * MIB))


def link(clone):
    (clone.folder / "book").unlink()
    (clone.folder / "book").symlink_to("README")


def gone(clone):
    (clone.folder / "book").write_text(TEXT.replace("line 20\n", ""))


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (deleted, "file_deleted"),
        (binary, "binary"),
        (large, "too_large"),
        (link, "file_deleted"),
        (gone, "line_gone"),
    ],
)
def test_an_outdated_comment_says_why_and_can_be_answered_edited_and_resolved(
    api, book, clone, alice, bob, change, reason
):
    written = comment(api, book, bob)
    change(clone)
    clone.git("commit", "--quiet", "--all", "-m", "away")
    clone.push("feature")
    [anchor] = anchors(api, book, alice)
    assert anchor == {**written, "current": None, "is_outdated": True, "outdated_reason": reason}
    assert outdated_by_last_push() == 1
    replies = f"{book.repo.api_path}/threads/{book.number}/replies"
    api(alice).post(replies, kind="comment", body="Gone.", parent_reply_number=1).gives(201)
    api(bob).patch(f"{replies}/1", body="Why not?").gives()
    resolved = api(alice).patch(f"{replies}/1", status="resolved").gives()
    assert (resolved["status"], resolved["anchor"]) == ("resolved", anchor)


def test_the_old_side_follows_the_merge_base(api, pull, clone, alice):
    base = clone.repo.branch_sha("main")
    fields = {"path": "README", "side": "old", "line": 1}
    comment(api, pull, alice, commit_sha=base, **fields)
    later = clone.push_commit("main", {"README": "First.\nA place to meet.\n"})
    assert anchors(api, pull, alice)[0]["current"]["commit_sha"] == base
    clone.checkout("feature")
    clone.git("rebase", "--quiet", "main")
    clone.push("feature")
    [anchor] = anchors(api, pull, alice)
    assert anchor["current"] == {
        "commit_sha": later,
        "path": "README",
        "start_line": 2,
        "line": 2,
    }


def test_a_merge_base_that_is_learned_later_makes_comments_on_the_old_side_due(
    api, pull, clone, alice
):
    base = clone.repo.branch_sha("main")
    comment(api, pull, alice, commit_sha=base, path="README", side="old", line=1)
    comment(api, pull, alice, path="arch", line=1)
    later = clone.push_commit("main", {"gate": "shut\n"})
    clone.checkout("feature")
    clone.git("rebase", "--quiet", "main")
    clone.push("feature")
    # As if git had not told the contents of the version.
    VersionContents.objects.filter(version__version=2).delete()
    unknown = {"commit_count": None, "merge_base_sha": None, "due_at": timezone.now()}
    PullVersion.objects.filter(version=2).update(**unknown)
    PullVersion.objects.exclude(version=2).update(due_at=None)  # a slow test may last so long
    Anchor.objects.filter(side="old").update(current_commit_sha=base, due_at=timezone.now())
    assert jobs.follow_next_comments()
    assert anchors(api, pull, alice)[0]["current"]["commit_sha"] == base
    assert not jobs.follow_next_comments()
    assert jobs.complete_next_version()
    assert jobs.follow_next_comments()
    assert anchors(api, pull, alice)[0]["current"]["commit_sha"] == later


@pytest.mark.parametrize(
    ("limit", "value"), [("COMMITS_MOST", 0), ("FILES_MOST", 0), ("PUSH_SECONDS", 0.0)]
)
def test_the_worker_follows_the_comments_for_which_a_push_had_no_time(
    api, book, clone, alice, monkeypatch, limit, value
):
    written = comment(api, book, alice)
    with monkeypatch.context() as patch:
        patch.setattr(following, limit, value)
        head = lines_above(clone)
    assert anchors(api, book, alice) == [written]
    assert Event.objects.filter(kind="pull-pushed").latest("id").data["comments_outdated"] == 0
    assert jobs.follow_next_comments()
    [anchor] = anchors(api, book, alice)
    assert (anchor["current"]["commit_sha"], place_of(anchor)) == (head, ("book", 27, 27))
    assert not jobs.follow_next_comments()


def test_a_push_meanwhile_is_not_overwritten_by_the_worker(api, book, clone, alice, monkeypatch):
    comment(api, book, alice)
    Anchor.objects.update(due_at=timezone.now())

    def find_and_push(self, seconds):
        find(self, seconds)
        with monkeypatch.context() as patch:
            patch.setattr(following.Search, "run", find)
            lines_above(clone)

    find = following.Search.run
    monkeypatch.setattr(following.Search, "run", find_and_push)
    assert jobs.follow_next_comments()
    assert place_of(anchors(api, book, alice)[0]) == ("book", 27, 27)


def test_comments_that_git_cannot_follow_wait_and_hold_up_no_others(
    api, book, clone, alice, make, monkeypatch
):
    clone.push_commit("topic", {"book": TEXT}, onto="main")
    other = make.pull(clone.repo, by=alice, source="topic")
    comment(api, book, alice)
    comment(api, other, alice)
    past = timezone.now() - dt.timedelta(minutes=1)
    monkeypatch.setattr(following, "PUSH_SECONDS", 0.0)
    lines_above(clone)
    clone.push_commit("topic", {"book": "x\n" + TEXT})
    Anchor.objects.filter(thread=book.thread_id).update(due_at=past)
    with monkeypatch.context() as patch:
        patch.setattr(jobs, "FOLLOW_SECONDS", 0.0)
        assert jobs.follow_next_comments()
    [waiting] = Anchor.objects.filter(thread=book.thread_id)
    assert waiting.due_at and waiting.due_at > timezone.now() + dt.timedelta(minutes=9)
    assert jobs.follow_next_comments()
    assert place_of(anchors(api, other, alice)[0]) == ("book", 21, 21)
    assert not jobs.follow_next_comments()


def test_reopening_a_pull_follows_what_was_pushed_while_it_was_closed(api, book, clone, alice):
    written = comment(api, book, alice)
    api(alice).put(f"{paths.pull(book)}/status", status="closed").gives()
    head = lines_above(clone)
    assert anchors(api, book, alice) == [written]
    assert not jobs.follow_next_comments()
    api(alice).put(f"{paths.pull(book)}/status", status="open").gives()
    assert jobs.follow_next_comments()
    [anchor] = anchors(api, book, alice)
    assert (anchor["current"]["commit_sha"], place_of(anchor)) == (head, ("book", 27, 27))


def test_comments_on_a_pull_from_a_fork_follow_the_pushes_to_it(
    api, upstream, fork, carol, alice, tmp_path
):
    clone = Clone(tmp_path / "fork", fork, carol)
    clone.git("fetch", "--quiet", str(fork.git.path), "main:refs/seen/base")
    first = clone.push_commit("topic", {"book": TEXT}, onto="refs/seen/base")
    _, address = opened(api, upstream, carol)
    place = {"commit_sha": first, "path": "book", "line": 20}
    api(alice).post(f"{address}/comments", body="Why?", **place).gives(201)
    head = clone.push_commit("topic", {"book": "x\n" + TEXT})
    [row] = api(alice).get(f"{address}/comments").gives()["results"]
    assert row["anchor"]["current"]["commit_sha"] == head
    assert place_of(row["anchor"]) == ("book", 21, 21)


def test_git_is_asked_before_the_locks_of_a_push(api, book, clone, alice, settings):
    for line in (3, 20):
        comment(api, book, alice, line=line)
    hook, counts = "tests.pulls.push_hook", []
    settings.AFTER_PUSH = [hook, *settings.AFTER_PUSH, hook]
    push_hook.applying.extend([lambda: counts.append(run.spawned)] * 2)
    lines_above(clone)
    assert len({*counts}) == 1 and not push_hook.applying
    assert [place_of(anchor) for anchor in anchors(api, book, alice)] == [
        ("book", 10, 10),
        ("book", 27, 27),
    ]


def test_a_removed_commit_takes_the_snippets_of_its_comments_with_it(api, make, clone, alice):
    sha = clone.push_commit("topic", {"secret": "hunter2\n"}, onto="main")
    pull = make.pull(clone.repo, by=alice, source="topic")
    comment(api, pull, alice, path="secret", line=1)
    clone.push_commit("topic", {"other": "x\n"}, onto="main")
    call_command("forget_commit", clone.repo.path, sha)
    assert jobs.follow_next_comments()
    [anchor] = anchors(api, pull, alice)
    assert (anchor["snippet"], place_of(anchor)) == ([], "file_deleted")
    assert not jobs.follow_next_comments()


def test_a_deleted_comment_does_not_count_as_outdated(api, book, clone, alice):
    comment(api, book, alice)
    replies = f"{book.repo.api_path}/threads/{book.number}/replies"
    api(alice).post(replies, kind="comment", body="Hm.", parent_reply_number=1).gives(201)
    api(alice).delete(f"{replies}/1").gives(204)
    pushed(clone, "all new\n")
    assert place_of(anchors(api, book, alice)[0]) == "changed"
    assert outdated_by_last_push() == 0


def test_pushes_to_a_pull_without_replies_read_no_anchors(
    book, clone, django_assert_max_num_queries
):
    with django_assert_max_num_queries(100) as queries:
        lines_above(clone)
    assert not [query for query in queries.captured_queries if "anchor" in query["sql"]]


def test_comments_without_a_version_do_not_keep_the_worker_busy(api, book, alice):
    comment(api, book, alice)
    Anchor.objects.update(due_at=timezone.now())
    PullVersion.objects.all().delete()
    assert jobs.follow_next_comments()
    assert not jobs.follow_next_comments()
