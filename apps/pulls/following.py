"""The lines of comments follow the code to the current head of their pull.

Lines are always looked for from the commit that was commented, so that errors do not add up, and a
force push back finds them again. git is asked before any lock. The worker looks for the lines for
which a push had no time.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import islice
from time import monotonic
from typing import NamedTuple

from django.db.models import F, QuerySet
from django.utils import timezone

from apps.git.cache import GitFacts
from apps.git.lines import (
    Lines,
    Outcome,
    Outdated,
    changed_files,
    find_in_files,
    find_lines,
    needs_diff,
)
from apps.git.repo import GitRepo
from apps.git.run import GitError
from apps.pulls.models import Pull, PullVersion
from apps.pulls.versions import NewVersion
from apps.threads.anchors import Anchor, Side

COMMITS_MOST = 100
FILES_MOST = 500
PUSH_SECONDS = 5.0
"""Most commits with comments, changed files and seconds for the comments of one push."""
CURRENT = (
    "current_commit_sha",
    "current_path",
    "current_start_line",
    "current_line",
    "outdated_reason",
    "due_at",
)
"""The columns that `Anchor.set_outcome` sets."""


class Heads(NamedTuple):
    """The commits at which the two sides of a version are."""

    new: str
    old: str | None
    """Its merge base; None if it is not known, or there is none."""

    def of(self, side: str) -> str | None:
        return self.old if side == Side.OLD else self.new


@dataclass
class Search:
    """The lines to look for in one repository, and limits for all of them together."""

    git: GitRepo
    facts: GitFacts
    files: int
    """Most changed files to compare."""
    groups: dict[tuple[str, str], set[Lines]] = field(default_factory=lambda: defaultdict(set))
    """The lines of each pair of a commit with comments and a commit to look in."""

    def add(self, anchors: Iterable[Anchor], heads: Heads) -> None:
        """Look for the lines of these anchors at these heads, too."""
        for anchor in anchors:
            target = heads.of(anchor.side)
            if target is not None and target != anchor.commit_sha:
                self.groups[anchor.commit_sha, target].add(anchor.lines)

    def run(self, seconds: float) -> None:
        """Ask git, and store the answers in `facts`. Beyond the limits, or if git fails, answers
        are missing. Those for the commits with the most comments come first.
        """
        git = self.git.within(seconds)
        ordered = sorted(self.groups.items(), key=lambda group: -len(group[1]))
        for (old, new), lines in islice(ordered, COMMITS_MOST):
            with suppress(GitError):  # the worker tries again
                self._find(git, old, new, lines)
            if monotonic() >= git.ends:
                return

    def _find(self, git: GitRepo, old: str, new: str, lines: set[Lines]) -> None:
        """Look for lines of one commit. `GitError`; the answers before it are stored."""
        by_path = defaultdict[bytes, list[Lines]](list)
        for one in lines:
            by_path[one.path].append(one)
        changes = changed_files(git, old, new, by_path.keys())
        for path in by_path.keys() - changes.keys():
            self._know(old, new, {one: one for one in by_path[path]})
        for path in [path for path, change in changes.items() if needs_diff(change)]:
            if not self.files:
                del changes[path]
            self.files = max(0, self.files - 1)
        for outcomes in find_in_files(git, old, new, changes, by_path):
            self._know(old, new, outcomes)

    def _know(self, old: str, new: str, outcomes: Mapping[Lines, Outcome]) -> None:
        for one, outcome in outcomes.items():
            self.facts.know(outcome, find_lines, self.git, old, new, one)


def outcome_at(git: GitRepo, anchor: Anchor, target: str, facts: GitFacts) -> Outcome | None:
    """Where the lines of an anchor are in a commit; None if git has not been asked, or failed."""
    if target == anchor.commit_sha:
        return anchor.lines
    question = (git, anchor.commit_sha, target, anchor.lines)
    return facts.ask(find_lines, *question) if facts.knows(find_lines, *question) else None


def anchors_of(pulls: Iterable[Pull]) -> QuerySet[Anchor]:
    """The anchors in these pulls, without their snippets."""
    threads = [pull.thread_id for pull in pulls if pull.thread.last_reply_number]
    return Anchor.objects.filter(thread__in=threads).defer("snippet")


def heads_of(pull: Pull) -> Heads | None:
    """The commits of the newest version; None if the pull has no head. One query."""
    rows = PullVersion.objects.filter(pull=pull, version=pull.last_version)
    row = rows.values_list("head_sha", "merge_base_sha").first()
    return Heads(*row) if row else None


def heads_after(versions: Sequence[NewVersion]) -> Heads:
    """The commits of the last of these new versions."""
    version, contents = versions[-1]
    return Heads(version.head_sha, contents.merge_base if contents else None)


def look_ahead(pushed: Sequence[tuple[Pull, Heads]], git: GitRepo, facts: GitFacts) -> None:
    """Ask git where the comments of pulls are at their new heads; one query."""
    heads_by_thread = {pull.thread_id: heads for pull, heads in pushed}
    search = Search(git, facts, FILES_MOST)
    if any(pull.thread.last_reply_number for pull, _ in pushed):
        for anchor in anchors_of(pull for pull, _ in pushed):
            search.add([anchor], heads_by_thread[anchor.thread_id])
    search.run(PUSH_SECONDS)


def write_places(pull: Pull, heads: Heads, facts: GitFacts) -> int:
    """Store where the comments of a pull are at its new head; those that `facts` does not know are
    due. Returns the number of comments that have become outdated. The caller holds the pull's lock.
    """
    if not pull.thread.last_reply_number:
        return 0
    rows = anchors_of([pull]).annotate(deleted_at=F("reply__deleted_at"))
    due, placed, outdated = list[int](), list[Anchor](), 0
    for anchor in rows:
        target, before = heads.of(anchor.side), anchor.outdated_reason
        outcome = target and outcome_at(pull.repo.git, anchor, target, facts)
        if target is None or not outcome:
            due.append(anchor.pk)
            continue
        anchor.set_outcome(target, outcome)
        placed.append(anchor)
        is_new = before is None and anchor.outdated_reason is not None
        outdated += is_new and getattr(anchor, "deleted_at", None) is None
    save_places(placed)
    if due:
        Anchor.objects.filter(pk__in=due).update(due_at=timezone.now())
    return outdated


def save_places(anchors: Sequence[Anchor]) -> None:
    """Store where these anchors are; they exist. `bulk_update` would take fifty times as long."""
    for anchor in anchors:
        anchor.snippet = []  # it was not loaded, and is not written
    Anchor.objects.bulk_create(
        anchors, update_conflicts=True, unique_fields=["reply"], update_fields=[*CURRENT]
    )


def make_due(pull: Pull) -> None:
    """Let the worker look for all comments of a pull again."""
    Anchor.objects.filter(thread=pull.thread_id).update(due_at=timezone.now())


def follow_due(pull: Pull, anchors: Sequence[Anchor], seconds: float) -> list[Anchor]:
    """Look for these anchors at the pull's newest version, and store where they are, unless a push
    has moved them meanwhile. Returns those of which git could not tell.

    A commit that is no longer there has been removed for good (`forget_commit`). An anchor on the
    old side waits for the merge base of the version (`versions.read_contents`).
    """
    git, facts, heads = pull.repo.git, GitFacts(), heads_of(pull)
    if heads is None:  # an archive may have comments without versions
        Anchor.objects.filter(pk__in=[anchor.pk for anchor in anchors]).update(due_at=None)
        return []
    search = Search(git, facts, FILES_MOST)
    search.add(anchors, heads)
    search.run(seconds)
    lost = git.missing({anchor.commit_sha for anchor in anchors})
    failed = []
    for anchor in anchors:
        target, due_at = heads.of(anchor.side), anchor.due_at
        outcome: Outcome | None = None
        if target is not None:
            outcome = outcome_at(git, anchor, target, facts)
            if anchor.commit_sha in lost:
                outcome = Outdated.FILE_DELETED
            if outcome is None:
                failed.append(anchor)
                continue
        values: dict[str, object] = {"due_at": None}
        if target is not None and outcome is not None:
            anchor.set_outcome(target, outcome)
            values = {name: getattr(anchor, name) for name in CURRENT}
        Anchor.objects.filter(pk=anchor.pk, due_at=due_at).update(**values)
    return failed
