"""The resources `/users`, `/check-username`, `/signup-invites` and `/api-tokens`."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterable
from typing import Any, cast

from rest_framework.decorators import action
from rest_framework.response import Response

from apps.accounts import actions, queries
from apps.accounts.authentication import SentToken
from apps.accounts.filters import InviteFilterSet, TokenFilterSet, UserFilterSet
from apps.accounts.models import NOT_GONE, ApiToken, BrowserSession, Invite, User
from apps.accounts.principal import Principal
from apps.accounts.rules import check_outlived, named_user
from apps.accounts.serializers import (
    ConfirmQuery,
    CreateInvite,
    CreateToken,
    DeletionRecord,
    InviteRecord,
    NewTokenRecord,
    RotateToken,
    SessionRecord,
    TokenRecord,
    UpdateInvite,
    UpdateSelf,
    UpdateUser,
    UserRecord,
    deletion_record,
    invite_record,
    session_record,
    token_record,
    user_record,
)
from apps.core.access import Level, Permission
from apps.core.availability import USERNAMES, AnyText, Availability
from apps.core.lookup import get_or_missing
from apps.core.operation import operation
from apps.core.query import QuerySerializer, TextParameter
from apps.core.views import ApiViewSet
from apps.events.models import Key
from apps.events.serializers import ActivityRecord, activity_record


def token_records(tokens: Iterable[ApiToken], viewer: Principal) -> list[dict[str, Any]]:
    """The records of tokens. One query finds the repositories that the viewer may read."""
    return [token_record(token) for token in queries.load_repos(tokens, viewer)]


def check_stored_token(principal: Principal, stored: dict[str, Any]) -> None:
    """403 `role_required` if a stored answer contains the text of a token, and the caller's token
    expires sooner. It could not have created it.
    """
    if "token" in stored:
        expiry = stored["expires_at"]
        check_outlived(principal, expiry and dt.datetime.fromisoformat(expiry))


class TokenQuery(QuerySerializer):
    username = TextParameter(
        required=False, help_text="The owner of the tokens. Only staff may name another person."
    )


class UsernameQuery(QuerySerializer):
    username = AnyText(required=False, help_text="The username to check.")


class TokenViewSet(ApiViewSet):
    """/api-tokens"""

    schema_tags = ["api-tokens"]
    queryset = ApiToken.objects.all()
    filterset_class = TokenFilterSet
    lookup_url_kwarg = "uuid"
    lookup_value_converter = "uid"
    principal: Principal
    token: ApiToken

    def load_objects(self) -> None:
        if "uuid" in self.kwargs:
            tokens = ApiToken.objects.select_related("user")
            self.token = get_or_missing(tokens, "API token", uuid=self.kwargs["uuid"])
            self.principal.check_self_or_staff(self.token.user_id, "tokens")

    @operation(
        Level.NONE,
        permission=Permission.ADMIN,
        response=TokenRecord,
        query=TokenQuery,
        errors=("staff_required",),
    )
    def list(self) -> Response:
        """List API tokens."""
        owner = self.get_owner(self.validated_query.get("username"))
        tokens = self.paginate(queries.list_tokens(owner))
        return self.get_paginated_response(token_records(tokens, self.principal))

    @operation(
        Level.NONE,
        permission=Permission.ADMIN,
        request=CreateToken,
        response=NewTokenRecord,
        status=201,
        errors=("person_required", "role_required", "staff_required", "user_not_found"),
    )
    def create(self) -> dict[str, Any]:
        """Create an API token. Only this answer contains its text."""
        values = dict(self.validated_data)
        owner = self.get_owner(values.pop("username", None))
        token, text = actions.create_token(principal=self.principal, owner=owner, **values)
        return {**self.record(token), "token": text}

    @operation(
        Level.NONE, permission=Permission.ADMIN, response=TokenRecord, errors=("staff_required",)
    )
    def retrieve(self) -> dict[str, Any]:
        """Read an API token."""
        return self.record(self.token)

    @operation(
        Level.NONE,
        permission=Permission.ADMIN,
        status=204,
        errors=("person_required", "staff_required"),
    )
    def destroy(self) -> None:
        """Delete an API token."""
        actions.delete_token(principal=self.principal, token=self.token)

    @action(detail=False, url_path="self", methods=["get"])
    @operation(Level.NONE, takes_limited=True, response=TokenRecord)
    def own(self) -> dict[str, Any]:
        """Read the token used for this request."""
        return self.record(cast("SentToken", self.principal.credential).token)

    @action(detail=True, methods=["put"])
    @operation(
        Level.NONE,
        permission=Permission.ADMIN,
        request=RotateToken,
        response=NewTokenRecord,
        errors=("invalid_transition", "person_required", "role_required", "staff_required"),
    )
    def rotate(self) -> dict[str, Any]:
        """Give an API token a new text, which only this answer contains.

        The old text is valid for `keep_old` more. Everything else stays as it is.
        """
        text = actions.rotate_token(
            principal=self.principal, token=self.token, **self.validated_data
        )
        return {**self.record(self.token), "token": text}

    @action(detail=True, methods=["put"])
    @operation(
        Level.NONE,
        permission=Permission.ADMIN,
        response=TokenRecord,
        errors=("person_required", "staff_required"),
    )
    def revoke(self) -> dict[str, Any]:
        """Revoke an API token. Revoking it again changes nothing."""
        actions.revoke_token(principal=self.principal, token=self.token)
        return self.record(self.token)

    def record(self, token: ApiToken) -> dict[str, Any]:
        return token_records([token], self.principal)[0]

    def check_again(self, stored: Any) -> None:
        """Replay the answer, with a token's text, only to callers who may create such a token
        now.
        """
        super().check_again(stored)
        self.get_owner(self.validated_data.get("username"))
        check_stored_token(self.principal, stored)

    def get_owner(self, username: str | None) -> User:
        """The person with this username; for None, the caller. 403 comes before 404."""
        if username is None or username.lower() == self.principal.user.username_key:
            return self.principal.user
        self.principal.check_staff()
        return named_user(username)


class UserViewSet(ApiViewSet):
    """/users, /users/{username}, /users/{username}/activity"""

    schema_tags = ["users"]
    queryset = User.objects.all()
    filterset_class = UserFilterSet
    lookup_url_kwarg = "username"
    lookup_value_converter = "username"
    principal: Principal
    user: User

    def load_objects(self) -> None:
        if "username" in self.kwargs:
            people = User.objects.filter(NOT_GONE)
            self.user = get_or_missing(people, "user", username_key=self.kwargs["username"])

    @operation(Level.NONE, response=UserRecord, errors=("staff_required",))
    def list(self) -> Response:
        """List the people of this site, by username."""
        return self.page_of(queries.list_users(self.principal), self.record)

    @operation(Level.NONE, response=UserRecord)
    def retrieve(self) -> dict[str, Any]:
        """Read a person."""
        return self.record(self.user)

    @action(detail=False, url_path="self", methods=["get"])
    @operation(Level.NONE, takes_limited=True, response=UserRecord)
    def own(self) -> dict[str, Any]:
        """Read the caller."""
        return self.record(self.principal.user)

    @own.mapping.put
    @operation(
        Level.NONE,
        permission=Permission.ADMIN,
        request=UpdateSelf,
        response=UserRecord,
        errors=("person_required",),
    )
    def update_own(self) -> dict[str, Any]:
        """Change the caller's display name.

        E-mail address and password are changed on the page `/settings`.
        """
        user = self.principal.user
        actions.update_user(principal=self.principal, user=user, **self.validated_data)
        return self.record(user)

    @own.mapping.delete
    @operation(
        Level.NONE,
        permission=Permission.ADMIN,
        query=ConfirmQuery,
        response=DeletionRecord,
        status=202,
        errors=("invalid_transition", "last_owner", "person_required"),
    )
    def delete_own(self) -> dict[str, Any]:
        """Delete the caller's account and their own repositories.

        `confirm` is the username. Nobody can use the account any more, and its tokens are revoked.
        Staff can restore it until `purge_at`. Then texts, reviews and events stay without a name.
        """
        return self.deleted(self.principal.user)

    @operation(Level.STAFF, request=UpdateUser, response=UserRecord, errors=("invalid_transition",))
    def update(self) -> dict[str, Any]:
        """Deactivate an account or open it again, and give or take the rights of staff."""
        actions.set_account(principal=self.principal, user=self.user, **self.validated_data)
        return self.record(self.user)

    @operation(
        Level.STAFF,
        query=ConfirmQuery,
        response=DeletionRecord,
        status=202,
        errors=("invalid_transition", "last_owner"),
    )
    def destroy(self) -> dict[str, Any]:
        """Delete a person's account, as `DELETE /users/self` does."""
        return self.deleted(self.user)

    def record(self, user: User) -> dict[str, Any]:
        return user_record(user, self.principal, self.base_url)

    def deleted(self, user: User) -> dict[str, Any]:
        deletion = actions.delete_user(principal=self.principal, user=user, **self.validated_query)
        return deletion_record(deletion)

    @action(detail=True, methods=["get"])
    @operation(Level.NONE, response=ActivityRecord)
    def activity(self) -> dict[str, Any]:
        """Count a person's events of the last 90 days that the caller may read."""
        subject = {"kind": "user", "username": self.user.username}
        return activity_record(subject, Key("actor_id", self.user.pk), self.principal)


class OfUser(ApiViewSet):
    """A resource of one person, for themself and for staff. Without a username in the path, the
    person is the caller.
    """

    noun: str
    """Names the resource in a refusal, in the plural."""
    schema_tags = ["users"]
    principal: Principal
    user: User

    def load_objects(self) -> None:
        self.user = self.principal.user
        if "username" in self.kwargs:
            people = User.objects.filter(NOT_GONE)
            self.user = get_or_missing(people, "user", username_key=self.kwargs["username"])
            self.principal.check_self_or_staff(self.user.pk, self.noun)


class SessionViewSet(OfUser):
    """/users/self/sessions, /users/{username}/sessions"""

    noun = "sessions"
    queryset = BrowserSession.objects.all()
    lookup_url_kwarg = "uuid"
    lookup_value_converter = "uid"
    session: BrowserSession

    def load_objects(self) -> None:
        super().load_objects()
        if "uuid" in self.kwargs:
            sessions = queries.list_sessions(self.user)
            self.session = get_or_missing(sessions, "session", uuid=self.kwargs["uuid"])

    @operation(
        Level.NONE, permission=Permission.ADMIN, response=SessionRecord, errors=("staff_required",)
    )
    def list(self) -> Response:
        """List the browsers in which a person is signed in, last used first."""
        return self.page_of(queries.list_sessions(self.user), session_record)

    @operation(Level.NONE, permission=Permission.ADMIN, status=204, errors=("staff_required",))
    def destroy(self) -> None:
        """Sign a browser out. Its live streams close."""
        actions.end_session(principal=self.principal, session=self.session)

    @operation(Level.NONE, permission=Permission.ADMIN, status=204, errors=("staff_required",))
    def delete_all(self) -> None:
        """Sign a person out of every browser. Their live streams on pages close. Tokens stay."""
        actions.end_sessions(principal=self.principal, user=self.user)


class TokensOfUserViewSet(OfUser):
    """/users/{username}/tokens"""

    noun = "tokens"
    queryset = ApiToken.objects.all()

    @operation(
        Level.NONE, permission=Permission.ADMIN, response=TokenRecord, errors=("staff_required",)
    )
    def list(self) -> Response:
        """List a person's API tokens, newest first, without their text."""
        tokens = self.paginate(queries.list_tokens(self.user))
        return self.get_paginated_response(token_records(tokens, self.principal))


class CheckUsernameViewSet(ApiViewSet):
    """/check-username"""

    schema_tags = ["users"]

    @operation(
        Level.PUBLIC,
        response=Availability,
        query=UsernameQuery,
        other_responses={409: Availability},
    )
    def retrieve(self) -> Response:
        """Check whether a username is available."""
        return USERNAMES.answer(self.validated_query.get("username"), User.objects.all().taken)


class InviteViewSet(ApiViewSet):
    """/signup-invites, /signup-invites/{uuid}"""

    schema_tags = ["signup-invites"]
    queryset = Invite.objects.all()
    filterset_class = InviteFilterSet
    lookup_url_kwarg = "uuid"
    lookup_value_converter = "uid"
    principal: Principal
    invite: Invite

    def load_objects(self) -> None:
        if "uuid" in self.kwargs:
            invites = queries.list_invites(self.principal)
            self.invite = get_or_missing(invites, "invite", uuid=self.kwargs["uuid"])

    @operation(Level.STAFF, response=InviteRecord, is_secret=True)
    def list(self) -> Response:
        """List signup invites that have not been deleted."""
        return self.page_of(queries.list_invites(self.principal), invite_record)

    @operation(
        Level.STAFF,
        request=CreateInvite,
        response=InviteRecord,
        status=201,
        errors=("account_too_young", "person_required", "signup_invite_limit_reached"),
    )
    def create(self) -> dict[str, Any]:
        """Invite somebody to sign up."""
        return invite_record(actions.create_invite(principal=self.principal, **self.validated_data))

    @operation(Level.STAFF, response=InviteRecord, is_secret=True)
    def retrieve(self) -> dict[str, Any]:
        """Read a signup invite."""
        return invite_record(self.invite)

    @operation(
        Level.STAFF,
        request=UpdateInvite,
        response=InviteRecord,
        errors=("invite_already_accepted",),
    )
    def update(self) -> dict[str, Any]:
        """Change the address or the expiry of a signup invite."""
        actions.update_invite(principal=self.principal, invite=self.invite, **self.validated_data)
        return invite_record(self.invite)

    @operation(Level.STAFF, status=204)
    def destroy(self) -> None:
        """Delete a signup invite."""
        actions.delete_invite(principal=self.principal, invite=self.invite)
