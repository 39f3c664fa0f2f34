"""`…/settings`: what people see of a repository, its archive, and its protected branches."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from django.contrib import messages
from django.http import HttpResponse
from django.shortcuts import get_object_or_404

from apps.accounts.rules import named_user
from apps.core.access import Level
from apps.repos import actions
from apps.repos.access import RepoAccess
from apps.repos.models import Approver, Protection
from apps.repos.protection_rules import defaults, settings_of
from apps.repos.queries import list_approvers, list_protections, newest_branches
from apps.repos.satisfiable import RepoPeople, is_satisfiable
from apps.web.decorators import FORM, repo_page
from apps.web.forms import PageForm
from apps.web.frame import repo_context
from apps.web.repo_forms import EditProtection, NewApprover, NewProtection, RepoSettings
from apps.web.responses import PageRequest, page_number, page_of, redirect_to_path

POST = ("POST",)
MOST_BRANCHES = 1000
"""Branches that are compared with protections, the newest."""
MOST_PROPOSED = 100
"""Branches that are proposed in a form."""
MOST_NAMED = 5
"""Branches that are named of those that a protection matches."""


@repo_page(Level.ADMIN, methods=FORM, throttle="repos", signed_in=True)
def repo_settings(request: PageRequest, access: RepoAccess) -> HttpResponse:
    """Name, address, description, visibility and default branch."""
    repo = access.repo
    names = ("name", "slug", "description", "visibility", "default_branch")
    form = RepoSettings(request, **{name: getattr(repo, name) for name in names})
    if request.method == "POST" and form.is_valid():
        with form.refusals():
            actions.update_repo(by=access, **form.changes())
            return saved(request, repo.path, "Repository saved.")
        access = access.renewed()  # what was refused must not stand on the page
    return show_settings(request, access, form)


@repo_page(Level.ADMIN, methods=POST, throttle="repos")
def archive_repo(request: PageRequest, access: RepoAccess) -> HttpResponse:
    """Close a repository to all changes, or open it again."""
    form, archived = PageForm(request), request.POST.get("is_archived") == "true"
    with form.refusals():
        actions.update_repo(by=access, is_archived=archived)
        said = "archived" if archived else "unarchived"
        return saved(request, access.repo.path, f"Repository {said}.")
    return show_settings(request, access, form)


def show_settings(request: PageRequest, access: RepoAccess, form: PageForm) -> HttpResponse:
    """The page of the general settings; `form` is what was sent, or a new one."""
    branches = newest_branches(access.repo, MOST_PROPOSED)
    context = settings_context(access, "general")
    return form.shown(request, "repo_settings", branches=branches, **context)


def settings_context(access: RepoAccess, part: str) -> dict[str, Any]:
    """What the frame of these pages shows; `part`: general or protections."""
    return {**repo_context(access, "settings"), "part": part}


def saved(request: PageRequest, path: str, said: str, below: str = "") -> HttpResponse:
    """303 back to the settings, which then say this."""
    messages.success(request, said)
    return redirect_to_path(f"/{path}/settings{below}")


@repo_page(Level.ADMIN, methods=FORM, throttle="protections", signed_in=True)
def protections(request: PageRequest, access: RepoAccess) -> HttpResponse:
    """The protections, what each of them matches now, and a form for one more."""
    repo = access.repo
    form = NewProtection(request, **defaults())
    if request.method == "POST" and form.is_valid():
        with form.refusals():
            made = actions.create_protection(by=access, **form.cleaned_data)
            return saved(request, repo.path, f"{made.branch} is now protected.", "/protections")
    branches = newest_branches(repo, MOST_BRANCHES)
    page = page_of(request, page_number(request), list_protections(repo), protection_row)
    people = RepoPeople.of(repo, [row["protection"] for row in page["results"]])
    for row in page["results"]:
        row |= {
            "is_satisfiable": is_satisfiable(row["protection"], people),
            **matches(row["protection"], branches),
        }
    context = settings_context(access, "protections")
    return form.shown(
        request,
        "protections",
        page=page,
        newest=MOST_BRANCHES if len(branches) == MOST_BRANCHES else None,
        **context,
    )


def protection_row(protection: Protection) -> dict[str, Any]:
    return {"protection": protection}


def matches(protection: Protection, branches: list[str]) -> dict[str, Any]:
    """Some of the branches that it protects now, and how many there are beside these."""
    found = [name for name in branches if protection.matches(name)]
    return {"matched": found[:MOST_NAMED], "others": max(len(found) - MOST_NAMED, 0)}


@repo_page(Level.ADMIN, methods=FORM, throttle="protections", signed_in=True)
def protection(request: PageRequest, access: RepoAccess, uid: UUID) -> HttpResponse:
    """Protect other branches instead, or ask for more or fewer approvals."""
    row = protection_of(access, uid)
    values = {"branch": row.branch, **settings_of(row)}
    form = EditProtection(request, **values)
    if request.method == "POST" and form.is_valid():
        with form.refusals():
            actions.update_protection(by=access, protection=row, **form.changes())
            return saved(
                request, access.repo.path, f"Protection of {row.branch} saved.", "/protections"
            )
        row.refresh_from_db()  # what was refused must not stand on the page
    return show_protection(request, access, row, form)


def show_protection(
    request: PageRequest, access: RepoAccess, row: Protection, form: PageForm
) -> HttpResponse:
    """The page of a protection. One of its two forms may be as it was sent."""
    values = {"branch": row.branch, **settings_of(row)}
    is_approver = isinstance(form, NewApprover)
    return form.shown(
        request,
        "protection",
        protection=row,
        approvers=list_approvers(row),
        edit_form=EditProtection(request, again=True, **values) if is_approver else form,
        approver_form=form if is_approver else NewApprover(request, again=True),
        **settings_context(access, "protections"),
    )


def protection_of(access: RepoAccess, uid: UUID) -> Protection:
    """The protection of the repository that the address names; 404."""
    found = get_object_or_404(access.repo.protections, uuid=uid)
    found.repo = access.repo
    return found


@repo_page(Level.ADMIN, methods=FORM, throttle="protections", signed_in=True)
def delete_protection(request: PageRequest, access: RepoAccess, uid: UUID) -> HttpResponse:
    """Asks first: without it everybody with write access may push to the branch."""
    found, form = protection_of(access, uid), PageForm(request)
    if request.method == "POST":
        with form.refusals():
            actions.delete_protection(by=access, protection=found)
            said = f"{found.branch} is no longer protected."
            return saved(request, access.repo.path, said, "/protections")
    context = settings_context(access, "protections")
    return form.shown(request, "delete_protection", protection=found, **context)


@repo_page(Level.ADMIN, methods=POST, throttle="protections")
def add_approver(request: PageRequest, access: RepoAccess, uid: UUID) -> HttpResponse:
    """Name somebody whose approval counts."""
    found, form = protection_of(access, uid), NewApprover(request)
    if form.is_valid():
        with form.refusals():
            user = named_user(form.cleaned_data["username"])
            actions.add_approver(by=access, protection=found, user=user)
            below = f"/protections/{found.uuid}"
            return saved(request, access.repo.path, f"{user.username} added as an approver.", below)
    return show_protection(request, access, found, form)


@repo_page(Level.ADMIN, methods=FORM, throttle="protections", signed_in=True)
def remove_approver(
    request: PageRequest, access: RepoAccess, uid: UUID, person: UUID
) -> HttpResponse:
    """Asks first: a list without names lets everybody with write access approve."""
    found, form = protection_of(access, uid), PageForm(request)
    approver: Approver = get_object_or_404(list_approvers(found), user__uuid=person)
    approver.protection = found
    if request.method == "POST":
        with form.refusals():
            actions.remove_approver(by=access, approver=approver)
            said, below = (
                f"{approver.user.username} removed as an approver.",
                f"/protections/{found.uuid}",
            )
            return saved(request, access.repo.path, said, below)
    context = settings_context(access, "protections")
    return form.shown(request, "remove_approver", protection=found, approver=approver, **context)
