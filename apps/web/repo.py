"""`/{owner}/{repo}`: what a repository is, how to get it, and the files of its default branch."""

from __future__ import annotations

from typing import Any

from django.http import HttpResponse, HttpResponseRedirect

from apps.browse.trees import read_entry
from apps.core.access import Level
from apps.core.errors import NotFound
from apps.core.pagination import count_text
from apps.core.views import base_url
from apps.repos.access import RepoAccess
from apps.repos.models import Fork
from apps.repos.queries import list_protections
from apps.web.code import find_location, folder_context, ref_menu
from apps.web.decorators import page, repo_page
from apps.web.frame import render_repo_page
from apps.web.responses import PageRequest

MOST_PROTECTIONS = 20
"""Protections that stand beside the repository."""


@repo_page()
def repo(request: PageRequest, access: RepoAccess) -> HttpResponse:
    """Its description, the command that clones it, what is protected, its files and README."""
    found = access.repo
    fork = Fork.objects.with_paths().filter(repo=found).first()
    known = type(found).objects.paths_known_to(access.principal, [fork.upstream_id] if fork else [])
    return render_repo_page(
        request,
        access,
        "repo",
        tab="code",
        clone=f"{base_url(request)}/{found.path}.git",
        protections=list_protections(found)[:MOST_PROTECTIONS],
        upstream=known.get(fork.upstream_id) if fork and fork.upstream_id else None,
        level=access.level.name.lower(),
        **code_context(request, access),
    )


def code_context(request: PageRequest, access: RepoAccess) -> dict[str, Any]:
    """The files of the default branch. It may not be there, even where other branches are."""
    found = access.repo
    if found.is_empty:
        return {}
    known = {
        "menu": ref_menu(found, found.default_branch),
        "files_action": f"/{found.path}/files",
        "branch_count": count_text(found.refs.branches()),
    }
    try:
        location = find_location(request, access)
    except NotFound:
        return known
    folder = read_entry(found, location.commit, b"")
    return {
        **known,
        "location": location,
        "folder": folder_context(request, access, location, folder),
    }


@page(Level.PUBLIC)
def clone_address(request: PageRequest, **place: Any) -> HttpResponse:
    """302 from the address that git clones to the page: people paste it into browsers."""
    return HttpResponseRedirect(request.path.removesuffix(".git"))
