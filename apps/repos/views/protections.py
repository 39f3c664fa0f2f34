"""`…/protections` and `…/protections/{protection_uuid}/approvers`: who lets changes in, and how."""

from __future__ import annotations

from typing import Any

from django.shortcuts import get_object_or_404

from apps.accounts.rules import named_user
from apps.core.access import Level
from apps.core.operation import operation
from apps.repos import actions
from apps.repos.doors import InRepo
from apps.repos.models import Approver, Protection
from apps.repos.serializers import (
    AddApprover,
    ApproverRecord,
    CreateProtection,
    ProtectionRecord,
    UpdateProtection,
    approver_record,
    protection_record,
)


class ProtectionViewSet(InRepo):
    """/{owner}/repos/{repo_slug}/protections"""

    family = "protections"
    lookup_url_kwarg = "protection_uuid"
    lookup_value_converter = "uid"
    protection: Protection

    def enter(self) -> None:
        """Load the protection that the path names."""
        if "protection_uuid" in self.kwargs:
            rows = self.repo.protections.with_people()
            self.protection = get_object_or_404(rows, uuid=self.kwargs["protection_uuid"])
            self.protection.repo = self.repo

    @operation(Level.READ, gives=ProtectionRecord, paged=True)
    def list(self) -> dict[str, Any]:
        """List a repository's branch protections, oldest first."""
        rows = self.repo.protections.with_people().order_by("created_at", "id")
        return self.page(rows, protection_record)

    @operation(Level.ADMIN, takes=CreateProtection, gives=ProtectionRecord, status=201)
    def create(self) -> dict[str, Any]:
        """Protect a branch, or all that a pattern matches.

        In `branch`, `*` stands for anything but `/`. The branch need not exist; the push that
        creates it is let in, and from then on it changes by merging only.
        """
        made = actions.create_protection(actor=self.caller, repo=self.repo, **self.input)
        return protection_record(made)

    @operation(Level.READ, gives=ProtectionRecord)
    def retrieve(self) -> dict[str, Any]:
        """Read a branch protection."""
        return protection_record(self.protection)

    @operation(Level.ADMIN, takes=UpdateProtection, gives=ProtectionRecord)
    def update(self) -> dict[str, Any]:
        """Protect other branches instead."""
        actions.update_protection(actor=self.caller, protection=self.protection, **self.input)
        return protection_record(self.protection)

    @operation(Level.ADMIN, status=204)
    def destroy(self) -> None:
        """Open the protected branches again."""
        actions.delete_protection(actor=self.caller, protection=self.protection)


class ApproverViewSet(InRepo):
    """/{owner}/repos/{repo_slug}/protections/{protection_uuid}/approvers"""

    family = "protections"
    lookup_url_kwarg = "user_uuid"
    lookup_value_converter = "uid"
    protection: Protection
    approver: Approver

    def enter(self) -> None:
        """Load the protection, and the approver that must be on it."""
        rows = self.repo.protections.all()
        self.protection = get_object_or_404(rows, uuid=self.kwargs["protection_uuid"])
        self.protection.repo = self.repo
        if "user_uuid" in self.kwargs:
            approvers = self.protection.approvers.select_related("user")
            self.approver = get_object_or_404(approvers, user__uuid=self.kwargs["user_uuid"])
            self.approver.protection = self.protection

    @operation(Level.READ, gives=ApproverRecord, paged=True)
    def list(self) -> dict[str, Any]:
        """List those whose approval counts, oldest first; none: anybody with write access."""
        rows = self.protection.approvers.select_related("user", "added_by")
        return self.page(rows.order_by("created_at", "id"), approver_record)

    @operation(Level.ADMIN, takes=AddApprover, gives=ApproverRecord, status=201)
    def create(self) -> dict[str, Any]:
        """Name an approver, who must be able to read the repository."""
        user = named_user(self.input["username"])
        added = actions.add_approver(actor=self.caller, protection=self.protection, user=user)
        return approver_record(added)

    @operation(Level.ADMIN, status=204)
    def destroy(self) -> None:
        """Take somebody off the list."""
        actions.remove_approver(actor=self.caller, approver=self.approver)
