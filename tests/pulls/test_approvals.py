"""Approvals count for all heads whose merge gives the same result as the merge of the approved
commit.
"""

from __future__ import annotations

from itertools import product

import pytest

from apps.pulls.models import Pull
from apps.repos.actions import delete_protection
from tests.principals import access_of
from tests.pulls import paths

APPROVED = ["approval_required"]
LATER = 4_102_444_800
"""A time in the far future, so that git sorts a commit as the newest."""
BODY = "    a()\n    b()\n    c()\n    d()\n    e()\n    f()\n"
FUNCTIONS = f"def one():\n{BODY}\n\ndef two():\n{BODY}"


def merge_url(pull: Pull) -> str:
    return f"{paths.pull(pull)}/merge"


@pytest.fixture
def approved(make, pull, protection, bob):
    """bob's approval of the pull's first head."""
    return make.review(pull, by=bob)


@pytest.fixture
def blockers(api, bob):
    """`blockers(pull)`: the blocked_reasons of its protection record."""
    return lambda pull: api(bob).get(f"{paths.pull(pull)}/protection").gives()["blocked_reasons"]


def test_a_head_with_two_bases_that_undoes_a_fix_is_not_what_was_approved(
    api, clone, pull, approved, blockers, alice
):
    """Against one merge base, its patch equals the approved one; but merging it reverts the fix."""
    begin = clone.sha("main")
    fix = clone.commit("main", {"lock": "1\n"})
    text = commit_of(clone, {"side": "1\n"}, onto=begin, parents=(begin,))
    side = clone.store("commit", text)
    merged = clone.store(
        "commit", commit_of(clone, {"side": "1\n", "lock": "1\n"}, onto=fix, parents=(fix, side))
    )
    clone.git("update-ref", "refs/heads/main", merged)
    clone.push("main")
    assert blockers(pull) == []
    evil = clone.store(
        "commit",
        commit_of(clone, {"side": "1\n", "arch": "open\n"}, onto=begin, parents=(fix, side)),
    )
    clone.git("update-ref", "refs/heads/feature", evil)
    clone.push("feature")
    assert blockers(pull) == APPROVED
    api(alice).post(merge_url(pull)).fails(409, "approval_required")


def commit_of(clone, files, *, onto, parents):
    """The text of a commit with these files and the files of another commit."""
    tree = clone.tree(onto) | {name: clone.store("blob", text) for name, text in files.items()}
    entries = b"".join(
        b"100644 %b\0%b" % (name.encode(), bytes.fromhex(tree[name])) for name in sorted(tree)
    )
    person = f"alice <alice@example.org> {LATER} +0000"
    lines = [f"tree {clone.store('tree', entries)}", *(f"parent {parent}" for parent in parents)]
    return "\n".join([*lines, f"author {person}", f"committer {person}", "", "evil\n"])


def test_a_hunk_that_is_moved_between_equal_lines_is_not_what_was_approved(
    make, clone, protection, pull, blockers, alice, bob
):
    clone.push_commit("main", {"f.py": FUNCTIONS})
    first, _, second = FUNCTIONS.partition("def two")
    allowed = first.replace("    d()", "    check()\n    d()") + "def two" + second
    moved = first + "def two" + second.replace("    d()", "    check()\n    d()")
    clone.push_commit("topic", {"f.py": allowed}, onto="main")
    topic = make.pull(clone.repo, by=alice, source="topic")
    make.review(topic, by=bob)
    assert blockers(topic) == []
    clone.push_commit("topic", {"f.py": moved}, onto="main")
    assert blockers(topic) == APPROVED


def test_an_approval_survives_changed_line_numbers(make, clone, protection, blockers, alice, bob):
    lines = [f"{number}\n" for number in range(20)]
    clone.push_commit("main", {"f": "".join(lines)})
    changed = [*lines[:15], "new\n", *lines[16:]]
    clone.push_commit("topic", {"f": "".join(changed)}, onto="main")
    topic = make.pull(clone.repo, by=alice, source="topic")
    make.review(topic, by=bob)
    clone.push_commit("main", {"f": "".join(["first\n", *lines])})
    assert blockers(topic) == []
    clone.push_commit("topic", {"f": "".join(["first\n", *changed])}, onto="main")
    assert blockers(topic) == []


def test_an_approved_commit_that_conflicts_now_approves_no_resolution(
    clone, pull, approved, blockers
):
    clone.push_commit("main", {"arch": "shut\n"})
    assert blockers(pull) == ["merge_conflict"]  # the head is the approved commit
    clone.push_commit("feature", {"arch": "open\n"}, onto="main")
    assert blockers(pull) == APPROVED


def test_what_a_target_has_taken_in_meanwhile_decides(clone, pull, approved, blockers):
    """The two commits first give equal results, and different ones after a push to the target."""
    clone.push_commit("feature", {"arch": "open\n", "lock": "1\n"}, onto="main")
    assert blockers(pull) == APPROVED
    clone.push_commit("main", {"lock": "1\n"})
    assert blockers(pull) == []


def test_it_is_asked_again_under_the_lock_of_the_merge(
    api, clone, pull, approved, last_moment, alice
):
    """A push to the target, between the plan of a merge and its end, changes its result."""
    clone.push_commit("feature", {"arch": "open\n", "lock": "1\n"}, onto="main")
    clone.push_commit("main", {"lock": "1\n"})

    def unlock() -> None:
        clone.push_commit("main", {"gate": "1\n"}, onto=pull.base_sha)

    last_moment(unlock)
    before = clone.repo.git.ref("refs/heads/main")
    api(alice).post(merge_url(pull)).fails(409, "approval_required")
    assert not Pull.objects.filter(status="merged").exists()
    assert clone.repo.git.ref("refs/heads/main") not in (None, before)


def test_an_approved_commit_stays_however_often_the_branch_is_forced(
    clone, pull, approved, blockers
):
    commit = pull.head_sha
    for text in ("1\n", "2\n"):
        clone.push_commit("feature", {"other": text}, onto="main")
    clone.server("-c", "gc.pruneExpire=now", "gc", "--prune=now", "--quiet")
    assert clone.repo.git.has_commit(commit)
    clone.push_commit("feature", {"arch": "open\n"}, onto="main", message="the same again")
    assert blockers(pull) == []


def test_nobody_is_shown_the_refs_that_keep_approved_commits(make, pull, approved):
    git = pull.repo.git
    assert git.ref(f"refs/approved/{pull.number}/{pull.head_sha}") == pull.head_sha
    assert not [name for name in git.refs(pulls=True) if "approved" in name]


def test_a_commit_that_has_gone_approves_nothing(clone, pull, approved, blockers):
    """An approval can be older than the refs that keep approved commits."""
    type(approved).objects.update(commit_sha="1" * 40)
    assert blockers(pull) == APPROVED


def test_a_closed_pull_whose_base_has_gone_shows_its_reviews(api, clone, pull, approved, alice):
    clone.push_commit("feature", {"other": "1\n"})
    clone.push_commit("main", {"x": "1\n"})
    api(alice).put(f"{paths.pull(pull)}/status", status="closed").gives()
    base = Pull.objects.get().base_sha
    clone.push_commit("main", {"y": "1\n"}, onto="main~1")
    clone.server("gc", "--prune=now", "--quiet")
    assert not clone.repo.git.has_commit(base)
    [shown] = api(alice).get(paths.reviews(pull)).gives()["results"]
    assert shown["is_stale"]
    assert api(alice).get(f"{paths.pull(pull)}/protection").gives()["approval_count"] == 0


def test_a_review_that_git_cannot_compare_is_shown_as_stale(api, make, clone, pull, alice, bob):
    """git has the reviewed commit but not its tree, and fails. Other reviews are not affected."""
    make.review(pull, by=bob, status="commented")
    tree = clone.git("rev-parse", f"{pull.head_sha}^{{tree}}")
    clone.push_commit("feature", {"other": "1\n"})
    make.review(Pull.objects.get(), by=alice, status="commented")
    (clone.repo.git.path / "objects" / tree[:2] / tree[2:]).unlink()
    shown = api(alice).get(paths.reviews(pull)).gives()["results"]
    assert [row["is_stale"] for row in shown] == [True, False]


def test_an_approval_that_is_said_again_keeps_its_commit(api, pull, approved, bob):
    ref = f"refs/approved/{pull.number}/{pull.head_sha}"
    assert pull.repo.git.update_ref(ref, "0" * 40, pull.head_sha)  # as before such refs existed
    api(bob).put(paths.review(approved), status="approved").gives()
    assert pull.repo.git.ref(ref) == pull.head_sha


def test_nobody_approves_a_head_of_which_nobody_knows_who_pushed_it(
    api, pull, approved, blockers, bob
):
    """The reviewer may have pushed the head: if a push is interrupted, its person is not known."""
    Pull.objects.update(head_pushed_by=None)
    [shown] = api(bob).get(paths.reviews(pull)).gives()["results"]
    assert (shown["is_eligible"], "Nobody knows" in shown["reason"]) == (False, True)
    assert blockers(pull) == APPROVED


def test_a_push_of_another_commit_says_who_pushed_and_of_the_same_one_does_not(
    api, clone, pull, approved, blockers, alice, bob
):
    """A new commit makes the pusher known again."""
    Pull.objects.update(head_pushed_by=None)
    branch = pull.source_branch
    head = clone.sha(branch)
    clone.push(f":{branch}")
    clone.push(branch)
    assert blockers(pull) == APPROVED
    clone.push_commit(branch, {"more": "1\n"})
    api(bob).post(paths.reviews(pull), status="approved").gives(201)
    assert blockers(pull) == []
    pull.refresh_from_db()
    assert (pull.head_pushed_by, pull.head_sha != head) == (alice, True)


def test_a_rebase_with_another_result_is_refused_by_a_code_of_its_own(api, make, clone, alice):
    clone.push_commit("main", {"t": "1\n"})
    begin = clone.git("rev-parse", "main~1")
    one = clone.commit("topic", {"x": "1\n"}, onto=begin)
    files = {"x": "1\n", "t": "1\n", "evil": "1\n"}
    text = commit_of(clone, files, onto=begin, parents=(one, clone.sha("main")))
    clone.git("update-ref", "refs/heads/topic", clone.store("commit", text))
    clone.push("topic")
    clone.push_commit("main", {"u": "1\n"})
    topic = make.pull(clone.repo, by=alice, source="topic")
    record = api(alice).get(f"{paths.pull(topic)}/protection").gives()
    assert record["allowed_strategies"] == ["merge", "squash"]
    answer = api(alice).post(merge_url(topic), merge_strategy="rebase")
    answer.fails(409, "strategy_differs")
    api(alice).post(merge_url(topic), merge_strategy="squash").gives()


def test_a_review_of_another_head_than_was_seen_is_refused(api, clone, pull, bob):
    seen = pull.head_sha
    clone.push_commit("feature", {"arch": "ajar\n"})
    address = paths.reviews(pull)
    api(bob).post(f"{address}?expected_head_sha=feature", status="approved").fails(
        422, "validation_failed"
    )
    api(bob).post(f"{address}?expected_head_sha={seen}", status="approved").fails(
        409, "head_changed"
    )
    head = Pull.objects.get().head_sha
    review = api(bob).post(f"{address}?expected_head_sha={head}", status="commented").gives(201)
    again = f"{address}/{review['uuid']}"
    api(bob).put(f"{again}?expected_head_sha=feature", body="").fails(422, "validation_failed")
    api(bob).put(f"{again}?expected_head_sha={seen}", status="approved").fails(409, "head_changed")
    api(bob).put(f"{again}?expected_head_sha={seen}", body="Fine.").fails(409, "head_changed")
    assert api(bob).get(again).gives()["status"] == "commented"
    api(bob).put(f"{again}?expected_head_sha={head}", status="approved").gives()


GIT = ["", "branch_missing", "nothing_to_merge", "merge_conflict"]
TABLE = [
    pytest.param(*row, marks=[] if sum(map(bool, row)) in {0, 1, 4} else pytest.mark.once)
    for row in product(["", "pull_is_draft"], GIT, ["", "changes_requested"], ["", *APPROVED])
]
"""With PostgreSQL only some combinations run: no blocker, each single one, and all."""


@pytest.mark.parametrize(("draft", "git", "changes", "approvals"), TABLE)
def test_the_blockers_are_the_same_in_the_record_and_in_the_merge(
    api, make, clone, pull, alice, bob, sam, blockers, draft, git, changes, approvals
):
    protection = make.protection(pull.repo, by=alice)
    if not approvals:
        make.review(pull, by=sam)
    if changes:
        make.review(pull, by=bob, status="changes_requested")
    if draft:
        api(alice).put(f"{paths.pull(pull)}/status", status="draft").gives()
    if git == "branch_missing":
        clone.push(":feature")
    if git == "merge_conflict":
        clone.push_commit("main", {"arch": "shut\n"})
    if git == "nothing_to_merge":
        clone.commit("feature", {}, onto="main~0")
        Pull.objects.update(head_sha=clone.sha("main"), commit_count=0)
        clone.repo.refs.filter(full_name="refs/heads/feature").update(sha=clone.sha("main"))
        pull.reviews.update(commit_sha=clone.sha("main"))
    expected = [code for code in (draft, git, changes, approvals) if code]
    assert blockers(pull) == expected
    answer = api(alice).post(merge_url(pull))
    if not expected:
        answer.gives()
        return
    detail = answer.fails(409, expected[0])
    named = [code for code in (draft, git, changes, approvals) if code and f"{code}: " in detail]
    assert len(expected) == 1 or named == expected
    delete_protection(access=access_of(alice, pull.repo), protection=protection)
    assert blockers(pull) == [code for code in (draft, git) if code]
