"""Typed events: one schema for each kind, with its own `target` and `data`.

Events are stored for good. A field that a kind got later is not required: older events lack it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from drf_spectacular.extensions import OpenApiSerializerExtension
from drf_spectacular.utils import extend_schema_field
from rest_framework import serializers

from apps.core.serializers import RecordSerializer
from apps.events.kinds import Kind
from apps.events.serializers import EventRecord
from apps.git.merge import Strategy
from apps.pulls.models import PullStatus, ReviewStatus
from apps.repos import actions as repos
from apps.repos.protection_rules import Fields
from apps.repos.serializers import RecordWithSettings, RepoRecord
from apps.teams import actions as teams
from apps.teams.models import Role
from apps.teams.serializers import TeamRecord
from apps.threads.models import ThreadStatus


def only(kind: str) -> serializers.ChoiceField:
    """The kind of a target, a constant."""
    return serializers.ChoiceField([kind])


@extend_schema_field({"type": "integer", "deprecated": True})
class FormerNumber(serializers.Field[Any, Any, Any, Any]):
    """The former name of `number`."""

    def __init__(self) -> None:
        super().__init__(help_text="Former name of `number`: use that instead.")


class TeamTarget(RecordSerializer):
    kind = only("team")
    slug = serializers.CharField(help_text="Slug of the team at that time.")


class MemberTarget(RecordSerializer):
    kind = only("member")
    username = serializers.CharField()


class RepoTarget(RecordSerializer):
    kind = only("repo")
    slug = serializers.CharField(help_text="Slug of the repository at that time.")


class ForkTarget(RecordSerializer):
    kind = only("fork")
    uuid = serializers.UUIDField()


class BranchTarget(RecordSerializer):
    kind = only("branch")
    name = serializers.CharField(help_text="Name of the branch.")


class TagTarget(RecordSerializer):
    kind = only("tag")
    name = serializers.CharField(help_text="Name of the tag.")


class ProtectionTarget(RecordSerializer):
    kind = only("protection")
    uuid = serializers.UUIDField()


class ApproverTarget(RecordSerializer):
    kind = only("approver")
    uuid = serializers.UUIDField(help_text="UUID of the approver's account.")
    protection_uuid = serializers.UUIDField()


class PullTarget(RecordSerializer):
    kind = only("pull")
    number = serializers.IntegerField(help_text="Number of the pull.")


class ReviewTarget(RecordSerializer):
    kind = only("review")
    uuid = serializers.UUIDField()
    number = serializers.IntegerField(help_text="Number of the pull.")
    pull_number = FormerNumber()


class ThreadTarget(RecordSerializer):
    kind = only("thread")
    number = serializers.IntegerField(help_text="Number of the thread.")


class ReplyTarget(RecordSerializer):
    kind = only("reply")
    number = serializers.IntegerField(help_text="Number of the reply in its thread.")
    thread_number = serializers.IntegerField(help_text="Number of the thread or pull.")


class TokenTarget(RecordSerializer):
    kind = only("token")
    uuid = serializers.UUIDField()


class UserTarget(RecordSerializer):
    kind = only("user")
    username = serializers.CharField(help_text="Username of the account at that time.")


class InviteTarget(RecordSerializer):
    kind = only("invite")
    uuid = serializers.UUIDField()


class SiteSettingsTarget(RecordSerializer):
    kind = only("site-settings")


class RateLimitTarget(RecordSerializer):
    kind = only("rate-limit")
    uuid = serializers.UUIDField()


class Changes(RecordSerializer):
    changed = serializers.ListField(child=serializers.CharField())


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


class TeamChanges(Changes):
    before = TeamValues(required=False)
    after = TeamValues(required=False)


class RepoValues(RecordSerializer):
    """The changed values of a repository; long texts are cut after 1,000 characters."""

    def get_fields(self) -> Fields:
        return optional_fields(RepoRecord(), repos.PUBLIC)


class RepoChanges(Changes):
    before = RepoValues(required=False)
    after = RepoValues(required=False)


class UserValues(RecordSerializer):
    """The changed values of a person, as far as everybody may see them."""

    display_name = serializers.CharField(required=False)
    is_active = serializers.BooleanField(required=False)
    is_staff = serializers.BooleanField(required=False)


class UserChanges(Changes):
    before = UserValues(required=False)
    after = UserValues(required=False)


class MemberData(RecordSerializer):
    username = serializers.CharField()
    role = serializers.ChoiceField([*map(str, Role)])


class MemberChange(MemberData):
    before = serializers.ChoiceField([*map(str, Role)])


class ForkFailure(RecordSerializer):
    error = serializers.CharField()


class ForgottenCommit(RecordSerializer):
    sha = serializers.CharField()


class RefMoved(RecordSerializer):
    before = serializers.CharField(allow_null=True)
    after = serializers.CharField(allow_null=True)


class BranchMoved(RefMoved):
    forced = serializers.BooleanField(allow_null=True)
    commit_count = serializers.IntegerField(allow_null=True)


class ProtectionData(RecordWithSettings):
    branch = serializers.CharField()


class ProtectionChange(ProtectionData):
    before = ProtectionData()
    changed = serializers.ListField(child=serializers.CharField())


class ApproverData(RecordSerializer):
    username = serializers.CharField()
    branch = serializers.CharField()


class PullBranches(RecordSerializer):
    source_branch = serializers.CharField()
    target_branch = serializers.CharField()
    status = serializers.ChoiceField(["open", "draft"], required=False)
    head_sha = serializers.CharField(allow_null=True, required=False)


class HeadMoved(RecordSerializer):
    before = serializers.CharField(allow_null=True)
    after = serializers.CharField(allow_null=True)
    head_sha = serializers.CharField(required=False)
    source_branch = serializers.CharField(required=False)
    target_branch = serializers.CharField(required=False)
    version = serializers.IntegerField(required=False)


class PullStatusChange(Changes):
    before = serializers.ChoiceField([*map(str, PullStatus)])
    after = serializers.ChoiceField([*map(str, PullStatus)])


class ThreadStatusChange(Changes):
    before = serializers.ChoiceField([*map(str, ThreadStatus)])
    after = serializers.ChoiceField([*map(str, ThreadStatus)])


class PullMerge(RecordSerializer):
    head_sha = serializers.CharField()
    merge_commit_sha = serializers.CharField()
    merge_strategy = serializers.ChoiceField([*map(str, Strategy)], allow_null=True)
    target_branch = serializers.CharField()


class ReviewData(RecordSerializer):
    status = serializers.ChoiceField([*map(str, ReviewStatus)])


class ReviewChange(ReviewData):
    changed = serializers.ListField(child=serializers.CharField())


class Moderation(RecordSerializer):
    moderated = serializers.BooleanField(required=False)


class TokenName(RecordSerializer):
    name = serializers.CharField()


class RateLimitData(RecordSerializer):
    scope = serializers.CharField()
    max_requests = serializers.IntegerField()
    window_seconds = serializers.IntegerField()
    is_enabled = serializers.BooleanField()


class RateLimitChange(RateLimitData):
    changed = serializers.ListField(child=serializers.CharField())


Shape = tuple[type[RecordSerializer], type[RecordSerializer] | None]
SHAPES: dict[Kind, Shape] = {
    Kind.TEAM_CREATED: (TeamTarget, None),
    Kind.TEAM_UPDATED: (TeamTarget, TeamChanges),
    Kind.MEMBER_ADDED: (MemberTarget, MemberData),
    Kind.MEMBER_UPDATED: (MemberTarget, MemberChange),
    Kind.MEMBER_REMOVED: (MemberTarget, MemberData),
    Kind.REPO_CREATED: (RepoTarget, None),
    Kind.REPO_UPDATED: (RepoTarget, RepoChanges),
    Kind.FORK_CREATED: (ForkTarget, None),
    Kind.FORK_FAILED: (ForkTarget, ForkFailure),
    Kind.BRANCH_CREATED: (BranchTarget, RefMoved),
    Kind.BRANCH_PUSHED: (BranchTarget, BranchMoved),
    Kind.BRANCH_DELETED: (BranchTarget, RefMoved),
    Kind.TAG_CREATED: (TagTarget, RefMoved),
    Kind.TAG_DELETED: (TagTarget, RefMoved),
    Kind.COMMIT_FORGOTTEN: (RepoTarget, ForgottenCommit),
    Kind.PROTECTION_CREATED: (ProtectionTarget, ProtectionData),
    Kind.PROTECTION_UPDATED: (ProtectionTarget, ProtectionChange),
    Kind.PROTECTION_DELETED: (ProtectionTarget, ProtectionData),
    Kind.APPROVER_ADDED: (ApproverTarget, ApproverData),
    Kind.APPROVER_REMOVED: (ApproverTarget, ApproverData),
    Kind.PULL_CREATED: (PullTarget, PullBranches),
    Kind.PULL_UPDATED: (PullTarget, Changes),
    Kind.PULL_PUSHED: (PullTarget, HeadMoved),
    Kind.PULL_DRAFTED: (PullTarget, PullStatusChange),
    Kind.PULL_READIED: (PullTarget, PullStatusChange),
    Kind.PULL_CLOSED: (PullTarget, PullStatusChange),
    Kind.PULL_REOPENED: (PullTarget, PullStatusChange),
    Kind.PULL_MERGED: (PullTarget, PullMerge),
    Kind.REVIEW_CREATED: (ReviewTarget, ReviewData),
    Kind.REVIEW_UPDATED: (ReviewTarget, ReviewChange),
    Kind.REVIEW_DISMISSED: (ReviewTarget, ReviewChange),
    Kind.REVIEW_DELETED: (ReviewTarget, ReviewData),
    Kind.THREAD_CREATED: (ThreadTarget, None),
    Kind.THREAD_UPDATED: (ThreadTarget, Changes),
    Kind.THREAD_STATUS_CHANGED: (ThreadTarget, ThreadStatusChange),
    Kind.THREAD_DELETED: (ThreadTarget, None),
    Kind.REPLY_CREATED: (ReplyTarget, None),
    Kind.REPLY_UPDATED: (ReplyTarget, Changes),
    Kind.REPLY_DELETED: (ReplyTarget, Moderation),
    Kind.TOKEN_CREATED: (TokenTarget, TokenName),
    Kind.TOKEN_REVOKED: (TokenTarget, TokenName),
    Kind.TOKEN_DELETED: (TokenTarget, TokenName),
    Kind.USER_JOINED: (UserTarget, None),
    Kind.USER_UPDATED: (UserTarget, UserChanges),
    Kind.USER_DEACTIVATED: (UserTarget, None),
    Kind.INVITE_CREATED: (InviteTarget, None),
    Kind.INVITE_UPDATED: (InviteTarget, Changes),
    Kind.INVITE_ACCEPTED: (InviteTarget, None),
    Kind.INVITE_DELETED: (InviteTarget, None),
    Kind.SITE_SETTINGS_UPDATED: (SiteSettingsTarget, Changes),
    Kind.RATE_LIMIT_CREATED: (RateLimitTarget, RateLimitData),
    Kind.RATE_LIMIT_UPDATED: (RateLimitTarget, RateLimitChange),
    Kind.RATE_LIMIT_DELETED: (RateLimitTarget, RateLimitData),
}
"""The target of each kind of event and its `data`, None if it has none."""


def schema_name(kind: str) -> str:
    """`PullMergedEvent` for `pull-merged`."""
    return "".join(word.capitalize() for word in kind.split("-")) + "Event"


def serializer_of(kind: Kind) -> type[EventRecord]:
    """The serializer that describes events of one kind."""
    target, data = SHAPES[kind]
    fields: dict[str, Any] = {"kind": serializers.ChoiceField([str(kind)]), "target": target()}
    if data is not None:
        fields["data"] = data()
    return type(schema_name(kind), (EventRecord,), fields)


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
