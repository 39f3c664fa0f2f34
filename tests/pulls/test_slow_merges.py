"""A merge that git could not build in time is not tried again by each request, and delays no other
merge.
"""

from __future__ import annotations

import os

import pytest

from apps.git import merge, run
from apps.pulls.models import MergeAttempt
from tests.git.stuck import stuck
from tests.pulls import paths
from tests.races import Aside
from tests.server import PATIENCE
from tests.waiting import eventually

RENAMES = 2_000


def refused_without_git(api, person, pull, strategy="merge"):
    before = run.spawned
    api(person).post(f"{paths.pull(pull)}/merge", merge_strategy=strategy).fails(503, "unavailable")
    assert run.spawned == before
    assert not MergeAttempt.objects.exists()


def test_a_merge_that_the_record_was_too_slow_for_is_refused_at_once(
    api, clone, pull, alice, monkeypatch
):
    with stuck(clone.repo.git, pull.head_sha, monkeypatch):
        api(alice).get(f"{paths.pull(pull)}/protection").fails(503, "unavailable")
    for strategy in ("merge", "squash", "rebase"):
        refused_without_git(api, alice, pull, strategy)
    api(alice).post(f"{paths.pull(pull)}/merge", merge_strategy="fast_forward").gives()


def test_a_merge_that_was_too_slow_is_not_tried_again_by_anybody(
    api, clone, pull, alice, bob, monkeypatch
):
    with stuck(clone.repo.git, pull.head_sha, monkeypatch):
        api(alice).post(f"{paths.pull(pull)}/merge").fails(503, "unavailable")
    refused_without_git(api, bob, pull)
    before = run.spawned
    api(bob).get(f"{paths.pull(pull)}/protection").fails(503, "unavailable")
    assert run.spawned == before


@pytest.mark.parametrize("asked_before", [True, False])
def test_a_rebase_that_was_too_slow_is_not_tried_again(api, pull, alice, monkeypatch, asked_before):
    with monkeypatch.context() as impatient:
        impatient.setattr(merge, "REBASE_SECONDS", -1)
        if asked_before:
            record = api(alice).get(f"{paths.pull(pull)}/protection").gives()
            assert "rebase" not in record["allowed_strategies"]
        else:
            url = f"{paths.pull(pull)}/merge"
            api(alice).post(url, merge_strategy="rebase").fails(503, "unavailable")
    refused_without_git(api, alice, pull, "rebase")
    api(alice).post(f"{paths.pull(pull)}/merge").gives()


def test_a_refusal_that_names_all_blockers_does_not_try_it_again_either(
    api, make, clone, pull, alice, monkeypatch
):
    make.protection(pull.repo, by=alice)
    with stuck(clone.repo.git, pull.head_sha, monkeypatch):
        api(alice).post(f"{paths.pull(pull)}/merge").fails(503, "unavailable")
    refused_without_git(api, alice, pull)


@pytest.mark.slow
@pytest.mark.django_db(transaction=True)
def test_others_are_merged_while_a_slow_merge_is_built(api, clone, pull, second, alice, bob):
    """It enters the queue later. Only a rebase reads the files of a commit that is not the head."""
    tree = clone.git("rev-parse", f"{pull.head_sha}^{{tree}}")
    clone.push_commit("feature", {"window": "1\n"})
    clone.push_commit("main", {"wall": "high\n"})
    file = clone.repo.git.path / "objects" / tree[:2] / tree[2:]
    file.unlink()
    os.mkfifo(file)
    answers, by_alice, by_bob, url = [], api(alice), api(bob), f"{paths.pull(pull)}/merge"
    slow = Aside(lambda: answers.append(by_alice.post(url, merge_strategy="rebase")))
    slow.start()
    eventually(MergeAttempt.objects.filter(pull=pull).exists)
    by_bob.post(f"{paths.pull(second)}/merge").gives()
    assert MergeAttempt.objects.filter(pull=pull).exists(), "git still waits for that file"
    with file.open("wb"):
        pass  # git finds an empty object, and fails
    slow.join(timeout=PATIENCE)
    answers[0].fails(503, "unavailable")


@pytest.mark.slow
@pytest.mark.once
def test_the_record_of_a_pull_with_thousands_of_renames_is_told_in_time(
    api, make, clone, alice, bob
):
    """Each file is renamed and has a new line, and the target has changed it too."""
    pages = ["".join(f"{n * line**3:x}\n" for line in range(1, 120)) for n in range(RENAMES)]
    history = commit(1, "main", {f"old-{n}": text for n, text in enumerate(pages)})
    history += commit(2, "many", {f"new-{n}": f"head\n{text}" for n, text in enumerate(pages)}, 1)
    history += commit(3, "main", {f"old-{n}": f"{text}main\n" for n, text in enumerate(pages)}, 1)
    clone.git("fast-import", "--quiet", "--force", stdin=history)
    clone.push("main", "many")
    pull = make.pull(clone.repo, by=alice, source="many")
    url = f"{paths.pull(pull)}/protection"
    record = api(alice).get(url).gives()
    assert record["blocked_reasons"] == ["merge_conflict"]
    assert len(record["conflict_paths"]) == merge.MOST_CONFLICT_PATHS
    before = run.spawned
    assert api(bob).get(url).gives()["conflict_paths"] == record["conflict_paths"]
    assert run.spawned == before


def commit(mark, branch, files, parent=None):
    """A commit with exactly these files, for fast-import."""
    lines = [f"commit refs/heads/{branch}", f"mark :{mark}", "committer a <a@example.org> 1 +0000"]
    lines += ["data 0", *([f"from :{parent}"] if parent else []), "deleteall"]
    for name, text in files.items():
        lines += [f"M 100644 inline {name}", f"data {len(text)}", text]
    return "\n".join([*lines, ""])
