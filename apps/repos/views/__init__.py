"""The resources of repositories."""

from apps.repos.views.repos import CheckRepoSlugViewSet, RepoViewSet

__all__ = ["CheckRepoSlugViewSet", "RepoViewSet"]
