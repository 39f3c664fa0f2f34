"""The actions of pulls and reviews, except merging."""

from __future__ import annotations

from typing import Any

from django.db import transaction
from django.utils import timezone

from apps.accounts.models import User
from apps.core.access import Level, Permission
from apps.core.changes import given, set_changed
from apps.core.locks import lock
from apps.core.rendered import rendered, rendered_for_edit, set_html
from apps.core.transactions import final_transaction
from apps.events.kinds import Kind, PingKind
from apps.events.record import Change, Pinged, record, record_all
from apps.git.cache import GitFacts
from apps.pulls import rules
from apps.pulls.approval import level_of_approver
from apps.pulls.auto_merge import ended, follow_review, wake
from apps.pulls.following import make_due
from apps.pulls.heads import (
    find_source,
    keep_head,
    read_target,
    read_tips,
    update_from_tips,
    update_refs_on_commit,
    update_target,
)
from apps.pulls.models import AutoMergeEnd, MergeAttempt, Pull, PullStatus, Review, ReviewStatus
from apps.pulls.review_requests import has_pending_request, pending_by_pull
from apps.pulls.reviewing import store_review
from apps.pulls.versions import note_base, write_versions
from apps.repos.access import RepoAccess
from apps.repos.commits import note_commits
from apps.repos.mentions import pings_of_edit, pings_of_text
from apps.repos.models import protections_of
from apps.threads.anchors import Anchor
from apps.threads.models import Thread, ThreadKind
from apps.uploads.uses import forget_uses, note_uses


def create_pull(
    *,
    access: RepoAccess,
    title: str,
    body: str,
    source_branch: str,
    target_branch: str,
    status: str = PullStatus.OPEN,
) -> Pull:
    """Open a pull and its thread. A draft requests no reviews yet. The branches need not exist; the
    fork of the source must. Locks the fork and the repository, after asking git.

    422 `source_not_found`, `same_branch`; 403 `role_required` without write access to the fork; 409
    `pull_already_exists`.
    """
    access.require_change(Level.READ)
    source, branch = find_source(access, source_branch)
    branches = {"source_branch": branch, "target_branch": target_branch}
    pull = Pull(repo=access.repo, source_repo=source, status=PullStatus(status), **branches)
    rules.check_branches_differ(pull)
    content = {"title": title, "body": body, **rendered(body)}
    _open_pull(access, pull, content, read_tips(pull, access.user))
    return pull


@final_transaction
def _open_pull(access: RepoAccess, pull: Pull, content: dict[str, Any], facts: GitFacts) -> None:
    _lock_repos(pull)
    rules.check_not_open_already(pull)
    pull.thread = Thread.open(pull.repo, kind=ThreadKind.PULL, created_by=access.user, **content)
    pull.number, pull.updated_at = pull.thread.number, pull.thread.created_at
    versions = update_from_tips(pull, access.user, facts)
    pull.save()
    update_refs_on_commit(pull, write_versions(pull, versions))
    pings = [*pings_of_text(pull.repo, pull.thread.body_html), *_approver_pings(pull)]
    data = {"status": pull.status, **pull.event_heads()}
    record(Kind.PULL_CREATED, actor=access.user, about=pull, data=data, pings=pings)


def update_pull(
    *,
    access: RepoAccess,
    pull: Pull,
    title: str | None = None,
    body: str | None = None,
    status: str | None = None,
    target_branch: str | None = None,
) -> None:
    """Change a pull's title, body, status or target branch, as its author or with write access.

    Records one event: that of the new status, else `pull-updated`; and before it
    `pull-target-changed` for a new target, which only an open pull or a draft takes. A reopened
    pull takes the current tips of its branches. git is asked before the locks.

    Errors: 409 `pull_already_merged`, `pull_closed`, `invalid_transition`, `pull_already_exists`,
    `merge_in_progress`; 422 `same_branch`, `validation_failed` for a target that does not exist.
    For a status or a target locks the fork and the repository; always the pull and its thread.
    """
    access.require_change(Level.READ)
    access.require_author_or(Level.WRITE, pull.thread.created_by_id, "pull")
    access.check_holds(pull)
    reopens = status == PullStatus.OPEN and pull.status == PullStatus.CLOSED
    facts = read_tips(pull, access.user) if reopens else GitFacts()
    if target_branch == pull.target_branch:
        target_branch = None  # a program sends the whole record back
    if target_branch is not None:
        rules.check_takes_target(pull, target_branch)
        facts = read_target(pull, target_branch)
    content = given(title=title, body=body, html=rendered_for_edit(pull.thread, body) or None)
    new_status = None if status is None else PullStatus(status)
    _update_pull(access, pull, content, new_status, target_branch, facts)


@transaction.atomic
def _update_pull(
    access: RepoAccess,
    pull: Pull,
    content: dict[str, Any],
    status: PullStatus | None,
    target: str | None,
    facts: GitFacts,
) -> None:
    if status is not None or target is not None:
        _lock_repos(pull)
    lock(pull)
    lock(pull.thread)
    events = [] if target is None else _set_target(access, pull, target, facts)
    before, kind, old_html = PullStatus(pull.status), Kind.PULL_UPDATED, pull.thread.body_html
    if status not in (None, before):
        kind = _set_status(access, pull, PullStatus(status), facts)
    changed = pull.thread.revise(by=access.user, **content)
    data: dict[str, Any] = {"changed": changed}
    if kind is not Kind.PULL_UPDATED:
        data = {"changed": [*changed, "status"], "before": before, "after": status}
    if data["changed"]:
        ends = _follow_status(access, pull) if "status" in data["changed"] else []
        requests = [] if kind is Kind.PULL_UPDATED else _review_requests(pull)
        pings = [*pings_of_edit(pull.repo, pull, old_html, pull.thread.body_html), *requests]
        events += [Change(kind, access.user, pull, data, pings), *ends]
    if events:
        pull.touch()
        pull.save()
        record_all(events)


def _follow_status(access: RepoAccess, pull: Pull) -> list[Change]:
    """End the auto-merge of a closed pull, or let the worker try it; without saving the pull."""
    if pull.status == PullStatus.CLOSED:
        return ended(pull, AutoMergeEnd.CLOSED, access.user)
    pull.wake_auto_merge()
    return []


def _review_requests(pull: Pull) -> list[Pinged]:
    """The pings of people who are asked to review an open pull, and who may read it: the approvers
    of its target, and those with a pending request; at most three queries.
    """
    is_open = pull.status == PullStatus.OPEN
    requests = pending_by_pull([pull.pk]).get(pull.pk, ()) if is_open else ()
    people = (request.user for request in requests)
    return [*_approver_pings(pull), *((person, PingKind.REVIEW_REQUESTED) for person in people)]


def _approver_pings(pull: Pull) -> list[Pinged]:
    """The pings of the approvers of an open pull's target who may read it; at most two queries."""
    if pull.status != PullStatus.OPEN:
        return []
    protections = protections_of(pull.repo, pull.target_branch)
    return [
        (approver.user, PingKind.REVIEW_REQUESTED)
        for protection in protections
        for approver in protection.approvers.all()
        if level_of_approver(approver, pull.repo) >= Level.READ
    ]


def _set_target(access: RepoAccess, pull: Pull, target: str, facts: GitFacts) -> list[Change]:
    """Give an open pull or a draft another target, without saving it. Approvals for the former one
    become stale, and the auto-merge ends. Returns the events; the approvers of the new target are
    pinged.
    """
    if target == pull.target_branch:  # somebody else was faster
        return []
    rules.check_takes_target(pull, target)
    before, pull.target_branch = pull.target_branch, target
    rules.check_branches_differ(pull)
    rules.check_not_open_already(pull)
    _leave_merge_queue(pull)
    pull.target_changed_at = timezone.now()
    versions = update_target(pull, facts)
    note_base(pull)
    update_refs_on_commit(pull, write_versions(pull, versions))
    make_due(pull)  # the lines of the old side are in another merge base now
    pings = _approver_pings(pull)
    data = {**pull.event_heads(), "before": before, "after": target}
    ends = ended(pull, AutoMergeEnd.TARGET_CHANGED, access.user)
    return [Change(Kind.PULL_TARGET_CHANGED, access.user, pull, data, pings), *ends]


def _leave_merge_queue(pull: Pull) -> None:
    """Delete the position of a former merge in the queue of the old target; 409 during a merge, or
    if git may have carried one out whose rows are not written yet.
    """
    MergeAttempt.without_plan(timezone.now()).filter(pull=pull).delete()
    if MergeAttempt.objects.filter(pull=pull).exists():
        raise rules.merge_in_progress(pull)


def _set_status(access: RepoAccess, pull: Pull, status: PullStatus, facts: GitFacts) -> Kind:
    kind = rules.kind_of_transition(pull, status)
    if kind is Kind.PULL_REOPENED:
        rules.check_not_open_already(pull)
        versions = update_from_tips(pull, access.user, facts)
        note_base(pull)
        update_refs_on_commit(pull, write_versions(pull, versions))
        make_due(pull)
    if kind is Kind.PULL_CLOSED:  # delete a position that was kept in the merge queue
        MergeAttempt.without_plan(timezone.now()).filter(pull=pull).delete()
    pull.set_status(status)
    return kind


def _lock_repos(pull: Pull) -> None:
    """Lock the source's fork, then the target's repository, in the order of a push to the fork.

    Without the fork's lock, a push and this change could miss each other. The pull would then show
    another head than the one that is merged.
    """
    if pull.is_from_fork and pull.source_repo is not None:
        lock(pull.source_repo, even_deleted=True)
    lock(pull.repo)


# Reviews


def create_review(
    *,
    access: RepoAccess,
    pull: Pull,
    status: str,
    body: str = "",
    expected_head_sha: str | None = None,
    expected_target_branch: str | None = None,
) -> Review:
    """Review the pull's current head. Locks the pull.

    409 `head_changed`, `target_changed` if another head or target is expected.
    """
    access.require_change(Level.READ)
    access.check_holds(pull)
    content = {"status": status, "body": body, **rendered(body)}
    return _create_review(access, pull, content, expected_head_sha, expected_target_branch)


@final_transaction
def _create_review(
    access: RepoAccess, pull: Pull, content: dict[str, Any], head: str | None, target: str | None
) -> Review:
    lock(pull)
    review = store_review(pull, access.user, content, head, target)
    ends = follow_review(review, access.user)
    pings, data = pings_of_text(access.repo, review.body_html), {"status": review.status}
    record_all([Change(Kind.REVIEW_CREATED, access.user, review, data, pings), *ends])
    return review


def update_review(
    *,
    access: RepoAccess,
    review: Review,
    status: str | None = None,
    body: str | None = None,
    expected_head_sha: str | None = None,
    expected_target_branch: str | None = None,
) -> None:
    """Change the text or decision of one's own review, or dismiss any review as an admin.

    A decision, even a repeated one, is about the current head. Errors: 403 `role_required` for a
    dismissal, 403 `not_creator`, 409 `invalid_transition`, and as in `create_review`.
    Locks the pull and the review.
    """
    dismisses = status == ReviewStatus.DISMISSED
    access.require_change(Level.ADMIN if dismisses else Level.READ)
    values, html = given(body=body, status=status), rendered_for_edit(review, body)
    with transaction.atomic():
        _lock_review(access, review)
        if status is not None and not dismisses:
            rules.check_not_dismissed(review)
        if body is not None or not dismisses:
            rules.check_reviewer(review, access.user)
        rules.check_head(review.pull.head_sha, expected_head_sha)
        rules.check_target(review.pull, expected_target_branch)
        old_html = review.body_html
        changed = _revise_review(access.user, review, values, html)
        if not changed:
            return
        review.pull.thread.touch()
        is_dismissed = dismisses and "status" in changed
        kind = Kind.REVIEW_DISMISSED if is_dismissed else Kind.REVIEW_UPDATED
        data = {"status": review.status, "changed": changed}
        pings = pings_of_edit(access.repo, review, old_html, review.body_html)
        ends = follow_review(review, access.user)
        record_all([Change(kind, access.user, review, data, pings), *ends])


def _lock_review(access: RepoAccess, review: Review) -> None:
    access.check_holds(review.pull)
    lock(review.pull)
    lock(review)


def _revise_review(
    actor: User, review: Review, values: dict[str, Any], html: dict[str, Any]
) -> list[str]:
    """Save the changed fields; return the names of those that the event lists."""
    status = values.get("status")
    decides = status not in (None, ReviewStatus.DISMISSED)
    if decides:
        values["commit_sha"] = review.pull.head_sha
    changed = set_changed(review, values)
    if status == ReviewStatus.APPROVED:
        keep_head(review.pull)
    by_pusher = review.pull.may_be_pushed_by(actor)
    is_same = not changed and review.by_pusher == by_pusher
    if decides and not (is_same and _is_answered(review)):
        review.decided_at, review.by_pusher = timezone.now(), by_pusher
        changed = changed or ["status"]
    if review.status == ReviewStatus.DISMISSED and "status" in changed:
        review.dismissed_by = actor
    if changed:
        review.updated_at = timezone.now()
        stamps = ("by_pusher", "dismissed_by", "decided_at", "updated_at")
        review.save(update_fields=[*changed, *stamps, *set_html(review, html, changed)])
        note_uses(review.pull.repo_id, review.uuid, review.body, by=actor.pk)
        note_commits(review.pull.repo_id, review.body_html)
    return changed


def _is_answered(review: Review) -> bool:
    """Whether the review is its author's last decision, about the present target, and was made
    since they were asked for it: the same decision would change nothing.
    """
    changed_at = review.pull.target_changed_at
    is_void = changed_at is not None and review.decided_at < changed_at
    is_last = not is_void and not rules.has_decided_since(review)
    return is_last and not has_pending_request(review.pull, review.created_by_id)


@transaction.atomic
def delete_review(*, access: RepoAccess, review: Review) -> None:
    """Delete a review, as its author or as owner. 403 `not_creator`. Locks pull and review. Its
    comments on lines stay.
    """
    access.require_change(Level.READ)
    _lock_review(access, review)
    if access.granted < Level.OWNER:
        rules.check_reviewer(review, access.user)
    elif review.created_by_id != access.user.pk:
        access.check_permission(Permission.ADMIN)
    forget_uses([review.uuid])
    comments = Anchor.objects.filter(thread=review.pull.thread_id, review_uuid=review.uuid)
    comments.update(review_uuid=None)
    review.delete()
    wake([review.pull])
    record(Kind.REVIEW_DELETED, actor=access.user, about=review, data={"status": review.status})
