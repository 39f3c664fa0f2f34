"""What the API, the pages and the admin read of accounts."""

from __future__ import annotations

from apps.accounts.models import (
    ApiToken,
    ApiTokenQuerySet,
    Invite,
    InviteQuerySet,
    User,
    UserQuerySet,
)
from apps.accounts.principal import Principal
from apps.accounts.rules import ORDERINGS, SORTS


def list_tokens(owner: User) -> ApiTokenQuerySet:
    """A person's tokens, newest first. The caller has asked who may see them."""
    tokens = ApiToken.objects.filter(user=owner).select_related("user")
    return tokens.in_order(ORDERINGS[0])


def list_users(principal: Principal) -> UserQuerySet:
    """The people of this site, by username."""
    return User.objects.all().visible_to(principal).order_by("username_key")


def list_invites(principal: Principal) -> InviteQuerySet:
    """The invites that one may see, newest first, with who made and who accepted each."""
    invites = Invite.objects.visible_to(principal)
    return invites.select_related("created_by", "accepted_by").in_order(SORTS[0])
