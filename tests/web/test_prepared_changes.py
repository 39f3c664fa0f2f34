"""The worker prepares the changes of a pull before anybody looks at them."""

from __future__ import annotations

from typing import Any

import pytest
from django.utils import timezone

from apps.browse.models import GitCache
from apps.git.run import GitTimeout
from apps.pulls.jobs import complete_next_version
from apps.pulls.models import Pull, PullVersion
from apps.web import diffs, jobs
from tests.browse.code import push
from tests.test_queries import costing

BEFORE, AFTER = b"def run():\n    return 1\n", b"def run(n):\n    return 1\n"


@pytest.fixture
def base(team_repo, code, alice):
    """The head of `main`, with more files than a page of patches has."""
    made = code.commit_with({b"%d.py" % n: BEFORE for n in range(40)})
    push(team_repo, "refs/heads/main", made, by=alice)
    return made


@pytest.fixture
def push_head(team_repo, code, base, alice):
    """`push_head("n")` pushes a commit that changes all files to `topic`."""

    def pushed(word: str) -> str:
        files: Any = {b"%d.py" % n: AFTER.replace(b"n", word.encode(), 1) for n in range(40)}
        sha: str = code.commit_with(files, base)
        push(team_repo, "refs/heads/topic", sha, by=alice)
        return sha

    return pushed


@pytest.fixture
def pull(make, team_repo, push_head, alice):
    push_head("n")
    return make.pull(team_repo, by=alice, source="topic")


def work() -> list[int]:
    """Let the worker prepare all that is due; return the numbers of answers cached each time."""
    counts, before = [], GitCache.objects.count()
    while jobs.prepare_next_changes():
        counts.append(GitCache.objects.count() - before)
        before += counts[-1]
    return counts


def due() -> int:
    return PullVersion.objects.exclude(changes_due_at=None).count()


@pytest.mark.once
def test_the_first_look_after_a_push_starts_no_git(visit, api, pull, push_head, bob):
    page, person = f"/{pull.repo.path}/pulls/{pull.number}", visit(bob)
    for word in ("opened", "pushed"):
        if word == "pushed":
            push_head(word)
        assert sum(work()) == 4 and due() == 0
        with costing() as cost:
            views = [person.get(f"{page}/files{query}").gives() for query in ("", "?view=split")]
            for query in ("", "?patch=true", "?patch=true&per_page=100"):
                url = f"{pull.repo.api_path}/pulls/{pull.number}/files{query}"
                assert api(bob).get(url).gives()["changed_files"] == 40
        assert cost.git == 0
        assert [view.html.count('class="c add"') for view in views] == [40, 40]


@pytest.mark.once
def test_of_many_pushes_only_the_newest_head_is_prepared(pull, push_head):
    for word in "abcd":
        push_head(word)
    assert due() == 5
    assert sorted(work()) == [0, 0, 0, 0, 4]
    assert due() == 0


@pytest.mark.once
def test_nothing_is_prepared_of_a_closed_pull(pull):
    Pull.objects.update(status="closed")
    assert work() == [0] and due() == 0


@pytest.mark.once
def test_a_pull_whose_target_is_created_later_is_prepared_then(
    make, team_repo, push_head, alice, base
):
    push_head("n")
    make.pull(team_repo, by=alice, source="topic", target="later")
    assert work() == []
    push(team_repo, "refs/heads/later", base, by=alice)
    while complete_next_version():
        pass
    assert sum(work()) == 4 and due() == 0


def test_a_worker_that_dies_leaves_its_work_to_the_next_one(pull, monkeypatch):
    def die(*args, **options):
        assert not jobs.prepare_next_changes(), "another worker leaves it alone"
        raise SystemExit

    with monkeypatch.context() as patched:
        patched.setattr(diffs, "patches", die)
        with pytest.raises(SystemExit):
            jobs.prepare_next_changes()
    assert work() == [] and due() == 1
    PullVersion.objects.update(changes_due_at=timezone.now())
    assert work() == [4] and due() == 0


@pytest.mark.once
def test_changes_that_take_git_too_long_are_not_asked_for_again(visit, pull, monkeypatch, bob):
    """For ten minutes, as after a look that took too long."""

    def late(*args, **options):
        raise GitTimeout("on purpose")

    with monkeypatch.context() as patched:
        patched.setattr(diffs, "patches", late)
        assert len(work()) == 1 and due() == 0
    visit(bob).get(f"/{pull.repo.path}/pulls/{pull.number}/files").gives(422)
