"""The request and the record of `PUT /users/{username}/offboard`."""

from __future__ import annotations

from typing import Any

from rest_framework import serializers

from apps.core.serializers import (
    RecordSerializer,
    RequestSerializer,
    StrictBooleanField,
    StrictCharField,
)
from apps.teams.models import Role
from config.offboarding.plan import MOST, Plan


class OffboardUser(RequestSerializer):
    dry_run = StrictBooleanField(required=False)
    confirm = StrictCharField(max_length=255, required=False)
    successor = StrictCharField(max_length=255, required=False, allow_null=True)


class EndedToken(RecordSerializer):
    uuid = serializers.UUIDField()
    name = serializers.CharField()


class EndedSession(RecordSerializer):
    uuid = serializers.UUIDField()
    device = serializers.CharField()


class EndedKey(RecordSerializer):
    uuid = serializers.UUIDField()
    title = serializers.CharField()


class LeftTeam(RecordSerializer):
    slug = serializers.CharField()
    role = serializers.ChoiceField([str(role) for role in Role])
    is_last_owner = serializers.BooleanField()
    successor_username = serializers.CharField(allow_null=True)


class ApproverRule(RecordSerializer):
    repo_path = serializers.CharField()
    protection_uuid = serializers.UUIDField()
    branch = serializers.CharField()
    required_approvals = serializers.IntegerField()
    is_satisfiable = serializers.BooleanField()


class LeftBehind(RecordSerializer):
    repo_path = serializers.CharField()
    number = serializers.IntegerField()
    title = serializers.CharField()


class OffboardingRecord(RecordSerializer):
    username = serializers.CharField()
    dry_run = serializers.BooleanField()
    tokens = EndedToken(many=True)
    sessions = EndedSession(many=True)
    ssh_keys = EndedKey(many=True)
    invite_uuids = serializers.ListField(child=serializers.UUIDField())
    teams = LeftTeam(many=True)
    approver_rules = ApproverRule(many=True)
    repo_paths = serializers.ListField(child=serializers.CharField())
    open_pulls = LeftBehind(many=True)
    open_threads = LeftBehind(many=True)
    truncated = serializers.ListField(child=serializers.CharField())


def offboarding_record(plan: Plan) -> dict[str, Any]:
    """The record of a plan."""
    return {
        "username": plan.user.username,
        "dry_run": plan.dry_run,
        "tokens": [{"uuid": row.uuid, "name": row.name} for row in plan.tokens[:MOST]],
        "sessions": [{"uuid": row.uuid, "device": row.device} for row in plan.sessions[:MOST]],
        "ssh_keys": [{"uuid": row.uuid, "title": row.title} for row in plan.ssh_keys[:MOST]],
        "invite_uuids": [row.uuid for row in plan.invites[:MOST]],
        "teams": [left_team(member, plan) for member in plan.memberships[:MOST]],
        "approver_rules": [approver_rule(*rule) for rule in plan.approver_rules[:MOST]],
        "repo_paths": [repo.path for repo in plan.repos[:MOST]],
        "open_pulls": [left_behind(row.repo, row.thread) for row in plan.open_pulls[:MOST]],
        "open_threads": [left_behind(row.repo, row) for row in plan.open_threads[:MOST]],
        "truncated": plan.truncated,
    }


def left_team(member: Any, plan: Plan) -> dict[str, Any]:
    is_last = member.team_id in plan.owned_alone
    heir = plan.successor.username if plan.successor else None
    return {
        "slug": member.team.slug,
        "role": member.role,
        "is_last_owner": is_last,
        "successor_username": heir if is_last else None,
    }


def approver_rule(rule: Any, is_satisfiable: bool) -> dict[str, Any]:
    return {
        "repo_path": rule.repo.path,
        "protection_uuid": rule.uuid,
        "branch": rule.branch,
        "required_approvals": rule.required_approvals,
        "is_satisfiable": is_satisfiable,
    }


def left_behind(repo: Any, thread: Any) -> dict[str, Any]:
    return {"repo_path": repo.path, "number": thread.number, "title": thread.title}
