"""`…/compare`: what one branch has that another one has not."""

from __future__ import annotations

from django.http import HttpResponse

from apps.browse.names import pulls_of_code
from apps.repos.access import RepoAccess
from apps.web.addresses import with_query
from apps.web.code import ref_menu
from apps.web.comparisons import comparison_or_reason
from apps.web.decorators import repo_page
from apps.web.frame import render_repo_page
from apps.web.responses import PageRequest


@repo_page()
def compare(request: PageRequest, access: RepoAccess) -> HttpResponse:
    """A form for two names, and what lies between them. What is wrong with them stands above."""
    repo = access.repo
    base = request.GET.get("base") or repo.default_branch
    head = request.GET.get("head", "")
    comparison, error = comparison_or_reason(request, access, base, head) if head else (None, None)
    response = render_repo_page(
        request,
        access,
        "compare",
        tab="code",
        status=error.status if error else 200,
        base=base,
        head=head,
        menu=ref_menu(repo, base),
        comparison=comparison,
        error=error,
        pulls=pulls_of_code().open_numbers(repo, [head]).get(head, []) if comparison else [],
        new_pull=with_query(f"/{repo.path}/pulls/new", {"base": base, "head": head}),
    )
    for name, value in (error.headers if error else {}).items():
        response[name] = value
    return response
