"""The resources of repositories."""

from apps.repos.views.forks import (
    ForkOfRepoViewSet,
    ForkOfTeamViewSet,
    ForkOfUserViewSet,
    ForksOfRepoViewSet,
    ForkViewSet,
)
from apps.repos.views.protections import ApproverViewSet, ProtectionViewSet
from apps.repos.views.repos import CheckRepoSlugViewSet, RepoViewSet

__all__ = [
    "ApproverViewSet",
    "CheckRepoSlugViewSet",
    "ForkOfRepoViewSet",
    "ForkOfTeamViewSet",
    "ForkOfUserViewSet",
    "ForkViewSet",
    "ForksOfRepoViewSet",
    "ProtectionViewSet",
    "RepoViewSet",
]
