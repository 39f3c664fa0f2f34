"""`/new/team` and `/new/repo`: what one may make."""

from __future__ import annotations

from django.contrib import messages
from django.http import HttpResponse

from apps.core.access import Level
from apps.repos.access import open_space
from apps.repos.actions import create_repo
from apps.repos.models import Visibility
from apps.teams.actions import create_team
from apps.web.decorators import FORM, page
from apps.web.repo_forms import NewRepo
from apps.web.responses import PageRequest, named, redirect_to_path
from apps.web.team_forms import NewTeam


@page(Level.NONE, methods=FORM, throttle="teams")
def new_team(request: PageRequest) -> HttpResponse:
    """Make a team. Who makes it owns it."""
    form = NewTeam(request)
    if request.method == "POST" and form.is_valid():
        with form.refusals():
            team = create_team(by=request.principal, **form.cleaned_data)
            messages.success(request, f"Team {team.slug} created. You are its owner.")
            return redirect_to_path(f"/{team.path}")
    return form.shown(request, "new_team")


@page(Level.NONE, methods=FORM, throttle="repos")
def new_repo(request: PageRequest) -> HttpResponse:
    """Make a repository. Its owner can be named in the address: `?owner=teams/acme`."""
    asked = named(request, "owner")
    if asked and request.method != "POST":  # later it is refused in the form, which keeps its text
        asked = open_space(request.principal, asked).owner.path
    form = NewRepo(request, named=asked, visibility=Visibility.PRIVATE)
    if request.method == "POST" and form.is_valid():
        with form.refusals():
            wanted = dict(form.cleaned_data)
            space = open_space(request.principal, wanted.pop("owner"))
            repo = create_repo(by=space, **wanted)
            return redirect_to_path(f"/{repo.path}")
    return form.shown(request, "new_repo")
