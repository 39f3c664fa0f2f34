"""What an event is about: `kind`, and what it is known by. A number is always called `number`."""

from __future__ import annotations

from typing import Any

from drf_spectacular.utils import extend_schema_field
from rest_framework import serializers

from apps.core.serializers import RecordSerializer


def only(kind: str) -> serializers.ChoiceField:
    """The kind of a target, which is always this."""
    return serializers.ChoiceField([kind])


@extend_schema_field({"type": "integer", "deprecated": True})
class FormerNumber(serializers.Field[Any, Any, Any, Any]):
    """What `number` was called before."""

    def __init__(self) -> None:
        super().__init__(help_text="The same as `number`, which should be used instead.")


class TeamTarget(RecordSerializer):
    kind = only("team")
    slug = serializers.CharField(help_text="The slug that the team had then.")


class MemberTarget(RecordSerializer):
    kind = only("member")
    username = serializers.CharField()


class RepoTarget(RecordSerializer):
    kind = only("repo")
    slug = serializers.CharField(help_text="The slug that the repository had then.")


class ForkTarget(RecordSerializer):
    kind = only("fork")
    uuid = serializers.UUIDField()


class BranchTarget(RecordSerializer):
    kind = only("branch")
    name = serializers.CharField(help_text="The branch.")


class TagTarget(RecordSerializer):
    kind = only("tag")
    name = serializers.CharField(help_text="The tag.")


class ProtectionTarget(RecordSerializer):
    kind = only("protection")
    uuid = serializers.UUIDField()


class ApproverTarget(RecordSerializer):
    kind = only("approver")
    uuid = serializers.UUIDField(help_text="The approver's account.")
    protection_uuid = serializers.UUIDField()


class PullTarget(RecordSerializer):
    kind = only("pull")
    number = serializers.IntegerField(help_text="The number of the pull.")


class ReviewTarget(RecordSerializer):
    kind = only("review")
    uuid = serializers.UUIDField()
    number = serializers.IntegerField(help_text="The number of the pull.")
    pull_number = FormerNumber()


class ThreadTarget(RecordSerializer):
    kind = only("thread")
    number = serializers.IntegerField(help_text="The number of the thread.")


class ReplyTarget(RecordSerializer):
    kind = only("reply")
    number = serializers.IntegerField(help_text="The number of the reply in its thread.")
    thread_number = serializers.IntegerField(help_text="The number of the thread or pull.")


class TokenTarget(RecordSerializer):
    kind = only("token")
    uuid = serializers.UUIDField()


class UserTarget(RecordSerializer):
    kind = only("user")
    username = serializers.CharField(help_text="The name that the account had then.")


class InviteTarget(RecordSerializer):
    kind = only("invite")
    uuid = serializers.UUIDField()


class SiteSettingsTarget(RecordSerializer):
    kind = only("site-settings")


class RateLimitTarget(RecordSerializer):
    kind = only("rate-limit")
    uuid = serializers.UUIDField()
