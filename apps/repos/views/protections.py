"""`…/protections` and `…/protections/{protection_uuid}/approvers`: who lets changes in, and how."""

from __future__ import annotations

from typing import Any

from django.shortcuts import get_object_or_404
from rest_framework.response import Response

from apps.accounts.rules import named_user
from apps.core.access import Level
from apps.core.operation import operation
from apps.repos import actions, queries
from apps.repos.access import RepoScoped
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


class ProtectionViewSet(RepoScoped):
    """/{owner}/repos/{repo_slug}/protections"""

    schema_tags = ["protections"]
    lookup_url_kwarg = "protection_uuid"
    lookup_value_converter = "uid"
    protection: Protection

    def load_objects(self) -> None:
        """Load the protection that the path names."""
        if "protection_uuid" in self.kwargs:
            rows = queries.list_protections(self.repo)
            self.protection = get_object_or_404(rows, uuid=self.kwargs["protection_uuid"])
            self.protection.repo = self.repo

    @operation(Level.READ, response=ProtectionRecord)
    def list(self) -> Response:
        """List a repository's branch protections, oldest first."""
        return self.page_of(queries.list_protections(self.repo), protection_record)

    @operation(Level.ADMIN, request=CreateProtection, response=ProtectionRecord, status=201)
    def create(self) -> dict[str, Any]:
        """Protect a branch, or all that a pattern matches.

        In `branch`, `*` stands for anything but `/`. The branch need not exist; the push that
        creates it is let in, and from then on it changes by merging only.
        """
        made = actions.create_protection(by=self.access, **self.validated_data)
        return protection_record(made)

    @operation(Level.READ, response=ProtectionRecord)
    def retrieve(self) -> dict[str, Any]:
        """Read a branch protection."""
        return protection_record(self.protection)

    @operation(Level.ADMIN, request=UpdateProtection, response=ProtectionRecord)
    def update(self) -> dict[str, Any]:
        """Protect other branches instead."""
        actions.update_protection(by=self.access, protection=self.protection, **self.validated_data)
        return protection_record(self.protection)

    @operation(Level.ADMIN, status=204)
    def destroy(self) -> None:
        """Open the protected branches again."""
        actions.delete_protection(by=self.access, protection=self.protection)


class ApproverViewSet(RepoScoped):
    """/{owner}/repos/{repo_slug}/protections/{protection_uuid}/approvers"""

    schema_tags = ["protections"]
    lookup_url_kwarg = "user_uuid"
    lookup_value_converter = "uid"
    protection: Protection
    approver: Approver

    def load_objects(self) -> None:
        """Load the protection, and the approver that must be on it."""
        rows = self.repo.protections.all()
        self.protection = get_object_or_404(rows, uuid=self.kwargs["protection_uuid"])
        self.protection.repo = self.repo
        if "user_uuid" in self.kwargs:
            approvers = queries.list_approvers(self.protection)
            self.approver = get_object_or_404(approvers, user__uuid=self.kwargs["user_uuid"])
            self.approver.protection = self.protection

    @operation(Level.READ, response=ApproverRecord)
    def list(self) -> Response:
        """List those whose approval counts, oldest first; none: anybody with write access."""
        return self.page_of(queries.list_approvers(self.protection), approver_record)

    @operation(Level.ADMIN, request=AddApprover, response=ApproverRecord, status=201)
    def create(self) -> dict[str, Any]:
        """Name an approver, who must be able to read the repository."""
        user = named_user(self.validated_data["username"])
        added = actions.add_approver(by=self.access, protection=self.protection, user=user)
        return approver_record(added)

    @operation(Level.ADMIN, status=204)
    def destroy(self) -> None:
        """Take somebody off the list."""
        actions.remove_approver(by=self.access, approver=self.approver)
