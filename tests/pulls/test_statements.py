"""The hand-written statements for pushes and merges select the same rows as the ORM."""

from __future__ import annotations

import itertools

from django.db.models import Q
from django.utils import timezone

from apps.pulls.models import IS_ACTIVE, MergeAttempt, Pull, PullStatus
from apps.pulls.pushes import _padded, affected_pulls
from apps.repos.models import Ref, protections_of
from apps.repos.rules import ZERO, RefMove
from tests.core.test_statements import assert_same

SHAS = [f"{number}" * 40 for number in range(1, 4)]


def branch(repo, name, sha=SHAS[0]):
    return Ref.objects.create(repo=repo, full_name=f"refs/heads/{name}", sha=sha)


def test_the_tips_of_a_pull_are_read_at_once(make, acme, alice, django_assert_num_queries):
    """The head is returned if its source exists, if its fork was deleted, or if it was moved."""
    repo, other = make.repo(acme, "api", by=alice), make.repo(acme, "web", by=alice)
    pull = make.pull(repo, by=alice)
    Pull.objects.update(head_sha=SHAS[2])
    branch(other, "main", SHAS[1])
    for source, stands, moved, target in itertools.product(
        (repo, other, None), (True, False), (True, False), (True, False)
    ):
        Ref.objects.filter(full_name="refs/heads/feature").delete()
        Ref.objects.filter(repo=repo).delete()
        Pull.objects.update(source_repo=source, source_moved=moved)
        if stands:
            branch(source or repo, "feature", SHAS[0])
        if target:
            branch(repo, "main", SHAS[0])
        with django_assert_num_queries(1):
            tips = pull.tips()
        head = SHAS[2] if stands or moved or source is None else None
        assert tips == (head, SHAS[0] if target else None)


def test_protections_come_with_their_repository_and_approvers(
    make, acme, alice, bob, django_assert_num_queries
):
    repo = make.repo(acme, "api", by=alice)
    with django_assert_num_queries(1):
        assert protections_of(repo, "main") == []
    for name in ("release/*", "main", "ma*"):
        make.protection(repo, name, by=alice, approver=bob)
    make.protection(make.repo(acme, "web", by=alice), by=alice)
    with django_assert_num_queries(2):
        protections = protections_of(repo, "main")
        assert [row.branch for row in protections] == ["main", "ma*"]
        assert [[approver.user for approver in row.approvers.all()] for row in protections] == [
            [bob],
            [bob],
        ]
        assert all(row.repo is repo for row in protections)
    for row in protections:
        assert_same(row, type(row).objects)


def test_pulls_that_moves_are_about_come_with_thread_and_merge(
    make, acme, alice, bob, django_assert_num_queries
):
    repo = make.repo(acme, "api", by=alice)
    made = [
        make.pull(repo, by=alice, source=source, target=target)
        for source in ("one", "two", "three")
        for target in ("main", "release")
    ]
    make.pull(make.repo(acme, "web", by=alice), by=alice, source="one")
    Pull.objects.filter(pk__in=[made[1].pk, made[2].pk]).update(status=PullStatus.CLOSED)
    Pull.objects.filter(pk=made[4].pk).update(source_repo=None)
    now = timezone.now()
    for pull in made[2:4]:
        MergeAttempt.objects.create(pull=pull, actor=bob, strategy="merge", leased_until=now)
    names = ["refs/heads/one", "refs/heads/main", "refs/tags/two", "refs/pull/6/head"]
    for size in range(len(names) + 1):
        moves = [RefMove(repo, name, ZERO, SHAS[0], alice) for name in names[:size]]
        with django_assert_num_queries(1):
            pulls = affected_pulls(repo, moves)
            attempts = [getattr(pull, "attempt", None) for pull in pulls]
            assert all(pull.repo is repo for pull in pulls)
            assert {row.actor for row in attempts if row} <= {bob}
        assert pulls == expected(repo, moves, numbers=[6] if size == 4 else [])
        for pull, attempt in zip(pulls, attempts, strict=True):
            assert_same(pull, Pull.objects, thread=pull.thread)
            assert attempt == MergeAttempt.objects.filter(pull=pull).first()
    assert [pull.number for pull in pulls] == [1, 3, 5, 6]


def test_there_are_few_texts_of_it(make, acme, alice):
    repo = make.repo(acme, "api", by=alice)
    made = make.pull(repo, by=alice, source="branch-7")
    sizes = set()
    for size in (*range(1, 20), 255, 256, 257, 511, 512, 513, 2_000, 2_049):
        names = [f"branch-{number}" for number in range(size)]
        filled = _padded(names)
        assert [name for name in filled if name is not None] == names
        sizes.add(len(filled))
        moves = [RefMove(repo, f"refs/heads/{name}", ZERO, SHAS[0], alice) for name in names]
        assert affected_pulls(repo, moves) == ([made] if size > 7 else [])
    assert sizes == {1, 2, 4, 8, 16, 32, 256, 512, 1024, 2048, 2560}
    assert len(_padded([])) == 1


def expected(repo, moves, numbers):
    names = [move.name for move in moves if move.is_branch]
    either = Q(source_repo=repo, source_branch__in=names) | Q(target_branch__in=names)
    either |= Q(number__in=numbers)
    active = IS_ACTIVE | Q(attempt__isnull=False)
    return list(repo.pulls.filter(either, active).order_by("number"))
