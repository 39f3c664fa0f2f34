"""Requests and records of tokens, people and invites."""

from __future__ import annotations

import datetime as dt
from typing import Any

from django.core.validators import validate_email
from rest_framework import serializers
from rest_framework.fields import empty

from apps.accounts.models import (
    DISPLAY_NAME_MAX,
    EMAIL_MAX,
    ApiToken,
    BrowserSession,
    Deletion,
    Invite,
    InviteStatus,
    User,
)
from apps.accounts.principal import Principal
from apps.accounts.rules import (
    REPO_PATH,
    TokenStatus,
    display_name_problem,
    repo_path_problem,
    token_status,
)
from apps.core.access import Permission
from apps.core.controls import NO_CONTROLS
from apps.core.durations import DURATION, EXPECTED, FORM, parse_duration, parse_future
from apps.core.query import QuerySerializer, TextParameter
from apps.core.serializers import (
    NameField,
    RecordSerializer,
    RequestSerializer,
    RuleCharField,
    StrictBooleanField,
    StrictCharField,
    TimestampField,
)
from apps.core.views import site_url


class Future(StrictCharField):
    """A duration or an ISO 8601 time with offset, in the future."""

    pattern = FORM

    def __init__(self, **options: Any) -> None:
        super().__init__(max_length=100, help_text=f"A time with offset, or {EXPECTED}.", **options)

    def run_validation(self, data: Any = empty) -> Any:
        """The time as a datetime. The limits of the text are checked first."""
        text = super().run_validation(data)
        try:
            return None if text is None else parse_future(text)
        except ValueError as error:
            raise serializers.ValidationError(str(error)) from None


MOST_REPOS = 50
"""Most repositories to which a token can be limited."""
LONGEST_OVERLAP = dt.timedelta(hours=72)
"""How long the old text of a token may be valid after its rotation."""


class CreateBotToken(RequestSerializer):
    name = NameField(max_length=255)
    permission = serializers.ChoiceField([*map(str, Permission)], required=False)
    repo_paths = serializers.ListField(
        child=RuleCharField(problem=repo_path_problem, pattern=REPO_PATH, max_length=171),
        min_length=1,
        max_length=MOST_REPOS,
        required=False,
        allow_null=True,
    )
    expires_at = Future(required=False, allow_null=True)


class CreateToken(CreateBotToken):
    username = StrictCharField(max_length=255, required=False, allow_null=True)


class Overlap(StrictCharField):
    """A duration of at most 72 hours."""

    pattern = DURATION

    def run_validation(self, data: Any = empty) -> Any:
        """The duration as a timedelta."""
        text = super().run_validation(data)
        try:
            overlap = parse_duration(text)
        except ValueError as error:
            raise serializers.ValidationError(str(error)) from None
        if overlap > LONGEST_OVERLAP:
            raise serializers.ValidationError("Must be at most 72 hours.")
        return overlap


class RotateToken(RequestSerializer):
    keep_old = Overlap(max_length=100, required=False)


class TokenRecord(RecordSerializer):
    uuid = serializers.UUIDField()
    name = serializers.CharField()
    status = serializers.ChoiceField([str(status) for status in TokenStatus])
    token_prefix = serializers.CharField()
    permission = serializers.ChoiceField([*map(str, Permission)])
    repo_paths = serializers.ListField(child=serializers.CharField(), allow_null=True)
    repo_uuids = serializers.ListField(child=serializers.UUIDField(), allow_null=True)
    username = serializers.CharField(allow_null=True)
    user_uuid = serializers.UUIDField()
    created_at = TimestampField()
    expires_at = TimestampField(allow_null=True)
    last_used_at = TimestampField(allow_null=True)
    revoked_at = TimestampField(allow_null=True)


class NewTokenRecord(TokenRecord):
    token = serializers.CharField(help_text="The token itself; shown this once.")


def token_record(token: ApiToken) -> dict[str, Any]:
    """The record of a token, without its text. A limited token has its `known_repos` loaded."""
    repos = token.known_repos if token.is_limited else None
    return {
        "uuid": token.uuid,
        "name": token.name,
        "status": token_status(token),
        "token_prefix": token.token_prefix,
        "permission": token.permission,
        "repo_paths": None if repos is None else [repo.path for repo in repos],
        "repo_uuids": None if repos is None else [repo.uuid for repo in repos],
        "username": token.user.username,
        "user_uuid": token.user.uuid,
        "created_at": token.created_at,
        "expires_at": token.expires_at,
        "last_used_at": token.last_used_at,
        "revoked_at": token.revoked_at,
    }


class UpdateSelf(RequestSerializer):
    display_name = RuleCharField(
        problem=display_name_problem,
        max_length=DISPLAY_NAME_MAX,
        pattern=NO_CONTROLS,
        allow_blank=True,
        required=False,
        help_text="Shown beside the username; empty for none.",
    )


class UpdateUser(RequestSerializer):
    is_active = StrictBooleanField(required=False)
    is_staff = StrictBooleanField(required=False)


class UserRecord(RecordSerializer):
    uuid = serializers.UUIDField()
    username = serializers.CharField()
    display_name = serializers.CharField()
    email = serializers.CharField(required=False, help_text="Only for the person and staff.")
    is_active = serializers.BooleanField()
    is_staff = serializers.BooleanField()
    is_bot = serializers.BooleanField()
    created_at = TimestampField()
    last_seen_at = TimestampField(required=False, allow_null=True)
    has_second_factor = serializers.BooleanField(required=False)
    web_url = serializers.CharField()


def user_record(user: User, viewer: Principal, base: str) -> dict[str, Any]:
    """The record of a person. Only they and staff see the e-mail address, `last_seen_at` and
    `has_second_factor`; staff only with a token that has its powers.
    """
    record = {
        "uuid": user.uuid,
        "username": user.username,
        "display_name": user.display_name,
        "is_active": user.is_active,
        "is_staff": user.is_staff,
        "is_bot": user.is_bot,
        "created_at": user.created_at,
        "web_url": f"{base}/users/{user.username}",
    }
    if viewer.is_staff or viewer.person_id == user.pk:
        record["email"] = user.email
        record["last_seen_at"] = user.last_seen_at or user.last_login
        record["has_second_factor"] = user.has_second_factor
    return record


class SessionRecord(RecordSerializer):
    uuid = serializers.UUIDField()
    device = serializers.CharField()
    user_agent = serializers.CharField()
    address = serializers.CharField()
    created_at = TimestampField()
    last_seen_at = TimestampField()
    expires_at = TimestampField()


def session_record(session: BrowserSession) -> dict[str, Any]:
    """The record of a session, whose `session` is loaded. It never has the key of the session."""
    return {
        "uuid": session.uuid,
        "device": session.device,
        "user_agent": session.user_agent,
        "address": session.address,
        "created_at": session.created_at,
        "last_seen_at": session.last_seen_at,
        "expires_at": session.session.expire_date,
    }


class ConfirmQuery(QuerySerializer):
    confirm = TextParameter()


class DeletionRecord(RecordSerializer):
    path = serializers.CharField()
    deleted_by_username = serializers.CharField()
    deleted_at = TimestampField()
    purge_at = TimestampField()


def deletion_record(deletion: Deletion) -> dict[str, Any]:
    """The record of a deletion."""
    return {
        "path": deletion.path,
        "deleted_by_username": deletion.deleted_by.username,
        "deleted_at": deletion.deleted_at,
        "purge_at": deletion.purge_at,
    }


WORD = r"[!#-'*+/-9=?A-Z^-~-]+"
LETTER = r"A-Za-z\u00a1-\uffff"
LABEL = f"[0-9{LETTER}](?:[0-9{LETTER}-]*[0-9{LETTER}])?"
TOP = f"(?:[{LETTER}][{LETTER}-]*[{LETTER}]|[Xx][Nn]--[0-9A-Za-z]+)"
ADDRESS = (
    rf'(?:{WORD}(?:\.{WORD})*|"[\x01-\x7f]*")'
    rf"@(?:(?:{LABEL}\.)+{TOP}|localhost|\[[0-9A-Fa-f:.]+\])"
)
"""The form of the addresses that Django accepts. Django also checks the lengths of labels, the
escapes in a quoted name and the numbers of an IP address.
"""


class Email(StrictCharField):
    """An e-mail address; empty for none. With `allow_null`, null means empty too."""

    pattern = f"|{ADDRESS}"

    def __init__(self, **options: Any) -> None:
        super().__init__(max_length=EMAIL_MAX, allow_blank=True, **options)

    def run_validation(self, data: Any = empty) -> Any:
        return super().run_validation(data) or ""

    def to_internal_value(self, data: Any) -> str:
        """Check it with Django's validator. DRF handles Django's `ValidationError` like its own."""
        text = super().to_internal_value(data)
        validate_email(text)
        return text


class CreateInvite(RequestSerializer):
    expires_at = Future()
    email = Email(
        required=False,
        help_text="The invited person's address; if empty, anyone with the link may sign up.",
    )


class UpdateInvite(RequestSerializer):
    email = Email(
        required=False,
        allow_null=True,
        help_text=(
            "The invited person's address; if empty or null, anyone with the link may sign up."
        ),
    )
    expires_at = Future(required=False)


class InviteRecord(RecordSerializer):
    uuid = serializers.UUIDField()
    email = serializers.CharField(allow_null=True)
    status = serializers.ChoiceField([str(status) for status in InviteStatus])
    expires_at = TimestampField()
    created_by_uuid = serializers.UUIDField()
    created_by_username = serializers.CharField()
    created_at = TimestampField()
    accepted_at = TimestampField(allow_null=True)
    accepted_by_uuid = serializers.UUIDField(allow_null=True)
    accepted_by_username = serializers.CharField(allow_null=True)
    invite_url = serializers.CharField()


def invite_record(invite: Invite) -> dict[str, Any]:
    """The record of an invite, whose `created_by` and `accepted_by` are loaded."""
    accepted_by = invite.accepted_by
    return {
        "uuid": invite.uuid,
        "email": invite.email or None,
        "status": invite.status,
        "expires_at": invite.expires_at,
        "created_by_uuid": invite.created_by.uuid,
        "created_by_username": invite.created_by.username,
        "created_at": invite.created_at,
        "accepted_at": invite.accepted_at,
        "accepted_by_uuid": accepted_by.uuid if accepted_by else None,
        "accepted_by_username": accepted_by.username if accepted_by else None,
        "invite_url": invite.url(site_url()),
    }
