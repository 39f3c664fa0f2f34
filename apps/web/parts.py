"""Parts of pages, which scripts ask for when something has changed."""

from __future__ import annotations

from django.http import HttpResponse

from apps.pulls.queries import get_pull
from apps.repos.access import RepoAccess
from apps.web.decorators import repo_page
from apps.web.frame import render_repo_page
from apps.web.pull_forms import MergeForm
from apps.web.pulls import pull_record, strategies, verdict_or_none
from apps.web.responses import PageRequest


@repo_page()
def verdict(request: PageRequest, access: RepoAccess, number: int) -> HttpResponse:
    """Whether a pull can be merged now, as its page says it below the title and in its place."""
    found = get_pull(access.repo, number)
    told = verdict_or_none(found, access)
    return render_repo_page(
        request,
        access,
        "_pull_parts",
        tab="pulls",
        pull=pull_record(found, access),
        verdict=told,
        strategies=strategies(told),
        is_author=access.principal.person_id == found.thread.created_by_id,
        merge_form=MergeForm(request, again=True, expected_head_sha=found.head_sha or ""),
    )
