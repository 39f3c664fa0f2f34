"""People who could review a pull: approvers of its target, and authors of the lines it changes.

The authors are those of git's blame. They are accounts by the addresses in commits, as commits
show them. The cache has them by commits, because blame may take seconds.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass

from django.db.models import OuterRef, Subquery

from apps.accounts.models import NOT_GONE, User
from apps.accounts.principal import Principal
from apps.browse.cache import ForNow, cached, find, key_of, unpack
from apps.browse.read_slots import heavy_slots
from apps.browse.serializers import accounts_of
from apps.core.access import Level
from apps.core.errors import ApiError
from apps.git.blame import blame_parts
from apps.git.diff import FileChange, changed_lines, parse_hunks
from apps.git.run import GitError, GitTimeout, GitTooLarge
from apps.pulls.approval import level_of_approver
from apps.pulls.models import Pull, PullVersion
from apps.pulls.review_requests import can_review, role_of
from apps.pulls.versions import files_of, get_version, patches_of
from apps.repos.models import Protection, protections_of
from apps.teams.models import Member

MOST = 5
FILES_MAX = 10
"""Most files whose changed lines git blames, in git's order."""
RANGES_MAX = 20
"""Most ranges of changed lines of a file."""
LINES_MAX = 200
"""Most lines of a range."""
BLAME_SECONDS = 5.0
"""Time for all files of a pull. The authors that git has found by then are suggested."""
AUTHORS_MAX = 20
REGULAR = "100"
"""The first digits of the mode of a file that is no link and no submodule."""


@dataclass(frozen=True)
class Suggestion:
    """A person who could review a pull."""

    user: User
    is_approver: bool
    """Whether a protection of the target names the person."""
    changed_lines: int
    """The number of lines by this person that the pull changes, as far as git was asked."""


def suggestions(
    pull: Pull,
    principal: Principal,
    asked: Collection[str],
    throttle_key: str | None,
    protections: Sequence[Protection] | None = None,
) -> list[Suggestion]:
    """At most `MOST` people who can read the repository, and are neither the author of the pull nor
    the person who pushed its head, nor in `asked`. Authors of most lines come first.

    Without a `throttle_key`, only cached answers of git are used. If git is busy or fails, only
    approvers are suggested. At most five queries, and those of the answers of git.
    """
    if protections is None:
        protections = protections_of(pull.repo, pull.target_branch)
    lines = _lines_by_username(pull, principal, throttle_key)
    people = {approver.pk: approver for approver in _approvers(pull, protections)}
    named = {*people}
    for person in _people(pull, lines):
        people.setdefault(person.pk, person)
    proposed = [
        Suggestion(person, person.pk in named, lines.get(person.username, 0))
        for person in people.values()
        if _fits(pull, person) and person.username not in asked
    ]
    return sorted(proposed, key=lambda one: -one.changed_lines)[:MOST]


def _fits(pull: Pull, person: User) -> bool:
    is_own = person.pk in (pull.thread.created_by_id, pull.head_pushed_by_id)
    return person.is_active and not person.is_bot and not is_own


def _approvers(pull: Pull, protections: Iterable[Protection]) -> list[User]:
    return [
        approver.user
        for protection in protections
        for approver in protection.approvers.all()
        if level_of_approver(approver, pull.repo) >= Level.READ
    ]


def _people(pull: Pull, usernames: Collection[str]) -> list[User]:
    """The people with these usernames who can review the pull; one query."""
    if not usernames:
        return []
    team = pull.repo.owner_team_id
    roles = Member.objects.filter(team=team, user=OuterRef("pk")).values("role")[:1]
    rows = User.objects.filter(NOT_GONE, username__in=usernames).annotate(role=Subquery(roles))
    return [person for person in rows if can_review(person, pull.repo, role_of(person))]


def _lines_by_username(
    pull: Pull, principal: Principal, throttle_key: str | None
) -> Mapping[str, int]:
    authors: Sequence[tuple[str, int]] = ()
    with suppress(ApiError, GitError):
        version = get_version(pull, None, with_files=throttle_key is not None)
        if version is not None:
            authors = authors_of_changes(version, throttle_key)
    accounts = accounts_of([email for email, _ in authors], principal)
    lines = Counter[str]()
    for email, count in authors:
        if account := accounts.get(email.lower()):
            lines[account.username] += count
    return lines


def authors_of_changes(version: PullVersion, throttle_key: str | None) -> list[tuple[str, int]]:
    """The addresses of the authors of the lines that a version changes, each with the number of
    these lines, largest first; cached. Without a `throttle_key`, git is not asked.

    Errors: 422 `too_expensive`, 503, `GitError`.
    """
    base = version.merge_base_sha
    if base is None:
        return []
    repo, question = version.pull.repo, ("authors of changes", base, version.head_sha)
    if throttle_key is None:
        stored = find(repo, key_of(question))
        return [(email, count) for email, count in unpack(stored)] if stored else []
    answer = cached(repo, question, lambda: _blame(version, base, throttle_key))
    return [(email, count) for email, count in answer]


def _blame(version: PullVersion, base: str, throttle_key: str) -> list[tuple[str, int]] | ForNow:
    listing = files_of(version, throttle_key)
    files = [file for file in listing.files if _is_blamed(file)][:FILES_MAX]
    patches = patches_of(listing, files, throttle_key)
    lines, is_complete = Counter[str](), True
    with heavy_slots.slot(throttle_key):
        git = version.pull.repo.git.within(BLAME_SECONDS)
        for file, patch in zip(files, patches, strict=True):
            parts = _changed_parts(patch or b"")
            if not parts:
                continue
            try:
                for part in blame_parts(git, base, file.previous_path or file.path, parts):
                    lines[part.commit.author.email] += part.last - part.first + 1
            except GitTimeout:
                is_complete = False
                break
            except GitTooLarge:
                is_complete = False
    authors = lines.most_common(AUTHORS_MAX)
    return authors if is_complete else ForNow(authors)


def _is_blamed(file: FileChange) -> bool:
    """Whether the file had text that the pull changes."""
    was_file = (file.previous_mode or "").startswith(REGULAR)
    return was_file and not file.is_binary and not file.is_too_large


def _changed_parts(patch: bytes) -> list[tuple[int, int]]:
    parts = [part for hunk in parse_hunks(patch) for part in changed_lines(hunk)][:RANGES_MAX]
    return [(first, min(last, first + LINES_MAX - 1)) for first, last in parts]
