"""The account that pushed each commit, as rows: a commit's author is only text of its writer.

The worker reads the events of pushes, asks git which commits each push brought, and stores them.
"""

from __future__ import annotations

import datetime as dt
import logging
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cache
from typing import Any, NamedTuple
from uuid import UUID

from django.db import transaction
from django.db.models import Q, QuerySet

from apps.core.statements import Parameter, Statement, padded, parameters
from apps.events.kinds import Kind
from apps.events.models import Event
from apps.git.history import commits_gained
from apps.git.run import GitError
from apps.jobs.worker import OnDone
from apps.repos.models import BRANCHES, PUSHES_DUE, TAGS, CommitPush, Ref, Repo
from apps.repos.queries import pulls_of_code

COMMITS_MOST = 10_000
"""Most commits of one push that are stored. Of more, only the pushed heads are."""
STEPS_MOST, REPOS_MOST = 200, 20
"""Most moves of refs that one run reads of a repository, and most repositories of one run."""
AT_ONCE = 500
"""Commits of one statement."""
ONE_PUSH = dt.timedelta(seconds=1)
"""Most time between the first and the last event of one push."""
KINDS = [kind for kind in Kind if kind.startswith(("branch-", "tag-"))]
NAMESPACES = {"branch": BRANCHES, "tag": TAGS}
PUSHER = ("pushed_by_id", "pushed_by__username", "pushed_by__uuid", "pushed_by__is_bot")
"""The last columns of a `Push`."""
logger = logging.getLogger(__name__)


class Push(NamedTuple):
    """A push of a commit, and the account that made it."""

    sha: str
    pushed_at: dt.datetime
    user_id: int
    username: str
    uuid: UUID
    is_bot: bool


def pushers_of(repo: Repo, shas: Collection[str]) -> dict[str, Push]:
    """Commit -> its first push, of those whose pusher is known; one query, none for no commit.

    Before the worker has read the newest pushes, heads have the person who moved their ref there.
    """
    if not shas:
        return {}
    return _first_pushes(repo, shas, with_heads=repo.pushes_due)


def _first_pushes(repo: Repo, shas: Collection[str], *, with_heads: bool) -> dict[str, Push]:
    some = padded(shas)
    statement = _pushes(len(some), is_fork=repo.upstream_id is not None, with_heads=with_heads)
    return _first(statement.all(repo=repo.pk, upstream=repo.upstream_id, shas=some))


@cache
def _pushes(count: int, *, is_fork: bool, with_heads: bool) -> Statement:
    """Selects the stored pushes of this many commits to the repository or to one that it has
    commits from: the two that it was forked from, and the sources of its pulls. `with_heads` adds
    the last moves of refs to these commits.
    """
    repo, upstream, shas = Parameter("repo"), Parameter("upstream"), parameters("shas", count)

    def rows() -> QuerySet[CommitPush, Any]:
        origin: Q = Q(repo=repo) | Q(pulls_of_code().from_source_of(repo))
        if is_fork:
            origin |= Q(repo=upstream)
            origin |= Q(repo__in=Repo.objects.filter(copies=upstream).values("pk"))
        pushes = CommitPush.objects.filter(origin, sha__in=shas)
        values = pushes.values_list("sha", "pushed_at", *PUSHER)
        if with_heads:
            heads = Ref.objects.filter(repo=repo, peeled_sha__in=shas, pushed_by__isnull=False)
            values = values.union(heads.values_list("peeled_sha", "updated_at", *PUSHER))
        return values

    return Statement(rows)


def _first(rows: Iterable[Any]) -> dict[str, Push]:
    pushes = [Push(*row) for row in rows]
    pushes.sort(key=lambda push: push.pushed_at, reverse=True)
    return {push.sha: push for push in pushes}


@dataclass(frozen=True)
class Step:
    """A move of a ref, as its event has it. `old` and `new` are None where there is no ref."""

    event_id: int
    full_name: str
    old: str | None
    new: str | None
    actor_id: int | None
    at: dt.datetime


def steps_after(repo: Repo, event_id: int) -> list[Step]:
    """The moves of the repository's refs after this event, oldest first."""
    events = Event.objects.filter(repo_id=repo.pk, id__gt=event_id, kind__in=KINDS).order_by("id")
    return [
        Step(
            pk,
            NAMESPACES[target["kind"]] + target["name"],
            data.get("before"),
            data.get("after"),
            actor_id,
            at,
        )
        for pk, target, data, actor_id, at in events.values_list(
            "pk", "target", "data", "actor_id", "created_at"
        )
    ]


def heads_before(repo: Repo, steps: Sequence[Step], heads: dict[str, str]) -> dict[str, str]:
    """The heads that the repository had before these steps, which lead to the present `heads`."""
    changed: dict[str, str | None] = {step.full_name: step.old for step in reversed(steps)}
    return {name: sha for name, sha in ({**heads, **changed}).items() if sha}


def read_pushes(repo: Repo) -> int:
    """Store the commits of the oldest pushes that were not read yet; return the number of steps.

    `GitError` if git cannot say which heads exist. The row of the repository must be fresh: it says
    up to which push the events are complete.
    """
    heads = dict(repo.refs.values_list("full_name", "sha"))
    steps = steps_after(repo, repo.pushes_read_to)
    heads, batch = heads_before(repo, steps, heads), steps[:STEPS_MOST]
    if batch:
        elsewhere = _heads_of_upstream(repo, batch[0].event_id)
        named = {*heads.values(), *(step.new for step in batch if step.new)}
        absent = repo.git.missing(named)
        for group in _groups(batch):
            shas = _gained(repo, group, {*heads.values()}, elsewhere, absent)
            _store(repo, group, shas)
            heads.update({step.full_name: step.new or "" for step in group})
            heads = {name: sha for name, sha in heads.items() if sha}
    if len(batch) == len(steps):
        Repo.objects.filter(pk=repo.pk).update(pushes_read_at=repo.pushed_at)
    return len(batch)


def _heads_of_upstream(repo: Repo, event_id: int) -> set[str]:
    """The heads of the repository from which this one was forked, at the time of this event.

    A push of its commits to the fork brings nothing new.
    """
    if repo.upstream is None:
        return set()
    heads = dict(repo.upstream.refs.values_list("full_name", "sha"))
    later = steps_after(repo.upstream, event_id)
    return {*heads_before(repo.upstream, later, heads).values()}


def _groups(steps: Sequence[Step]) -> Iterator[list[Step]]:
    """The steps of each push, for which git is asked once.

    They have consecutive events. Another event between two steps may be an earlier push of the same
    commits elsewhere, so that the time of the first step would be wrong for the second.
    """
    group: list[Step] = []
    for step in steps:
        if group and not (
            step.event_id == group[-1].event_id + 1
            and step.actor_id == group[0].actor_id
            and step.at - group[0].at <= ONE_PUSH
        ):
            yield group
            group = []
        group.append(step)
    if group:
        yield group


def _gained(
    repo: Repo, group: Sequence[Step], before: set[str], elsewhere: set[str], absent: set[str]
) -> list[str]:
    """The commits that these steps brought; empty if git fails.

    Of too many, and if git no longer has a head of before, only the pushed heads are returned.
    """
    news = {step.new for step in group if step.new} - before - elsewhere - absent
    if not news:
        return []
    git = replace(repo.git, others=repo.upstream.git.path) if repo.upstream else repo.git
    try:
        shas = commits_gained(git, news, before | elsewhere, most=COMMITS_MOST + 1)
    except GitError as error:
        logger.warning("The commits of a push to %s could not be read: %s", repo.uuid, error)
        return []
    if len(shas) > COMMITS_MOST or not absent.isdisjoint(before):
        return [sha for sha in shas if sha in news]
    return shas


def _store(repo: Repo, group: Sequence[Step], shas: Sequence[str]) -> None:
    """Store the commits that these steps brought, and that the steps are read, in one transaction.

    Commits that came from a repository of `_pushes` keep the pusher that they have there, also when
    that repository is deleted later.
    """
    rows = []
    for start in range(0, len(shas), AT_ONCE):
        some = shas[start : start + AT_ONCE]
        stored = _first_pushes(repo, some, with_heads=False)
        for sha in some:
            at, person = group[0].at, group[0].actor_id
            if (first := stored.get(sha)) and (person is None or first.pushed_at < at):
                at, person = first.pushed_at, first.user_id
            if person is not None:
                rows.append(CommitPush(repo=repo, sha=sha, pushed_by_id=person, pushed_at=at))
    last = group[-1].event_id
    with transaction.atomic():
        CommitPush.objects.bulk_create(rows, batch_size=AT_ONCE, ignore_conflicts=True)
        behind = Repo.objects.filter(pk=repo.pk, pushes_read_to__lt=last)
        behind.update(pushes_read_to=last)


def read_all_pushes(on_done: OnDone = lambda _: None) -> bool:
    """The job: read the pushes that were not read yet, in the repositories last pushed to.

    Of these, the one that was pushed to first comes first: a fork before the repository into which
    a pull from it was merged.
    """
    due = Repo.objects.filter(PUSHES_DUE).select_related("upstream").order_by("-pushed_at")
    for repo in reversed(due[:REPOS_MOST]):
        try:
            steps = read_pushes(repo)
        except Exception:  # does not block the other repositories
            logger.exception("The pushes to %s could not be read", repo.uuid)
            continue
        if steps:
            on_done(f"{repo.uuid}: stored who pushed the commits of {steps} moves of refs")
    return False
