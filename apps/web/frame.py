"""The header and tabs of the pages below a repository and below a team."""

from __future__ import annotations

from typing import Any

from django.db.models import OuterRef, QuerySet, Subquery, Value
from django.db.models.functions import Coalesce
from django.http import HttpResponse

from apps.accounts.principal import Principal, statement_for
from apps.core.access import Level
from apps.core.errors import NotFound
from apps.core.pagination import CountOf, counted
from apps.core.statements import Parameter
from apps.events.models import Event
from apps.events.queries import list_pings
from apps.pulls.models import IS_ACTIVE, Pull
from apps.repos.access import RepoAccess
from apps.repos.models import Repo
from apps.teams.access import TeamAccess
from apps.web.responses import PageRequest, render_page


def render_repo_page(
    request: PageRequest, access: RepoAccess, template: str, *, tab: str, **context: Any
) -> HttpResponse:
    """`render_page` with the header of a repository; `tab`: one of those in `_repo_header.html`."""
    return render_page(request, template, **repo_context(access, tab), **context)


def repo_context(access: RepoAccess, tab: str) -> dict[str, Any]:
    """The context of the header of a repository, and `newest_event`, after which a live page
    follows the stream. One query; call it before the queries of the page.
    """
    repo, principal = access.repo, access.principal
    counts = statement_for(principal, _counts).first(repo=repo.pk, person=principal.person_id)
    if counts is None:
        raise NotFound("not_found", "This has since been deleted.")
    open_pulls, unread, newest_event = counts
    return {
        "access": access,
        "repo": repo,
        "owner_name": repo.owner.path.rpartition("/")[2],
        "tab": tab,
        "open_pulls": counted(open_pulls),
        "unread": unread,
        "newest_event": newest_event,
        "may_write": access.level >= Level.WRITE,
        "may_admin": access.level >= Level.ADMIN,
    }


def _counts(principal: Principal) -> QuerySet[Any, Any]:
    pulls = Pull.objects.filter(IS_ACTIVE, repo=OuterRef("pk"))
    pings = CountOf(list_pings(principal, unread=True)) if principal.is_signed_in else Value(0)
    newest_event = Coalesce(Subquery(Event.objects.order_by("-id").values("id")[:1]), 0)
    rows = Repo.objects.filter(pk=Parameter("repo"))
    return rows.values_list(CountOf(pulls), pings, newest_event)


def team_context(access: TeamAccess, tab: str) -> dict[str, Any]:
    """The context of the header of a team; `tab`: repos, members, activity or settings."""
    return {
        "access": access,
        "team": access.team,
        "tab": tab,
        "role": access.team.role_of(access.principal.person_id),
        "may_write": access.level >= Level.WRITE,
        "may_admin": access.level >= Level.ADMIN,
        "may_own": access.level >= Level.OWNER,
    }
