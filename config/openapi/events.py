"""Typed events: one schema for each kind, with its own `target` and `data`.

Events are stored for good. A field that a kind got later is not required: older events lack it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from drf_spectacular.extensions import OpenApiSerializerExtension
from drf_spectacular.utils import extend_schema_field
from rest_framework.serializers import (
    BooleanField,
    CharField,
    ChoiceField,
    Field,
    IntegerField,
    ListField,
    UUIDField,
)

from apps.core.serializers import RecordSerializer, TimestampField
from apps.events.kinds import Kind
from apps.events.serializers import EventRecord
from apps.git.merge import Strategy
from apps.pulls.models import AutoMergeEnd, PullStatus, ReviewStatus
from apps.repos import actions as repos
from apps.repos.protection_rules import SETTINGS, Fields
from apps.repos.serializers import RecordWithSettings, RepoRecord
from apps.statuses.models import StatusState
from apps.teams import actions as teams
from apps.teams.models import Role
from apps.teams.serializers import TeamRecord
from apps.threads.models import ThreadStatus
from apps.webhooks.models import DisabledReason

Record = type[RecordSerializer]


def record(name: str, base: Record = RecordSerializer, /, **fields: Any) -> Record:
    """A class of records; `name` is that of its schema. The fields of `base` come first."""
    return type(name, (base,), fields)


def camel(words: str) -> str:
    """`PullMerged` for `pull-merged`."""
    return words.title().replace("-", "")


def target(kind: str, /, **fields: Any) -> Record:
    """The records of targets of one kind."""
    return record(f"{camel(kind)}Target", record("Target", kind=ChoiceField([kind])), **fields)


def changes(name: str, values: Record) -> Record:
    """The names of the changed fields, and those values that everybody may see."""
    return record(name, Changes, before=values(required=False), after=values(required=False))


def word_of(words: Any, **options: Any) -> ChoiceField:
    return ChoiceField([*map(str, words)], **options)


@extend_schema_field({"type": "integer", "deprecated": True})
class FormerNumber(Field[Any, Any, Any, Any]):
    """The former name of `number`."""


PULL_NUMBER = "Number of the pull."
TeamTarget = target("team", slug=CharField(help_text="Slug of the team at that time."))
MemberTarget = target("member", username=CharField())
RepoTarget = target("repo", slug=CharField(help_text="Slug of the repository at that time."))
ForkTarget = target("fork", uuid=UUIDField())
BranchTarget = target("branch", name=CharField(help_text="Name of the branch."))
TagTarget = target("tag", name=CharField(help_text="Name of the tag."))
ProtectionTarget = target("protection", uuid=UUIDField())
StatusTarget = target("status", uuid=UUIDField(), sha=CharField())
ApproverTarget = target(
    "approver",
    uuid=UUIDField(help_text="UUID of the approver's account."),
    protection_uuid=UUIDField(),
)
PullTarget = target("pull", number=IntegerField(help_text=PULL_NUMBER))
ReviewTarget = target(
    "review",
    uuid=UUIDField(),
    number=IntegerField(help_text=PULL_NUMBER),
    pull_number=FormerNumber(help_text="Former name of `number`: use that instead."),
)
ThreadTarget = target("thread", number=IntegerField(help_text="Number of the thread."))
ReplyTarget = target(
    "reply",
    number=IntegerField(help_text="Number of the reply in its thread."),
    thread_number=IntegerField(help_text="Number of the thread or pull."),
)
TokenTarget = target("token", uuid=UUIDField())
UserTarget = target("user", username=CharField(help_text="Username of the account at that time."))
InviteTarget = target("invite", uuid=UUIDField())
SiteSettingsTarget = target("site-settings")
RateLimitTarget = target("rate-limit", uuid=UUIDField())
SshKeyTarget = target("ssh_key", uuid=UUIDField())
WebhookTarget = target("webhook", uuid=UUIDField())

Changes = record("Changes", changed=ListField(child=CharField()))


def optional_fields(record: RecordSerializer, names: Sequence[str]) -> Fields:
    """These fields of a record, none of them required."""
    fields = record.get_fields()
    for name in names:
        fields[name].required = False
    return {name: fields[name] for name in names}


class TeamValues(RecordSerializer):
    """The changed values of a team."""

    def get_fields(self) -> Fields:
        return optional_fields(TeamRecord(), teams.PUBLIC)


class RepoValues(RecordSerializer):
    """The changed values of a repository; long texts are cut after 1,000 characters."""

    def get_fields(self) -> Fields:
        return optional_fields(RepoRecord(), repos.PUBLIC)


UserValues = record(
    "UserValues",
    display_name=CharField(required=False),
    is_active=BooleanField(required=False),
    is_staff=BooleanField(required=False),
)
TeamChanges = changes("TeamChanges", TeamValues)
RepoChanges = changes("RepoChanges", RepoValues)
UserChanges = changes("UserChanges", UserValues)
MemberData = record("MemberData", username=CharField(), role=word_of(Role))
MemberChange = record("MemberChange", MemberData, before=word_of(Role))
ForkFailure = record("ForkFailure", error=CharField())
DeletionData = record("DeletionData", path=CharField(), purge_at=TimestampField())
ForgottenCommit = record("ForgottenCommit", sha=CharField())
RefMoved = record("RefMoved", before=CharField(allow_null=True), after=CharField(allow_null=True))
BranchMoved = record(
    "BranchMoved",
    RefMoved,
    forced=BooleanField(allow_null=True),
    commit_count=IntegerField(allow_null=True),
)


class ProtectionData(RecordWithSettings):
    branch = CharField()

    def get_fields(self) -> Fields:
        """The settings, of which only `required_approvals` is in all events."""
        fields = super().get_fields()
        for name in SETTINGS.keys() - {"required_approvals"}:
            fields[name].required = False
        return fields


StatusData = record("StatusData", sha=CharField(), context=CharField(), state=word_of(StatusState))
ProtectionChange = record(
    "ProtectionChange",
    ProtectionData,
    before=ProtectionData(),
    changed=ListField(child=CharField()),
)
ApproverData = record("ApproverData", username=CharField(), branch=CharField())
PullBranches = record(
    "PullBranches",
    source_branch=CharField(),
    target_branch=CharField(),
    status=ChoiceField(["open", "draft"], required=False),
    head_sha=CharField(allow_null=True, required=False),
)
HeadMoved = record(
    "HeadMoved",
    RefMoved,
    head_sha=CharField(required=False),
    source_branch=CharField(required=False),
    target_branch=CharField(required=False),
    version=IntegerField(required=False),
    comments_outdated=IntegerField(required=False),
)
PullStatusChange = record(
    "PullStatusChange", Changes, before=word_of(PullStatus), after=word_of(PullStatus)
)
ThreadStatusChange = record(
    "ThreadStatusChange", Changes, before=word_of(ThreadStatus), after=word_of(ThreadStatus)
)
PullMerge = record(
    "PullMerge",
    head_sha=CharField(),
    merge_commit_sha=CharField(),
    merge_strategy=word_of(Strategy, allow_null=True),
    target_branch=CharField(),
)
AutoMergeData = record(
    "AutoMergeData", username=CharField(), strategy=word_of(Strategy), head_sha=CharField()
)
AutoMergeEndData = record("AutoMergeEndData", AutoMergeData, reason=word_of(AutoMergeEnd))
ImportData = record("ImportData", source=CharField())
ReviewData = record(
    "ReviewData",
    status=word_of(ReviewStatus),
    reply_numbers=ListField(child=IntegerField(), required=False),
)
ReviewRequestData = record("ReviewRequestData", username=CharField())
TargetChange = record(
    "TargetChange",
    before=CharField(),
    after=CharField(),
    head_sha=CharField(allow_null=True),
    source_branch=CharField(),
    target_branch=CharField(),
)
ReviewChange = record(
    "ReviewChange", status=word_of(ReviewStatus), changed=ListField(child=CharField())
)
Moderation = record("Moderation", moderated=BooleanField(required=False))
TokenName = record("TokenName", name=CharField())
SshKeyName = record("SshKeyName", name=CharField())
TokenExpiry = record("TokenExpiry", TokenName, expires_at=TimestampField())
RateLimitData = record(
    "RateLimitData",
    scope=CharField(),
    max_requests=IntegerField(),
    window_seconds=IntegerField(),
    is_enabled=BooleanField(),
)
RateLimitChange = record("RateLimitChange", RateLimitData, changed=ListField(child=CharField()))

Disabled = record("Disabled", reason=word_of(DisabledReason))

SHAPES: dict[Kind, tuple[Record, Record | None]] = {
    Kind.TEAM_CREATED: (TeamTarget, None),
    Kind.TEAM_UPDATED: (TeamTarget, TeamChanges),
    Kind.TEAM_DELETED: (TeamTarget, DeletionData),
    Kind.TEAM_RESTORED: (TeamTarget, None),
    Kind.MEMBER_ADDED: (MemberTarget, MemberData),
    Kind.MEMBER_UPDATED: (MemberTarget, MemberChange),
    Kind.MEMBER_REMOVED: (MemberTarget, MemberData),
    Kind.REPO_CREATED: (RepoTarget, None),
    Kind.REPO_UPDATED: (RepoTarget, RepoChanges),
    Kind.REPO_DELETED: (RepoTarget, DeletionData),
    Kind.REPO_RESTORED: (RepoTarget, None),
    Kind.REPO_IMPORTED: (RepoTarget, ImportData),
    Kind.FORK_CREATED: (ForkTarget, None),
    Kind.FORK_FAILED: (ForkTarget, ForkFailure),
    Kind.BRANCH_CREATED: (BranchTarget, RefMoved),
    Kind.BRANCH_PUSHED: (BranchTarget, BranchMoved),
    Kind.BRANCH_DELETED: (BranchTarget, RefMoved),
    Kind.TAG_CREATED: (TagTarget, RefMoved),
    Kind.TAG_DELETED: (TagTarget, RefMoved),
    Kind.COMMIT_FORGOTTEN: (RepoTarget, ForgottenCommit),
    Kind.STATUS_CREATED: (StatusTarget, StatusData),
    Kind.PROTECTION_CREATED: (ProtectionTarget, ProtectionData),
    Kind.PROTECTION_UPDATED: (ProtectionTarget, ProtectionChange),
    Kind.PROTECTION_DELETED: (ProtectionTarget, ProtectionData),
    Kind.APPROVER_ADDED: (ApproverTarget, ApproverData),
    Kind.APPROVER_REMOVED: (ApproverTarget, ApproverData),
    Kind.PULL_CREATED: (PullTarget, PullBranches),
    Kind.PULL_UPDATED: (PullTarget, Changes),
    Kind.PULL_TARGET_CHANGED: (PullTarget, TargetChange),
    Kind.PULL_PUSHED: (PullTarget, HeadMoved),
    Kind.PULL_DRAFTED: (PullTarget, PullStatusChange),
    Kind.PULL_READIED: (PullTarget, PullStatusChange),
    Kind.PULL_CLOSED: (PullTarget, PullStatusChange),
    Kind.PULL_REOPENED: (PullTarget, PullStatusChange),
    Kind.PULL_MERGED: (PullTarget, PullMerge),
    Kind.AUTO_MERGE_SET: (PullTarget, AutoMergeData),
    Kind.AUTO_MERGE_ENDED: (PullTarget, AutoMergeEndData),
    Kind.REVIEW_CREATED: (ReviewTarget, ReviewData),
    Kind.REVIEW_UPDATED: (ReviewTarget, ReviewChange),
    Kind.REVIEW_DISMISSED: (ReviewTarget, ReviewChange),
    Kind.REVIEW_DELETED: (ReviewTarget, ReviewData),
    Kind.REVIEW_REQUESTED: (PullTarget, ReviewRequestData),
    Kind.REVIEW_REQUEST_REMOVED: (PullTarget, ReviewRequestData),
    Kind.THREAD_CREATED: (ThreadTarget, None),
    Kind.THREAD_UPDATED: (ThreadTarget, Changes),
    Kind.THREAD_STATUS_CHANGED: (ThreadTarget, ThreadStatusChange),
    Kind.THREAD_DELETED: (ThreadTarget, None),
    Kind.REPLY_CREATED: (ReplyTarget, None),
    Kind.REPLY_UPDATED: (ReplyTarget, Changes),
    Kind.REPLY_DELETED: (ReplyTarget, Moderation),
    Kind.TOKEN_CREATED: (TokenTarget, TokenName),
    Kind.TOKEN_ROTATED: (TokenTarget, TokenName),
    Kind.TOKEN_REVOKED: (TokenTarget, TokenName),
    Kind.TOKEN_DELETED: (TokenTarget, TokenName),
    Kind.TOKEN_EXPIRING: (TokenTarget, TokenExpiry),
    Kind.SSH_KEY_CREATED: (SshKeyTarget, SshKeyName),
    Kind.SSH_KEY_DELETED: (SshKeyTarget, SshKeyName),
    Kind.USER_JOINED: (UserTarget, None),
    Kind.USER_UPDATED: (UserTarget, UserChanges),
    Kind.USER_DEACTIVATED: (UserTarget, None),
    Kind.USER_DELETED: (UserTarget, DeletionData),
    Kind.USER_RESTORED: (UserTarget, None),
    Kind.INVITE_CREATED: (InviteTarget, None),
    Kind.INVITE_UPDATED: (InviteTarget, Changes),
    Kind.INVITE_ACCEPTED: (InviteTarget, None),
    Kind.INVITE_DELETED: (InviteTarget, None),
    Kind.SITE_SETTINGS_UPDATED: (SiteSettingsTarget, Changes),
    Kind.RATE_LIMIT_CREATED: (RateLimitTarget, RateLimitData),
    Kind.RATE_LIMIT_UPDATED: (RateLimitTarget, RateLimitChange),
    Kind.RATE_LIMIT_DELETED: (RateLimitTarget, RateLimitData),
    Kind.WEBHOOK_CREATED: (WebhookTarget, None),
    Kind.WEBHOOK_UPDATED: (WebhookTarget, Changes),
    Kind.WEBHOOK_DELETED: (WebhookTarget, None),
    Kind.WEBHOOK_DISABLED: (WebhookTarget, Disabled),
}
"""The target of each kind of event and its `data`, None if it has none."""


def schema_name(kind: str) -> str:
    """`PullMergedEvent` for `pull-merged`."""
    return f"{camel(kind)}Event"


def serializer_of(kind: Kind) -> Record:
    """The serializer that describes events of one kind."""
    target, data = SHAPES[kind]
    fields: dict[str, Any] = {"kind": ChoiceField([str(kind)]), "target": target()}
    if data is not None:
        fields["data"] = data()
    return record(schema_name(kind), EventRecord, **fields)


# drf-spectacular writes no types at the hook that runs when this class is derived from.
class AnyEvent(OpenApiSerializerExtension):  # type: ignore[no-untyped-call]
    """Describes an event as one of the kinds; drf-spectacular finds this by itself."""

    target_class = EventRecord

    def map_serializer(self, auto_schema: Any, direction: Any) -> dict[str, Any]:
        refs = {
            str(kind): auto_schema.resolve_serializer(serializer_of(kind), direction).ref
            for kind in Kind
        }
        mapping = {kind: one["$ref"] for kind, one in refs.items()}
        discriminator = {"propertyName": "kind", "mapping": mapping}
        return {"oneOf": [*refs.values()], "discriminator": discriminator}
