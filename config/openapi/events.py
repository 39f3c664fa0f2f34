"""Typed events: one schema for each kind, told apart by `kind`, with its own `target` and `data`.

An event is kept for good. So what was added to a kind later is not required of it.
"""

from __future__ import annotations

from typing import Any

from drf_spectacular.extensions import OpenApiSerializerExtension
from rest_framework import serializers

from apps.core.serializers import RecordSerializer
from apps.events.kinds import Kind
from apps.events.serializers import EventRecord
from apps.git.merge import Strategy
from apps.pulls.models import PullStatus, ReviewStatus
from apps.repos.models import Visibility
from apps.repos.serializers import RecordWithSettings
from apps.teams.models import Role
from apps.threads.models import ThreadStatus
from config.openapi import targets


class Changes(RecordSerializer):
    changed = serializers.ListField(child=serializers.CharField())


class TeamValues(RecordSerializer):
    """Of a team, those that have changed."""

    name = serializers.CharField(required=False)
    slug = serializers.CharField(required=False)
    is_active = serializers.BooleanField(required=False)


class TeamChanges(Changes):
    before = TeamValues(required=False)
    after = TeamValues(required=False)


class RepoValues(RecordSerializer):
    """Of a repository, those that have changed; a text as far as 1,000 characters."""

    name = serializers.CharField(required=False)
    slug = serializers.CharField(required=False)
    description = serializers.CharField(allow_null=True, required=False)
    visibility = serializers.ChoiceField([*map(str, Visibility)], required=False)
    default_branch = serializers.CharField(required=False)
    is_archived = serializers.BooleanField(required=False)


class RepoChanges(Changes):
    before = RepoValues(required=False)
    after = RepoValues(required=False)


class UserValues(RecordSerializer):
    """Of a person, those that have changed and that everybody may see."""

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
    Kind.TEAM_CREATED: (targets.TeamTarget, None),
    Kind.TEAM_UPDATED: (targets.TeamTarget, TeamChanges),
    Kind.MEMBER_ADDED: (targets.MemberTarget, MemberData),
    Kind.MEMBER_UPDATED: (targets.MemberTarget, MemberChange),
    Kind.MEMBER_REMOVED: (targets.MemberTarget, MemberData),
    Kind.REPO_CREATED: (targets.RepoTarget, None),
    Kind.REPO_UPDATED: (targets.RepoTarget, RepoChanges),
    Kind.FORK_CREATED: (targets.ForkTarget, None),
    Kind.FORK_FAILED: (targets.ForkTarget, ForkFailure),
    Kind.BRANCH_CREATED: (targets.BranchTarget, RefMoved),
    Kind.BRANCH_PUSHED: (targets.BranchTarget, BranchMoved),
    Kind.BRANCH_DELETED: (targets.BranchTarget, RefMoved),
    Kind.TAG_CREATED: (targets.TagTarget, RefMoved),
    Kind.TAG_DELETED: (targets.TagTarget, RefMoved),
    Kind.COMMIT_FORGOTTEN: (targets.RepoTarget, ForgottenCommit),
    Kind.PROTECTION_CREATED: (targets.ProtectionTarget, ProtectionData),
    Kind.PROTECTION_UPDATED: (targets.ProtectionTarget, ProtectionChange),
    Kind.PROTECTION_DELETED: (targets.ProtectionTarget, ProtectionData),
    Kind.APPROVER_ADDED: (targets.ApproverTarget, ApproverData),
    Kind.APPROVER_REMOVED: (targets.ApproverTarget, ApproverData),
    Kind.PULL_CREATED: (targets.PullTarget, PullBranches),
    Kind.PULL_UPDATED: (targets.PullTarget, Changes),
    Kind.PULL_PUSHED: (targets.PullTarget, HeadMoved),
    Kind.PULL_DRAFTED: (targets.PullTarget, PullStatusChange),
    Kind.PULL_READIED: (targets.PullTarget, PullStatusChange),
    Kind.PULL_CLOSED: (targets.PullTarget, PullStatusChange),
    Kind.PULL_REOPENED: (targets.PullTarget, PullStatusChange),
    Kind.PULL_MERGED: (targets.PullTarget, PullMerge),
    Kind.REVIEW_CREATED: (targets.ReviewTarget, ReviewData),
    Kind.REVIEW_UPDATED: (targets.ReviewTarget, ReviewChange),
    Kind.REVIEW_DISMISSED: (targets.ReviewTarget, ReviewChange),
    Kind.REVIEW_DELETED: (targets.ReviewTarget, ReviewData),
    Kind.THREAD_CREATED: (targets.ThreadTarget, None),
    Kind.THREAD_UPDATED: (targets.ThreadTarget, Changes),
    Kind.THREAD_STATUS_CHANGED: (targets.ThreadTarget, ThreadStatusChange),
    Kind.THREAD_DELETED: (targets.ThreadTarget, None),
    Kind.REPLY_CREATED: (targets.ReplyTarget, None),
    Kind.REPLY_UPDATED: (targets.ReplyTarget, Changes),
    Kind.REPLY_DELETED: (targets.ReplyTarget, Moderation),
    Kind.TOKEN_CREATED: (targets.TokenTarget, TokenName),
    Kind.TOKEN_REVOKED: (targets.TokenTarget, TokenName),
    Kind.TOKEN_DELETED: (targets.TokenTarget, TokenName),
    Kind.USER_JOINED: (targets.UserTarget, None),
    Kind.USER_UPDATED: (targets.UserTarget, UserChanges),
    Kind.USER_DEACTIVATED: (targets.UserTarget, None),
    Kind.INVITE_CREATED: (targets.InviteTarget, None),
    Kind.INVITE_UPDATED: (targets.InviteTarget, Changes),
    Kind.INVITE_ACCEPTED: (targets.InviteTarget, None),
    Kind.INVITE_DELETED: (targets.InviteTarget, None),
    Kind.SITE_SETTINGS_UPDATED: (targets.SiteSettingsTarget, Changes),
    Kind.RATE_LIMIT_CREATED: (targets.RateLimitTarget, RateLimitData),
    Kind.RATE_LIMIT_UPDATED: (targets.RateLimitTarget, RateLimitChange),
    Kind.RATE_LIMIT_DELETED: (targets.RateLimitTarget, RateLimitData),
}
"""What an event of each kind is about, and what its `data` holds: None for nothing."""


def schema_name(kind: str) -> str:
    """`PullMergedEvent` for `pull-merged`."""
    return "".join(word.capitalize() for word in kind.split("-")) + "Event"


def serializer_of(kind: Kind) -> type[EventRecord]:
    """Describes an event of one kind."""
    target, data = SHAPES[kind]
    fields: dict[str, Any] = {"kind": serializers.ChoiceField([str(kind)]), "target": target()}
    if data is not None:
        fields["data"] = data()
    return type(schema_name(kind), (EventRecord,), fields)


# drf-spectacular writes no types at the hook that runs when this class is derived from.
class AnyEvent(OpenApiSerializerExtension):  # type: ignore[no-untyped-call]
    """An event is of one of the kinds; drf-spectacular finds this by itself."""

    target_class = EventRecord

    def map_serializer(self, auto_schema: Any, direction: Any) -> dict[str, Any]:
        refs = {
            str(kind): auto_schema.resolve_serializer(serializer_of(kind), direction).ref
            for kind in Kind
        }
        mapping = {kind: one["$ref"] for kind, one in refs.items()}
        discriminator = {"propertyName": "kind", "mapping": mapping}
        return {"oneOf": [*refs.values()], "discriminator": discriminator}
