"""Inputs and records of everything in a repository that is not a thread or a pull."""

from apps.repos.serializers.repos import CreateRepo, RepoRecord, UpdateRepo, repo_record

__all__ = ["CreateRepo", "RepoRecord", "UpdateRepo", "repo_record"]
