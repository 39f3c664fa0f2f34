"""Queries for SSH keys."""

from __future__ import annotations

from collections.abc import Collection

from django.db.models import Q, QuerySet

from apps.accounts.models import User
from apps.repos.models import Repo
from apps.ssh.models import SshKey


def list_keys(owner: User) -> QuerySet[SshKey]:
    """A person's keys, newest first. The caller has already checked who may see them."""
    return SshKey.objects.filter(user=owner).order_by("-id")


def list_deploy_keys(repo: Repo) -> QuerySet[SshKey]:
    """The deploy keys of a repository, newest first. The caller has checked access."""
    return SshKey.objects.filter(repo=repo).select_related("created_by").order_by("-id")


def valid_keys(pks: Collection[int]) -> set[int]:
    """Those of these keys that still exist and whose person's account is open. Deploy keys are
    valid without the person who added them.
    """
    rows = SshKey.objects.filter(Q(user=None) | Q(user__is_active=True), pk__in=pks)
    return set(rows.values_list("pk", flat=True))
