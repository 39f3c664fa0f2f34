"""Queries for accounts, for the API and the pages."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from django.db.models import Prefetch, QuerySet, prefetch_related_objects
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


def load_repos(tokens: Iterable[ApiToken], viewer: Principal) -> list[ApiToken]:
    """Load into `known_repos` the repositories of limited tokens that the viewer may read, by id.

    One query, or none if no token is limited.
    """
    loaded = list(tokens)
    readable: Any = viewer.user.repos.model.objects.visible_to(viewer)
    rows = readable.select_related("owner_team", "owner_user").order_by("pk")
    limited = [token for token in loaded if token.is_limited]
    prefetch_related_objects(limited, Prefetch("repos", rows, to_attr="known_repos"))
    return loaded


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
