"""The frame of the pages below a repository: whose it is, and the tabs."""

from __future__ import annotations

from typing import Any

from django.http import HttpResponse

from apps.core.access import Level
from apps.core.pagination import count_text as count_text
from apps.pulls.models import IS_ACTIVE
from apps.repos.access import RepoAccess
from apps.web.responses import PageRequest, render_page


def render_repo_page(
    request: PageRequest,
    access: RepoAccess,
    template: str,
    *,
    tab: str,
    status: int = 200,
    **context: Any,
) -> HttpResponse:
    """The page made from `templates/web/<template>.html`, in the frame of its repository.

    `tab` is the one that is open: code, pulls, threads or activity.
    """
    return render_page(request, template, status=status, **repo_context(access, tab), **context)


def repo_context(access: RepoAccess, tab: str) -> dict[str, Any]:
    """What the frame of a repository shows; one query, for the number of open pulls."""
    repo = access.repo
    return {
        "access": access,
        "repo": repo,
        "owner_name": repo.owner.path.rpartition("/")[2],
        "tab": tab,
        "open_pulls": count_text(repo.pulls.filter(IS_ACTIVE)),
        "may_write": access.level >= Level.WRITE,
        "may_admin": access.level >= Level.ADMIN,
    }
