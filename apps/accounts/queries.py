"""Queries for accounts, for the API and the pages."""

from __future__ import annotations

from django.db.models import QuerySet
from django.utils import timezone

from apps.accounts.models import (
    ApiToken,
    ApiTokenQuerySet,
    BrowserSession,
    Invite,
    InviteQuerySet,
    User,
    UserQuerySet,
)
from apps.accounts.principal import Principal
from apps.accounts.rules import ORDERINGS, SORTS


def list_tokens(owner: User) -> ApiTokenQuerySet:
    """A person's tokens, newest first. The caller has already checked who may see them."""
    tokens = ApiToken.objects.filter(user=owner).select_related("user")
    return tokens.in_order(ORDERINGS[0])


def list_sessions(owner: User) -> QuerySet[BrowserSession]:
    """The browsers in which a person is signed in, last used first. The caller has already checked
    who may see them.
    """
    sessions = BrowserSession.objects.filter(user=owner, session__expire_date__gt=timezone.now())
    return sessions.select_related("session", "user").order_by("-last_seen_at", "-id")


def list_users(principal: Principal) -> UserQuerySet:
    """All people of this site, by username."""
    return User.objects.all().visible_to(principal).order_by("username_key")


def list_invites(principal: Principal) -> InviteQuerySet:
    """The invites that the principal may see, newest first, with the relations of their records."""
    invites = Invite.objects.visible_to(principal)
    return invites.select_related("created_by", "accepted_by").in_order(SORTS[0])
