"""Requests and records of everything in a repository that is not a thread or a pull."""

from apps.repos.serializers.forks import ForkRecord, fork_record
from apps.repos.serializers.protections import (
    AddApprover,
    ApproverRecord,
    CreateProtection,
    ProtectionRecord,
    UpdateProtection,
    approver_record,
    protection_record,
)
from apps.repos.serializers.repos import CreateRepo, RepoRecord, UpdateRepo, repo_record

__all__ = [
    "AddApprover",
    "ApproverRecord",
    "CreateProtection",
    "CreateRepo",
    "ForkRecord",
    "ProtectionRecord",
    "RepoRecord",
    "UpdateProtection",
    "UpdateRepo",
    "approver_record",
    "fork_record",
    "protection_record",
    "repo_record",
]
