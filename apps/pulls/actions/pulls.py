"""Opening, editing, closing and reopening pulls."""

from __future__ import annotations

from typing import Any

from django.db import transaction
from django.utils import timezone

from apps.accounts.principal import Principal
from apps.core.access import Level
from apps.core.changes import given
from apps.core.locks import lock
from apps.core.rendered import rendered, rendered_for_edit
from apps.core.transactions import final_transaction
from apps.events.kinds import Kind, PingKind
from apps.events.record import Pinged, record
from apps.git.cache import GitFacts
from apps.pulls import rules
from apps.pulls.models import MergeAttempt, Pull, PullStatus
from apps.pulls.pushes import WRITTEN
from apps.pulls.sources import find_source
from apps.pulls.tips import read_tips, update_from_tips, update_refs_on_commit
from apps.pulls.versions import note_base, write_versions
from apps.repos.access import RepoAccess, level_on
from apps.repos.mentions import pings_of_edit, pings_of_text
from apps.repos.models import Approver, protections_of
from apps.threads.models import Thread, ThreadKind


def create_pull(
    *,
    by: RepoAccess,
    title: str,
    body: str,
    source_branch: str,
    target_branch: str,
    status: str = PullStatus.OPEN,
) -> Pull:
    """Open a pull and its thread, perhaps as a draft, which asks nobody for a review yet. Its
    branches need not exist, but a fork that it names must.

    Errors: 422 `source_not_found`, `same_branch`; 403 `role_required` for somebody else's fork; 409
    `pull_already_exists`. Locks the fork and the repository, after git has been asked for the
    figures.
    """
    by.require_change(Level.READ)
    source, branch = find_source(by, source_branch)
    branches = {"source_branch": branch, "target_branch": target_branch}
    pull = Pull(repo=by.repo, source_repo=source, status=PullStatus(status), **branches)
    rules.check_branches_differ(pull)
    content = {"title": title, "body": body, **rendered(body)}
    _open(by, pull, content, read_tips(pull, by.user))
    return pull


@final_transaction
def _open(by: RepoAccess, pull: Pull, content: dict[str, Any], facts: GitFacts) -> None:
    _lock_repos(pull)
    rules.check_not_open_already(pull)
    pull.thread = Thread.open(pull.repo, kind=ThreadKind.PULL, created_by=by.user, **content)
    pull.number, pull.updated_at = pull.thread.number, pull.thread.created_at
    versions = update_from_tips(pull, by.user, facts)
    pull.save()
    update_refs_on_commit(pull, write_versions(pull, versions))
    pings = [*pings_of_text(pull.repo, pull.thread.body_html), *_review_requests(pull)]
    data = {"status": pull.status, **pull.event_heads()}
    record(Kind.PULL_CREATED, actor=by.user, about=pull, data=data, pings=pings)


def update_pull(
    *,
    by: RepoAccess,
    pull: Pull,
    title: str | None = None,
    body: str | None = None,
    status: str | None = None,
) -> None:
    """Change what is given, as its author or with write access.

    One event: of the status, if that changes, else `pull-updated`. Errors: 409
    `pull_already_merged`, `invalid_transition`, `pull_already_exists`. Locks the fork and the
    repository for a status, the pull and its thread. A reopened pull has the tips that its branches
    have by now, for which git is asked before.
    """
    by.require_change(Level.READ)
    by.require_author_or(Level.WRITE, pull.thread.created_by_id, "pull")
    by.check_holds(pull)
    reopens = status == PullStatus.OPEN and pull.status == PullStatus.CLOSED
    facts = read_tips(pull, by.user) if reopens else GitFacts()
    wanted = given(title=title, body=body, html=rendered_for_edit(pull.thread, body) or None)
    _update(by, pull, wanted, None if status is None else PullStatus(status), facts)


@transaction.atomic
def _update(
    by: RepoAccess, pull: Pull, wanted: dict[str, Any], status: PullStatus | None, facts: GitFacts
) -> None:
    if status is not None:
        _lock_repos(pull)
    lock(pull)
    lock(pull.thread)
    before, kind, text = PullStatus(pull.status), Kind.PULL_UPDATED, pull.thread.body_html
    if status not in (None, before):
        kind = _set_status(by, pull, PullStatus(status), facts)
    changed = pull.thread.revise(by=by.user, **wanted)
    data: dict[str, Any] = {"changed": changed}
    if kind is not Kind.PULL_UPDATED:
        data = {"changed": [*changed, "status"], "before": before, "after": status}
    if not data["changed"]:
        return
    pull.touch()
    pull.save(update_fields=WRITTEN)
    asked = [] if kind is Kind.PULL_UPDATED else _review_requests(pull)
    pings = [*pings_of_edit(pull.repo, pull, text, pull.thread.body_html), *asked]
    record(kind, actor=by.user, about=pull, data=data, pings=pings)


def _review_requests(pull: Pull) -> list[Pinged]:
    """Whose review a pull asks for by being open: the approvers, by name, of the protections of
    its target, where they may read it. Two queries at most; nobody where none are named.
    """
    if pull.status != PullStatus.OPEN:
        return []
    protections = protections_of(pull.repo, pull.target_branch)
    approvers = [one for protection in protections for one in protection.approvers.all()]
    reading = (one.user for one in approvers if _may_read(pull, one))
    return [(user, PingKind.REVIEW_REQUESTED) for user in reading]


def _may_read(pull: Pull, approver: Approver) -> bool:
    role: str | None = getattr(approver, "role", None)
    return level_on(Principal(approver.user), pull.repo, role) >= Level.READ


def _set_status(by: RepoAccess, pull: Pull, status: PullStatus, facts: GitFacts) -> Kind:
    """Change to another status, without saving the pull; returns the event of it."""
    kind = rules.kind_of_move(pull, status)
    if kind is Kind.PULL_REOPENED:
        rules.check_not_open_already(pull)
        versions = update_from_tips(pull, by.user, facts)
        note_base(pull)
        update_refs_on_commit(pull, write_versions(pull, versions))
    if kind is Kind.PULL_CLOSED:  # no place in the queue is kept for it
        MergeAttempt.without_plan(timezone.now()).filter(pull=pull).delete()
    pull.set_status(status)
    return kind


def _lock_repos(pull: Pull) -> None:
    """Lock the fork that the source is in, then the target's repository, as a push to it does.

    Such a push looks for pulls once it has stored its heads: without the fork's lock the two could
    miss each other, and the pull would show, and have approved, another head than is merged.
    """
    if pull.is_from_fork and pull.source_repo is not None:
        lock(pull.source_repo)
    lock(pull.repo)
