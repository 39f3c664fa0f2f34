"""`…/forks`: the forks of a repository, and a form that asks for one."""

from __future__ import annotations

from typing import Any

from django.contrib import messages
from django.http import HttpResponse

from apps.repos.access import RepoAccess, open_space
from apps.repos.actions import create_fork
from apps.repos.models import Fork, Repo
from apps.repos.queries import list_forks
from apps.web.decorators import FORM, repo_page
from apps.web.frame import render_repo_page, repo_context
from apps.web.repo_forms import NewFork
from apps.web.responses import PageRequest, named, page_number, page_of, redirect_to_path


@repo_page(methods=FORM, throttle="forks")
def forks(request: PageRequest, access: RepoAccess) -> HttpResponse:
    """The forks that one may read, newest first. The copy is made after it was asked for."""
    repo, principal = access.repo, access.principal
    number = page_number(request)
    page = page_of(request, number, list_forks(principal, repo), fork_row)
    known = Repo.objects.paths_known_to(principal, [row["fork"].repo_id for row in page["results"]])
    for row in page["results"]:
        row["path"] = known.get(row["fork"].repo_id)
    if not principal.is_signed_in:
        return render_repo_page(request, access, "forks", tab="code", page=page)
    form = NewFork(request, named=named(request, "owner"))
    if request.method == "POST" and form.is_valid():
        with form.refusals():
            space = open_space(principal, form.cleaned_data["owner"])
            made = create_fork(by=access, into=space)
            messages.success(request, f"Forking into {space.name} has started.")
            return redirect_to_path(f"/{repo.path}/forks#fork-{made.uuid}")
    return form.shown(request, "forks", page=page, **repo_context(access, "code"))


def fork_row(fork: Fork) -> dict[str, Any]:
    return {"fork": fork}
