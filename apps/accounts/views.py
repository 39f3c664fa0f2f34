"""`/users` who is here, `/signup-invites` who may come, `/api-tokens` by which they call."""

from __future__ import annotations

from typing import Any, cast

from django.shortcuts import get_object_or_404
from rest_framework.decorators import action
from rest_framework.response import Response

from apps.accounts import actions
from apps.accounts.models import ApiToken, Invite, InviteStatus, User
from apps.accounts.rules import ORDERINGS, SORTS, check_owner, check_staff, named_user
from apps.accounts.serializers import (
    CreateInvite,
    CreateToken,
    InviteRecord,
    NewTokenRecord,
    TokenRecord,
    UpdateInvite,
    UserRecord,
    invite_record,
    token_record,
    user_record,
)
from apps.core.access import Level
from apps.core.availability import USERNAMES, Availability, name_query
from apps.core.operation import operation
from apps.core.parsers import choice_query, text_query
from apps.core.search import is_called
from apps.core.views import ApiViewSet
from apps.events.activity import ActivityRecord, activity_record
from apps.events.models import Key


class TokenViewSet(ApiViewSet):
    """/api-tokens"""

    family = "api-tokens"
    lookup_url_kwarg = "uuid"
    lookup_value_converter = "uid"
    token: ApiToken

    def enter(self) -> None:
        if "uuid" in self.kwargs:
            tokens = ApiToken.objects.select_related("user")
            self.token = get_object_or_404(tokens, uuid=self.kwargs["uuid"])
            check_owner(self.caller, self.token.user)

    @operation(
        Level.NONE,
        gives=TokenRecord,
        paged=True,
        query=(
            text_query("username", "Whose tokens; another person's only for staff."),
            text_query("name", "Exactly this name, ignoring case."),
            choice_query("ordering", ORDERINGS, "Newest first unless told otherwise."),
        ),
    )
    def list(self) -> dict[str, Any]:
        """List API tokens."""
        owner = self.owner(self.params["username"])
        tokens = ApiToken.objects.visible_to(self.caller).filter(user=owner).select_related("user")
        if self.params["name"]:
            tokens = tokens.filter(is_called("name", self.params["name"]))
        return self.page(tokens.in_order(self.params["ordering"] or ORDERINGS[0]), token_record)

    @operation(Level.NONE, takes=CreateToken, gives=NewTokenRecord, status=201)
    def create(self) -> dict[str, Any]:
        """Create an API token. Its text is in this answer and nowhere else."""
        sent = dict(self.input)
        owner = self.owner(sent.pop("username", None))
        token, text = actions.create_token(actor=self.caller, owner=owner, **sent)
        return {**token_record(token), "token": text}

    @operation(Level.NONE, gives=TokenRecord)
    def retrieve(self) -> dict[str, Any]:
        """Read an API token."""
        return token_record(self.token)

    @operation(Level.NONE, status=204)
    def destroy(self) -> None:
        """Delete an API token."""
        actions.delete_token(actor=self.caller, token=self.token)

    @action(detail=False, url_path="self", methods=["get"])
    @operation(Level.NONE, gives=TokenRecord)
    def own(self) -> dict[str, Any]:
        """Read the token used for this request."""
        return token_record(cast("ApiToken", self.request.auth))

    @action(detail=True, methods=["put"])
    @operation(Level.NONE, gives=TokenRecord)
    def revoke(self) -> dict[str, Any]:
        """Revoke an API token. Doing it again changes nothing."""
        actions.revoke_token(actor=self.caller, token=self.token)
        return token_record(self.token)

    def owner(self, username: str | None) -> User:
        """The named person, the caller where none is; 403 before it tells who exists."""
        if username is None or username.lower() == self.caller.username_key:
            return self.caller
        check_staff(self.caller)
        return named_user(username)


class UserViewSet(ApiViewSet):
    """/users, /users/{username}"""

    family = "users"
    lookup_url_kwarg = "username"
    lookup_value_converter = "username"
    user: User

    def enter(self) -> None:
        if "username" in self.kwargs:
            self.user = get_object_or_404(User, username_key=self.kwargs["username"])

    @operation(
        Level.NONE,
        gives=UserRecord,
        paged=True,
        query=(text_query("search", "Part of a username or display name, ignoring case."),),
    )
    def list(self) -> dict[str, Any]:
        """List the people of this site, by username."""
        people = User.objects.all().visible_to(self.caller)
        if self.params["search"]:
            people = people.search(self.params["search"])
        rows = people.order_by("username_key")
        return self.page(rows, lambda user, base: user_record(user, self.caller, base))

    @operation(Level.NONE, gives=UserRecord)
    def retrieve(self) -> dict[str, Any]:
        """Read a person."""
        return user_record(self.user, self.caller, self.base)

    @action(detail=False, url_path="self", methods=["get"])
    @operation(Level.NONE, gives=UserRecord)
    def own(self) -> dict[str, Any]:
        """Read the caller."""
        return user_record(self.caller, self.caller, self.base)


class UserActivityViewSet(ApiViewSet):
    """/users/{username}/activity"""

    family = "users"
    user: User

    def enter(self) -> None:
        self.user = get_object_or_404(User, username_key=self.kwargs["username"])

    @operation(Level.NONE, gives=ActivityRecord)
    def list(self) -> dict[str, Any]:
        """Count what a person did in the last 90 days, where the caller may see it."""
        subject = {"kind": "user", "username": self.user.username}
        return activity_record(subject, Key("actor_id", self.user.pk), self.caller)


class CheckUsernameViewSet(ApiViewSet):
    """/check-username"""

    family = "users"

    @operation(
        Level.PUBLIC,
        gives=Availability,
        query=(name_query("username"),),
        refuses={409: Availability},
    )
    def list(self) -> Response:
        """Tell whether a username can be had."""
        return USERNAMES.answer(self.params["username"], User.objects.all().taken)


class InviteViewSet(ApiViewSet):
    """/signup-invites, /signup-invites/{uuid}"""

    family = "signup-invites"
    lookup_url_kwarg = "uuid"
    lookup_value_converter = "uid"
    invite: Invite

    def enter(self) -> None:
        invites = Invite.objects.visible_to(self.caller)
        self.invites = invites.select_related("created_by", "accepted_by")
        if "uuid" in self.kwargs:
            self.invite = get_object_or_404(self.invites, uuid=self.kwargs["uuid"])

    @operation(
        Level.STAFF,
        gives=InviteRecord,
        paged=True,
        query=(
            text_query("search", "Part of the address, or of a name of who accepted; the uuid."),
            choice_query("status", [str(status) for status in InviteStatus]),
            choice_query("sort", SORTS, "Newest first unless told otherwise."),
        ),
    )
    def list(self) -> dict[str, Any]:
        """List signup invites, but not the deleted ones."""
        rows = self.invites.in_order(self.params["sort"] or SORTS[0])
        if self.params["search"]:
            rows = rows.search(self.params["search"])
        if self.params["status"]:
            rows = rows.with_status(self.params["status"])
        return self.page(rows, invite_record)

    @operation(Level.STAFF, takes=CreateInvite, gives=InviteRecord, status=201)
    def create(self) -> dict[str, Any]:
        """Invite somebody to sign up."""
        invite = actions.create_invite(actor=self.caller, **self.input)
        return invite_record(invite, self.base)

    @operation(Level.STAFF, gives=InviteRecord)
    def retrieve(self) -> dict[str, Any]:
        """Read a signup invite."""
        return invite_record(self.invite, self.base)

    @operation(Level.STAFF, takes=UpdateInvite, gives=InviteRecord)
    def update(self) -> dict[str, Any]:
        """Change whom an invite is for, or when it ends."""
        actions.update_invite(actor=self.caller, invite=self.invite, **self.input)
        return invite_record(self.invite, self.base)

    @operation(Level.STAFF, status=204)
    def destroy(self) -> None:
        """Delete a signup invite."""
        actions.delete_invite(actor=self.caller, invite=self.invite)
