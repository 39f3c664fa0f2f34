"""Serializers for pulls and reviews: requests, and the records in responses."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import asdict
from typing import Any

from rest_framework import serializers

from apps.accounts.principal import Principal
from apps.browse.names import PATH_MAX
from apps.browse.serializers import CommitRecord, FilePageRecord, FileRecord
from apps.core.access import Level, Permission
from apps.core.serializers import (
    NameField,
    RecordSerializer,
    RequestSerializer,
    RuleCharField,
    StrictBooleanField,
    StrictCharField,
    StrictChoiceField,
    StrictIntegerField,
    TimestampField,
)
from apps.core.slugs import PREFIX
from apps.core.statements import values_of
from apps.git.merge import Strategy
from apps.git.range_diff import CommitPair
from apps.git.refs import MOST_BYTES
from apps.pulls import rules
from apps.pulls.approval import Approval, Eligibility, MergeReadiness
from apps.pulls.models import (
    ACTIVE,
    PULL_ROW,
    SHA_MAX,
    Pull,
    PullStatus,
    Review,
    ReviewStatus,
)
from apps.pulls.review_requests import pending_by_pull
from apps.pulls.reviewer_serializers import RequestedReviewer, requested_reviewer
from apps.pulls.source_branch import SourceDeletion
from apps.repos.access import RepoAccess
from apps.repos.models import Protection, Repo, RepoPath
from apps.repos.protection_rules import MISSING, settings_of
from apps.repos.rules import branch_problem
from apps.repos.serializers import RecordWithSettings
from apps.statuses.queries import checks_record, states_of
from apps.statuses.serializers import STATES, ChecksRecord
from apps.threads.anchors import Side
from apps.threads.serializers import Html

TITLE_MAX = 255
BODY_MAX = 65_536
PAIR_STATUSES = ["equal", "changed", "added", "removed"]
COMMENT_KINDS = ["comment", "suggestion", "question", "task"]
LINE_MAX = 2**31 - 1
COMMENT_MAX = 2**31 - 1
"""The largest number of a comment that a request may have."""
APPLIED_MAX = 50
"""Most suggestions that are applied together."""
SOURCE_MAX = MOST_BYTES + 72
"""Most characters of a branch with a prefix: `teams/`, a slug and a colon."""


class SettableStatus(StrictChoiceField):
    """A status that people can set. For `merged`, the error names the merge endpoint."""

    def __init__(self, **options: Any) -> None:
        super().__init__([*rules.SETTABLE], **options)

    def to_internal_value(self, data: Any) -> str:
        if data == PullStatus.MERGED:
            raise serializers.ValidationError("A pull is merged by POST …/pulls/{number}/merge.")
        return super().to_internal_value(data)


class CreatePull(RequestSerializer):
    title = NameField(max_length=TITLE_MAX)
    body = StrictCharField(max_length=BODY_MAX, allow_blank=True)
    source_branch = RuleCharField(problem=rules.source_problem, max_length=SOURCE_MAX)
    target_branch = RuleCharField(problem=branch_problem, max_length=MOST_BYTES)
    status = StrictChoiceField([PullStatus.OPEN, PullStatus.DRAFT], required=False)


class UpdatePull(RequestSerializer):
    title = NameField(max_length=TITLE_MAX, required=False)
    body = StrictCharField(max_length=BODY_MAX, allow_blank=True, required=False)
    target_branch = RuleCharField(problem=branch_problem, max_length=MOST_BYTES, required=False)
    status = SettableStatus(required=False)


class SetPullStatus(RequestSerializer):
    status = SettableStatus()


class WithMessage(RequestSerializer):
    """The part of a request that both kinds of merges have."""

    message = StrictCharField(max_length=BODY_MAX, allow_null=True, required=False)
    delete_source_branch = StrictBooleanField(
        required=False, help_text="Whether to delete the source branch after the merge."
    )


class MergePull(WithMessage):
    merge_strategy = StrictChoiceField(Strategy, required=False)


class WithHead(RequestSerializer):
    """The part of a request about the head that its sender has seen."""

    expected_head_sha = RuleCharField(
        problem=rules.sha_problem, max_length=SHA_MAX, pattern="^[0-9a-f]{40}$", required=False
    )


class SetAutoMerge(WithMessage, WithHead):
    strategy = StrictChoiceField(Strategy, required=False)
    expected_target_branch = RuleCharField(
        problem=branch_problem, max_length=MOST_BYTES, required=False
    )


class ApplySuggestion(WithHead):
    message = StrictCharField(max_length=BODY_MAX, allow_null=True, required=False)


class ApplySuggestions(ApplySuggestion):
    comments = serializers.ListField(
        child=StrictIntegerField(min_value=1, max_value=COMMENT_MAX),
        min_length=1,
        max_length=APPLIED_MAX,
    )


class UpdateBranch(WithHead):
    """The body of an update of a pull's source branch."""


class CreateReview(RequestSerializer):
    status = StrictChoiceField([*rules.DECISIONS])
    body = StrictCharField(max_length=BODY_MAX, allow_blank=True, required=False)


class UpdateReview(RequestSerializer):
    status = StrictChoiceField(ReviewStatus, required=False)
    body = StrictCharField(max_length=BODY_MAX, allow_blank=True, required=False)


class CreateComment(RequestSerializer):
    body = StrictCharField(max_length=BODY_MAX)
    kind = StrictChoiceField(COMMENT_KINDS, required=False)
    commit_sha = RuleCharField(
        problem=rules.sha_problem, max_length=SHA_MAX, pattern="^[0-9a-f]{40}$"
    )
    path = StrictCharField(max_length=PATH_MAX, required=False)
    path_base64 = StrictCharField(max_length=2 * PATH_MAX, required=False)
    side = StrictChoiceField(Side, required=False)
    line = StrictIntegerField(min_value=1, max_value=LINE_MAX)
    start_line = StrictIntegerField(min_value=1, max_value=LINE_MAX, required=False)
    review_uuid = serializers.UUIDField(required=False, allow_null=True)

    def validate(self, values: dict[str, Any]) -> dict[str, Any]:
        if not {"path", "path_base64"} & values.keys():
            raise serializers.ValidationError({"path": "Send `path`, or `path_base64` instead."})
        return values


class AutoMergeRecord(RecordSerializer):
    """The auto-merge of a pull."""

    strategy = serializers.ChoiceField([*map(str, Strategy)])
    expected_head_sha = serializers.CharField()
    set_by_uuid = serializers.UUIDField()
    set_by_username = serializers.CharField()
    set_by_is_bot = serializers.BooleanField()
    message = serializers.CharField(allow_null=True)
    delete_source_branch = serializers.BooleanField()
    created_at = TimestampField()


class PullRecord(RecordSerializer):
    number = serializers.IntegerField()
    uuid = serializers.UUIDField()
    repo_path = serializers.CharField()
    title = serializers.CharField()
    body = serializers.CharField(allow_blank=True)
    body_html = Html()
    source_branch = serializers.CharField()
    target_branch = serializers.CharField()
    source_repo_path = serializers.CharField(allow_null=True)
    source_moved = serializers.BooleanField()
    status = serializers.ChoiceField([*map(str, PullStatus)])
    created_by_uuid = serializers.UUIDField()
    created_by_username = serializers.CharField()
    created_by_is_bot = serializers.BooleanField()
    head_sha = serializers.CharField(allow_null=True)
    base_sha = serializers.CharField(allow_null=True)
    merge_commit_sha = serializers.CharField(allow_null=True)
    merge_strategy = serializers.ChoiceField([*map(str, Strategy)], allow_null=True)
    merged_at = TimestampField(allow_null=True)
    merged_by_uuid = serializers.UUIDField(allow_null=True)
    merged_by_username = serializers.CharField(allow_null=True)
    merged_by_is_bot = serializers.BooleanField(allow_null=True)
    closed_at = TimestampField(allow_null=True)
    commit_count = serializers.IntegerField()
    additions = serializers.IntegerField()
    deletions = serializers.IntegerField()
    changed_files = serializers.IntegerField()
    checks = ChecksRecord()
    requested_reviewers = RequestedReviewer(many=True)
    auto_merge = AutoMergeRecord(allow_null=True)
    last_activity_at = TimestampField()
    created_at = TimestampField()
    updated_at = TimestampField()
    web_url = serializers.CharField()
    api_url = serializers.CharField()


class SourceDeletionRecord(RecordSerializer):
    """The outcome of deleting the source branch after a merge."""

    deleted = serializers.BooleanField()
    error = serializers.CharField(allow_null=True)
    detail = serializers.CharField(allow_null=True)


class MergeRecord(RecordSerializer):
    merged = serializers.BooleanField()
    merge_strategy = serializers.ChoiceField([*map(str, Strategy)])
    merge_commit_sha = serializers.CharField()
    head_sha = serializers.CharField()
    target_branch = serializers.CharField()
    target_sha_before = serializers.CharField()
    merged_at = TimestampField()
    merged_by_uuid = serializers.UUIDField()
    merged_by_username = serializers.CharField()
    source_branch_deletion = SourceDeletionRecord(allow_null=True)
    pull = PullRecord()


class AppliedSuggestionsRecord(RecordSerializer):
    commit_sha = serializers.CharField()
    comments = serializers.ListField(child=serializers.IntegerField())
    pull = PullRecord()


class PullVersionRecord(RecordSerializer):
    version = serializers.IntegerField()
    head_sha = serializers.CharField()
    base_sha = serializers.CharField(allow_null=True)
    merge_base_sha = serializers.CharField(allow_null=True)
    pushed_by_uuid = serializers.UUIDField(allow_null=True)
    pushed_by_username = serializers.CharField(allow_null=True)
    created_at = TimestampField()
    is_forced = serializers.BooleanField(allow_null=True)
    commit_count = serializers.IntegerField(allow_null=True)
    additions = serializers.IntegerField(allow_null=True)
    deletions = serializers.IntegerField(allow_null=True)
    changed_files = serializers.IntegerField(allow_null=True)


class PullCommitRecord(CommitRecord):
    """A commit of a pull. A class of its own, because its page has more properties."""


class PullFileRecord(FileRecord):
    """A changed file of a pull. A class of its own, because its page has more properties."""


class SeriesCommitRecord(RecordSerializer):
    """A commit of a version, in a comparison of versions."""

    sha = serializers.CharField()
    subject = serializers.CharField(allow_blank=True)
    position = serializers.IntegerField()


class CommitPairRecord(RecordSerializer):
    """A commit of one version and the similar commit of another."""

    status = serializers.ChoiceField(PAIR_STATUSES)
    old = SeriesCommitRecord(allow_null=True)
    new = SeriesCommitRecord(allow_null=True)
    diff = serializers.CharField(allow_null=True)


class PullComparisonRecord(RecordSerializer):
    """Two versions of a pull. `from` is a keyword of Python, so it is added in `get_fields`."""

    to = serializers.IntegerField()
    is_rebased = serializers.BooleanField()
    commits = CommitPairRecord(many=True)
    changed_files = serializers.IntegerField()
    files = FilePageRecord()

    def get_fields(self) -> dict[str, Any]:
        return {"from": serializers.IntegerField(), **super().get_fields()}


class ReviewRecord(RecordSerializer):
    uuid = serializers.UUIDField()
    pull_number = serializers.IntegerField()
    status = serializers.ChoiceField([*map(str, ReviewStatus)])
    body = serializers.CharField(allow_blank=True)
    body_html = Html()
    commit_sha = serializers.CharField(allow_null=True)
    is_stale = serializers.BooleanField()
    is_eligible = serializers.BooleanField()
    reason = serializers.CharField(allow_null=True)
    dismissed_by_username = serializers.CharField(allow_null=True)
    created_by_uuid = serializers.UUIDField()
    created_by_username = serializers.CharField()
    created_by_is_bot = serializers.BooleanField()
    created_at = TimestampField()
    updated_at = TimestampField()


class NamedApprover(RecordSerializer):
    user_uuid = serializers.UUIDField()
    username = serializers.CharField()


class MatchingProtection(RecordWithSettings):
    uuid = serializers.UUIDField()
    branch = serializers.CharField()
    is_satisfiable = serializers.BooleanField(
        help_text="Whether enough people besides the author and the head's pusher could approve."
    )
    approvers = NamedApprover(many=True)


class GivenApproval(RecordSerializer):
    review_uuid = serializers.UUIDField()
    user_uuid = serializers.UUIDField()
    username = serializers.CharField()
    is_bot = serializers.BooleanField()
    commit_sha = serializers.CharField(allow_null=True)
    is_stale = serializers.BooleanField()
    is_eligible = serializers.BooleanField()
    reason = serializers.CharField(allow_null=True)


class RequiredCheck(RecordSerializer):
    # Ignored, because DRF removes fields from the class: this replaces no property.
    context = serializers.CharField()  # type: ignore[assignment]
    state = serializers.ChoiceField([*STATES, MISSING])
    status_uuid = serializers.UUIDField(allow_null=True)
    counts = serializers.BooleanField()


class CommentsRecord(RecordSerializer):
    total = serializers.IntegerField()
    unresolved = serializers.IntegerField()


class PullProtectionRecord(RecordSerializer):
    pull_number = serializers.IntegerField()
    source_branch = serializers.CharField()
    source_moved = serializers.BooleanField()
    target_branch = serializers.CharField()
    head_sha = serializers.CharField(allow_null=True)
    base_sha = serializers.CharField(allow_null=True)
    is_protected = serializers.BooleanField()
    protections = MatchingProtection(many=True)
    required_approvals = serializers.IntegerField(
        help_text="Number of approvals that a merge requires."
    )
    approval_count = serializers.IntegerField()
    approvals_missing = serializers.IntegerField()
    approvals = GivenApproval(many=True)
    checks = RequiredCheck(many=True)
    statuses_missing = serializers.ListField(child=serializers.CharField())
    comments = CommentsRecord()
    changes_requested_by = serializers.ListField(child=serializers.CharField())
    pending_approvers = serializers.ListField(child=serializers.CharField())
    is_mergeable = serializers.BooleanField()
    conflict_paths = serializers.ListField(child=serializers.CharField())
    allowed_strategies = serializers.ListField(child=serializers.ChoiceField([*map(str, Strategy)]))
    caller_can_review = serializers.BooleanField()
    caller_can_merge = serializers.BooleanField()
    blocked_reasons = serializers.ListField(child=serializers.CharField())


def pull_records(
    rows: Iterable[tuple[Sequence[Any], Repo | RepoPath]], principal: Principal, base: str
) -> list[dict[str, Any]]:
    """The records of pulls, from the values of `PULL_ROW` and the repository of each, with its
    owner.

    They name only source repositories that the principal may read; one query for pulls from forks,
    one for the states of heads, and one for the requests of open pulls and drafts.
    """
    records = [(dict(zip(PULL_ROW, row, strict=True)), repo) for row, repo in rows]
    states = states_of([(repo.pk, record["head_sha"] or "") for record, repo in records])
    requests = pending_by_pull(
        [record["id"] for record, _ in records if record["status"] in ACTIVE]
    )
    own = {repo.pk: repo.path for _, repo in records}
    other_ids = {record["source_repo_id"] for record, _ in records} - own.keys()
    paths = {**own, **Repo.objects.paths_known_to(principal, other_ids)}
    for record, repo in records:
        record["repo_path"] = repo.path
        record["checks"] = checks_record(states, repo.pk, record["head_sha"])
        pending = requests.get(record.pop("id"), ())
        record["requested_reviewers"] = [requested_reviewer(row) for row in pending]
        record["auto_merge"] = auto_merge_record(record)
        record["source_repo_path"] = paths.get(record.pop("source_repo_id"))
        record["web_url"] = f"{base}/{repo.path}/pulls/{record['number']}"
        record["api_url"] = f"{base}{PREFIX}{repo.api_path}/pulls/{record['number']}"
    return [record for record, _ in records]


def auto_merge_record(record: dict[str, Any]) -> dict[str, Any] | None:
    """Removes the columns of the auto-merge from a row, and returns their record."""
    values = {
        "strategy": record.pop("auto_merge_strategy"),
        "expected_head_sha": record.pop("auto_merge_head_sha"),
        "set_by_uuid": record.pop("auto_merge_by_uuid"),
        "set_by_username": record.pop("auto_merge_by_username"),
        "set_by_is_bot": record.pop("auto_merge_by_is_bot"),
        "message": record.pop("auto_merge_message"),
        "delete_source_branch": bool(record.pop("auto_merge_deletes_source")),
        "created_at": record.pop("auto_merge_set_at"),
    }
    return None if values["strategy"] is None else values


def pull_record(pull: Pull, principal: Principal, base: str) -> dict[str, Any]:
    """The record of a pull with its repository, read again."""
    rows = [(values_of(pull, PULL_ROW), pull.repo)]
    return pull_records(rows, principal, base)[0]


def applied_record(
    pull: Pull, sha: str, numbers: Sequence[int], principal: Principal, base: str
) -> dict[str, Any]:
    """The response to applied suggestions: the commit, and the pull with its new head."""
    record = pull_record(pull, principal, base)
    return {"commit_sha": sha, "comments": sorted({*numbers}), "pull": record}


def merge_record(
    pull: Pull, record: dict[str, Any], deletion: SourceDeletion | None
) -> dict[str, Any]:
    """The response to a merge, from the merged pull and its record. `deletion`: of the source
    branch, if the request asked for it.
    """
    error = deletion.error if deletion else None
    outcome = {
        "deleted": error is None,
        "error": error and error.code,
        "detail": error and error.detail,
    }
    return {
        "merged": True,
        "merge_strategy": record["merge_strategy"],
        "merge_commit_sha": record["merge_commit_sha"],
        "head_sha": record["head_sha"],
        "target_branch": record["target_branch"],
        "merged_at": record["merged_at"],
        "merged_by_uuid": record["merged_by_uuid"],
        "merged_by_username": record["merged_by_username"],
        "target_sha_before": pull.base_sha,
        "source_branch_deletion": outcome if deletion else None,
        "pull": record,
    }


def commit_pair_record(pair: CommitPair) -> dict[str, Any]:
    """The record of a pair of commits. U+FFFD replaces bytes of the diff that are not UTF-8."""
    diff = None if pair.diff is None else pair.diff.decode("utf-8", "replace")
    sides = {"old": pair.old and asdict(pair.old), "new": pair.new and asdict(pair.new)}
    return {"status": pair.status, **sides, "diff": diff}


def review_record(review: Review, eligibility: Eligibility | None) -> dict[str, Any]:
    """The record of a row of `ReviewQuerySet.with_people`, whose pull has its thread loaded.
    Without an eligibility, it lacks the fields that are computed.
    """
    computed: dict[str, Any] = {}
    if eligibility is not None:
        reason = eligibility.reason_against_review(review)
        computed["is_stale"] = eligibility.shows_stale(review)
        computed |= {"is_eligible": reason is None, "reason": reason}
    return {
        "uuid": review.uuid,
        "pull_number": review.pull.number,
        "status": review.status,
        "body": review.body,
        "commit_sha": review.commit_sha,
        **computed,
        "dismissed_by_username": review.dismissed_by.username if review.dismissed_by else None,
        "created_by_uuid": review.created_by.uuid,
        "created_by_username": review.created_by.username,
        "created_by_is_bot": review.created_by.is_bot,
        "created_at": review.created_at,
        "updated_at": review.updated_at,
    }


def pull_protection_record(readiness: MergeReadiness, access: RepoAccess) -> dict[str, Any]:
    """The protections, approvals and blockers of a pull, and what the caller can do with it."""
    pull, approval = readiness.pull, readiness.approval
    protections = approval.protections
    codes = [blocker.code for blocker in readiness.blockers]
    may_merge = access.level >= Level.WRITE and access.is_writable
    return {
        "pull_number": pull.number,
        "source_branch": pull.source_branch,
        "source_moved": pull.source_moved,
        "target_branch": pull.target_branch,
        "head_sha": pull.head_sha,
        "base_sha": pull.base_sha,
        "is_protected": bool(protections),
        "protections": [matching_protection(rule, approval) for rule in protections],
        "required_approvals": approval.required,
        "approval_count": len(approval.counting),
        "approvals_missing": approval.wanting,
        "approvals": [given_approval(review, approval) for review in approval.approvals],
        "checks": [asdict(check) for check in approval.checks.required],
        "statuses_missing": [*approval.unmet_statuses],
        "comments": {
            "total": approval.comments.total,
            "unresolved": approval.comments.unresolved,
        },
        "changes_requested_by": approval.changes_requested_by,
        "pending_approvers": [user.username for user in approval.pending],
        "is_mergeable": not codes,
        "conflict_paths": list(readiness.git.conflict_paths),
        "allowed_strategies": [*map(str, readiness.git.allowed_strategies)],
        "caller_can_review": access.principal.is_signed_in
        and access.principal.permission.includes(Permission.WRITE)
        and approval.eligibility.reason_against(access.user, access.level) is None,
        "caller_can_merge": may_merge and not codes,
        "blocked_reasons": codes,
    }


def matching_protection(protection: Protection, approval: Approval) -> dict[str, Any]:
    users = [approver.user for approver in protection.approvers.all()]
    return {
        "uuid": protection.uuid,
        "branch": protection.branch,
        **settings_of(protection),
        "is_satisfiable": approval.is_satisfiable(protection),
        "approvers": [{"user_uuid": user.uuid, "username": user.username} for user in users],
    }


def given_approval(review: Review, approval: Approval) -> dict[str, Any]:
    reason = approval.eligibility.reason_against_review(review)
    return {
        "review_uuid": review.uuid,
        "user_uuid": review.created_by.uuid,
        "username": review.created_by.username,
        "is_bot": review.created_by.is_bot,
        "commit_sha": review.commit_sha,
        "is_stale": approval.eligibility.shows_stale(review),
        "is_eligible": reason is None,
        "reason": reason,
    }
