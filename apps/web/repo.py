"""`/{owner}/{repo}`: what a repository is, and how to get it."""

from __future__ import annotations

from typing import Any

from django.http import HttpResponse, HttpResponseRedirect

from apps.core.access import Level
from apps.core.views import base_url
from apps.repos.access import RepoAccess
from apps.repos.models import Fork
from apps.repos.queries import list_protections
from apps.web.decorators import page, repo_page
from apps.web.frame import render_repo_page
from apps.web.responses import PageRequest

MOST_PROTECTIONS = 20
"""Protections that stand beside the repository."""


@repo_page()
def repo(request: PageRequest, access: RepoAccess) -> HttpResponse:
    """Its description, the command that clones it, and what is protected."""
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
    )


@page(Level.PUBLIC)
def clone_address(request: PageRequest, **place: Any) -> HttpResponse:
    """302 from the address that git clones to the page: people paste it into browsers."""
    return HttpResponseRedirect(request.path.removesuffix(".git"))
