"""Requests and records of teams and members."""

from __future__ import annotations

from typing import Any

from rest_framework import serializers

from apps.accounts.models import User
from apps.accounts.serializers import UpdateSelf
from apps.core.access import Level
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
from apps.core.slugs import (
    TEAM_SLUG,
    TEAM_SLUG_MAX,
    USERNAME,
    USERNAME_MAX,
    team_slug_problem,
    username_problem,
)
from apps.teams.access import TeamAccess
from apps.teams.models import Member, Role, Team

BOT_ROLES = [str(role) for role in Role if role is not Role.OWNER]


class CreateTeam(RequestSerializer):
    name = NameField(max_length=255)
    slug = RuleCharField(
        problem=team_slug_problem, max_length=TEAM_SLUG_MAX, pattern=TEAM_SLUG.pattern
    )


class UpdateTeam(CreateTeam):
    is_active = StrictBooleanField(required=False)
    second_factor_required = StrictBooleanField(required=False)


class AddMember(RequestSerializer):
    username = StrictCharField(max_length=255)
    role = StrictChoiceField(Role)


class UpdateMember(RequestSerializer):
    role = StrictChoiceField(Role)


class CreateBot(UpdateSelf):
    username = RuleCharField(
        problem=username_problem, max_length=USERNAME_MAX, pattern=USERNAME.pattern
    )
    role = StrictChoiceField(BOT_ROLES, required=False)


class UpdateBot(UpdateSelf):
    """The same for a bot."""


class BotRecord(RecordSerializer):
    uuid = serializers.UUIDField()
    username = serializers.CharField()
    display_name = serializers.CharField()
    role = serializers.ChoiceField(BOT_ROLES)
    is_active = serializers.BooleanField()
    created_at = TimestampField()
    created_by_username = serializers.CharField(allow_null=True)
    web_url = serializers.CharField()


class TeamRecord(RecordSerializer):
    uuid = serializers.UUIDField()
    name = serializers.CharField()
    slug = serializers.CharField()
    is_active = serializers.BooleanField()
    second_factor_required = serializers.BooleanField()
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
    is_bot = serializers.BooleanField()
    has_second_factor = serializers.BooleanField(required=False)
    created_at = TimestampField()
    added_by_username = serializers.CharField(allow_null=True)


class SuggestedUser(RecordSerializer):
    uuid = serializers.UUIDField()
    username = serializers.CharField()
    display_name = serializers.CharField()
    is_bot = serializers.BooleanField()
    is_member = serializers.BooleanField(help_text="Whether the person is in the team `team_slug`.")


class SuggestedUsers(RecordSerializer):
    results = SuggestedUser(many=True)


def team_record(team: Team, caller_role: str | None) -> dict[str, Any]:
    return {
        "uuid": team.uuid,
        "name": team.name,
        "slug": team.slug,
        "is_active": team.is_active,
        "second_factor_required": team.second_factor_required,
        "caller_role": caller_role,
        "created_at": team.created_at,
        "updated_at": team.updated_at,
    }


def member_record(member: Member, viewer: TeamAccess) -> dict[str, Any]:
    """The record of a member whose `user` and `added_by` are loaded. Only owners and staff see
    `has_second_factor`.
    """
    record = {
        "username": member.user.username,
        "user_uuid": member.user.uuid,
        "display_name": member.user.display_name,
        "role": member.role,
        "is_active": member.user.is_active,
        "is_bot": member.user.is_bot,
        "created_at": member.created_at,
        "added_by_username": member.added_by.username if member.added_by else None,
    }
    if viewer.level >= Level.OWNER:
        record["has_second_factor"] = member.user.has_second_factor
    return record


def bot_record(member: Member, base: str) -> dict[str, Any]:
    """The record of a bot, from its membership, whose `user` and `added_by` are loaded."""
    bot = member.user
    return {
        "uuid": bot.uuid,
        "username": bot.username,
        "display_name": bot.display_name,
        "role": member.role,
        "is_active": bot.is_active,
        "created_at": bot.created_at,
        "created_by_username": member.added_by.username if member.added_by else None,
        "web_url": f"{base}/{bot.path}",
    }


def suggested_user(user: User, is_member: bool) -> dict[str, Any]:
    return {
        "uuid": user.uuid,
        "username": user.username,
        "display_name": user.display_name,
        "is_bot": user.is_bot,
        "is_member": is_member,
    }
