"""Requests and records of teams and members."""

from __future__ import annotations

from typing import Any

from rest_framework import serializers

from apps.accounts.models import User
from apps.core.serializers import (
    NameField,
    RecordSerializer,
    RequestSerializer,
    RuleCharField,
    StrictBooleanField,
    StrictCharField,
    StrictChoiceField,
    TimestampField,
)
from apps.core.slugs import TEAM_SLUG, TEAM_SLUG_MAX, team_slug_problem
from apps.teams.models import Member, Role, Team


class CreateTeam(RequestSerializer):
    name = NameField(max_length=255)
    slug = RuleCharField(
        problem=team_slug_problem, max_length=TEAM_SLUG_MAX, pattern=TEAM_SLUG.pattern
    )


class UpdateTeam(CreateTeam):
    is_active = StrictBooleanField(required=False)


class AddMember(RequestSerializer):
    username = StrictCharField(max_length=255)
    role = StrictChoiceField(Role)


class UpdateMember(RequestSerializer):
    role = StrictChoiceField(Role)


class TeamRecord(RecordSerializer):
    uuid = serializers.UUIDField()
    name = serializers.CharField()
    slug = serializers.CharField()
    is_active = serializers.BooleanField()
    caller_role = serializers.ChoiceField([str(role) for role in Role], allow_null=True)
    created_at = TimestampField()
    updated_at = TimestampField()


class TeamOfUserRecord(TeamRecord):
    role = serializers.ChoiceField([str(role) for role in Role])


class MemberRecord(RecordSerializer):
    username = serializers.CharField()
    user_uuid = serializers.UUIDField()
    display_name = serializers.CharField()
    role = serializers.ChoiceField([str(role) for role in Role])
    is_active = serializers.BooleanField()
    created_at = TimestampField()
    added_by_username = serializers.CharField(allow_null=True)


class SuggestedUser(RecordSerializer):
    uuid = serializers.UUIDField()
    username = serializers.CharField()
    display_name = serializers.CharField()
    is_member = serializers.BooleanField(help_text="Whether the person is in the team `team_slug`.")


class SuggestedUsers(RecordSerializer):
    results = SuggestedUser(many=True)


def team_record(team: Team, caller_role: str | None) -> dict[str, Any]:
    return {
        "uuid": team.uuid,
        "name": team.name,
        "slug": team.slug,
        "is_active": team.is_active,
        "caller_role": caller_role,
        "created_at": team.created_at,
        "updated_at": team.updated_at,
    }


def member_record(member: Member) -> dict[str, Any]:
    """The record of a member whose `user` and `added_by` are loaded."""
    return {
        "username": member.user.username,
        "user_uuid": member.user.uuid,
        "display_name": member.user.display_name,
        "role": member.role,
        "is_active": member.user.is_active,
        "created_at": member.created_at,
        "added_by_username": member.added_by.username if member.added_by else None,
    }


def suggested_user(user: User, is_member: bool) -> dict[str, Any]:
    return {
        "uuid": user.uuid,
        "username": user.username,
        "display_name": user.display_name,
        "is_member": is_member,
    }
