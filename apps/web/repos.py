"""`/{owner}/{repo}`, `/new/repo`, `…/forks` and `…/settings`, with the protected branches."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from django.http import HttpResponse, HttpResponseRedirect
from django.shortcuts import get_object_or_404

from apps.accounts.rules import named_user
from apps.browse.trees import read_entry
from apps.core.access import Level
from apps.core.errors import NotFound
from apps.core.pagination import count_text
from apps.core.views import base_url
from apps.repos import actions
from apps.repos.access import RepoAccess, open_space
from apps.repos.models import Approver, Fork, Protection, Repo, Visibility
from apps.repos.protection_rules import defaults, settings_of
from apps.repos.queries import list_approvers, list_forks, list_protections, newest_branches
from apps.repos.rules import Collaborators, is_satisfiable
from apps.ssh.addresses import clone_address as clone_address_over_ssh
from apps.web.code import find_location, folder_context, ref_menu
from apps.web.decorators import FORM, POST, page, repo_page
from apps.web.forms import (
    ConfirmDeletion,
    EditProtection,
    NewApprover,
    NewFork,
    NewProtection,
    NewRepo,
    PageForm,
    RepoSettings,
)
from apps.web.frame import render_repo_page, repo_context
from apps.web.responses import (
    PageRequest,
    deleted_message,
    page_of,
    parameter,
    redirect_to,
)

MOST_PROTECTIONS = 20
"""Protections in the sidebar of a repository."""
MOST_BRANCHES = 1000
"""The newest branches, which the list of protections compares with their patterns."""
MOST_PROPOSED = 100
"""Branches in the suggestions of a form."""
MOST_MATCHED = 5
"""Matching branches that the list names for each protection."""


@repo_page()
def repo(request: PageRequest, access: RepoAccess) -> HttpResponse:
    """A repository: description, clone command, protections, files and README."""
    repo = access.repo
    fork = Fork.objects.with_paths().filter(repo=repo).first()
    paths = Repo.objects.paths_known_to(access.principal, [fork.upstream_id] if fork else [])
    return render_repo_page(
        request,
        access,
        "repo",
        tab="code",
        clone=f"{base_url(request)}/{repo.path}.git",
        clone_ssh=clone_address_over_ssh(repo.path),
        protections=list_protections(repo)[:MOST_PROTECTIONS],
        upstream=paths.get(fork.upstream_id) if fork and fork.upstream_id else None,
        level=access.level.name.lower(),
        **code_context(request, access),
    )


def code_context(request: PageRequest, access: RepoAccess) -> dict[str, Any]:
    """The files of the default branch, which may not exist even if other branches do."""
    repo = access.repo
    if repo.is_empty:
        return {}
    context = {
        "menu": ref_menu(repo, repo.default_branch),
        "files_action": f"/{repo.path}/files",
        "branch_count": count_text(repo.refs.branches()),
    }
    try:
        location = find_location(request, access)
    except NotFound:
        return context
    root = read_entry(repo, location.commit, b"")
    folder = folder_context(request, access, location, root)
    return {**context, "location": location, "folder": folder}


@page(Level.PUBLIC)
def clone_address(request: PageRequest, **names: Any) -> HttpResponse:
    """302 from the clone URL to the page, for people who paste it into a browser."""
    return HttpResponseRedirect(request.path.removesuffix(".git"))


@page(Level.NONE, methods=FORM, throttle="repos")
def new_repo(request: PageRequest) -> HttpResponse:
    """Create a repository; `?owner=teams/acme` preselects its owner."""
    owner = parameter(request, "owner")
    if owner and request.method != "POST":  # for a POST, the form shows the refusal
        owner = open_space(request.principal, owner).owner.path
    form = NewRepo(request, preselected=owner, visibility=Visibility.PRIVATE)
    if form.is_valid():
        with form.refusals():
            values = dict(form.cleaned_data)
            space = open_space(request.principal, values.pop("owner"))
            repo = actions.create_repo(access=space, **values)
            return redirect_to(f"/{repo.path}")
    return form.render_page(request, "new_repo")


@repo_page(methods=FORM, throttle="forks", signed_in=False)
def forks(request: PageRequest, access: RepoAccess) -> HttpResponse:
    """The forks that the caller may read, newest first, with a form that starts a fork."""
    repo, principal = access.repo, access.principal
    page = page_of(request, list_forks(principal, repo))
    paths = Repo.objects.paths_known_to(principal, [fork.repo_id for fork in page["results"]])
    page["results"] = [{"fork": fork, "path": paths.get(fork.repo_id)} for fork in page["results"]]
    if not principal.is_signed_in:
        return render_repo_page(request, access, "forks", tab="code", page=page)
    form = NewFork(request, preselected=parameter(request, "owner"))
    if form.is_valid():
        with form.refusals():
            space = open_space(principal, form.cleaned_data["owner"])
            fork = actions.create_fork(access=access, into=space)
            message = f"Forking into {space.name} has started."
            return redirect_to(f"/{repo.path}/forks#fork-{fork.uuid}", request, message)
    return form.render_page(request, "forks", page=page, **repo_context(access, "code"))


@repo_page(Level.ADMIN, methods=FORM, throttle="repos")
def repo_settings(request: PageRequest, access: RepoAccess) -> HttpResponse:
    """The general settings: name, slug, description, visibility and default branch."""
    repo = access.repo
    names = ("name", "slug", "description", "visibility", "default_branch")
    form = RepoSettings(request, **{name: getattr(repo, name) for name in names})
    if form.is_valid():
        with form.refusals():
            actions.update_repo(access=access, **form.changes())
            return redirect_to_settings(request, access, "Repository saved.")
        access = access.renewed()  # the header must not show refused values
    return show_settings(request, access, form)


@repo_page(Level.ADMIN, methods=POST, throttle="repos")
def archive_repo(request: PageRequest, access: RepoAccess) -> HttpResponse:
    """Archive or unarchive a repository."""
    form, archived = PageForm(request), request.POST.get("is_archived") == "true"
    with form.refusals():
        actions.update_repo(access=access, is_archived=archived)
        message = "archived" if archived else "unarchived"
        return redirect_to_settings(request, access, f"Repository {message}.")
    return show_settings(request, access, form)


@repo_page(Level.ADMIN, methods=FORM, throttle="repos")
def delete_repo(request: PageRequest, access: RepoAccess) -> HttpResponse:
    """Delete a repository. A GET asks for its name."""
    form = ConfirmDeletion(request, name=access.repo.full_name)
    if form.is_valid():
        with form.refusals():
            deletion = actions.delete_repo(access=access, **form.cleaned_data)
            return redirect_to(f"/{access.repo.owner.path}", request, deleted_message(deletion))
    return form.render_page(request, "delete_repo", **settings_context(access, "general"))


def show_settings(request: PageRequest, access: RepoAccess, form: PageForm) -> HttpResponse:
    """The page of the general settings; `form` is a new or a submitted one."""
    branches = newest_branches(access.repo, MOST_PROPOSED)
    context = settings_context(access, "general")
    return form.render_page(request, "repo_settings", branches=branches, **context)


def settings_context(access: RepoAccess, part: str) -> dict[str, Any]:
    """The context of the header of settings; `part`: general or protections."""
    return {**repo_context(access, "settings"), "part": part}


def redirect_to_settings(
    request: PageRequest, access: RepoAccess, message: str, below: str = ""
) -> HttpResponse:
    return redirect_to(f"/{access.repo.path}/settings{below}", request, message)


@repo_page(Level.ADMIN, methods=FORM, throttle="protections")
def protections(request: PageRequest, access: RepoAccess) -> HttpResponse:
    """The protections, the branches that each matches now, and a form to add one."""
    repo = access.repo
    form = NewProtection(request, **defaults())
    if form.is_valid():
        with form.refusals():
            protection = actions.create_protection(access=access, **form.cleaned_data)
            message = f"{protection.branch} is now protected."
            return redirect_to_settings(request, access, message, "/protections")
    branches = newest_branches(repo, MOST_BRANCHES)
    page = page_of(request, list_protections(repo))
    collaborators = Collaborators.of(repo, page["results"])
    page["results"] = [
        {
            "protection": protection,
            "is_satisfiable": is_satisfiable(protection, collaborators),
            **matching_branches(protection, branches),
        }
        for protection in page["results"]
    ]
    newest = MOST_BRANCHES if len(branches) == MOST_BRANCHES else None
    context = settings_context(access, "protections")
    return form.render_page(request, "protections", page=page, newest=newest, **context)


def matching_branches(protection: Protection, branches: list[str]) -> dict[str, Any]:
    """The first branches that the protection matches, and the number of the others."""
    names = [name for name in branches if protection.matches(name)]
    return {"matched": names[:MOST_MATCHED], "others": max(len(names) - MOST_MATCHED, 0)}


@repo_page(Level.ADMIN, methods=FORM, throttle="protections")
def protection(request: PageRequest, access: RepoAccess, uid: UUID) -> HttpResponse:
    """Change a protection: its pattern and its settings."""
    row = get_protection(access, uid)
    form = EditProtection(request, branch=row.branch, **settings_of(row))
    if form.is_valid():
        with form.refusals():
            actions.update_protection(access=access, protection=row, **form.changes())
            message = f"Protection of {row.branch} saved."
            return redirect_to_settings(request, access, message, "/protections")
        row.refresh_from_db()  # the header must not show refused values
    return show_protection(request, access, row, form)


def show_protection(
    request: PageRequest, access: RepoAccess, row: Protection, form: PageForm
) -> HttpResponse:
    """The page of a protection; `form` is one of its two forms, new or submitted."""
    values = {"branch": row.branch, **settings_of(row)}
    is_approver = isinstance(form, NewApprover)
    return form.render_page(
        request,
        "protection",
        protection=row,
        approvers=list_approvers(row),
        edit_form=EditProtection(request, unbound=True, **values) if is_approver else form,
        approver_form=form if is_approver else NewApprover(request, unbound=True),
        **settings_context(access, "protections"),
    )


def get_protection(access: RepoAccess, uid: UUID) -> Protection:
    protection = get_object_or_404(access.repo.protections, uuid=uid)
    protection.repo = access.repo
    return protection


@repo_page(Level.ADMIN, methods=FORM, throttle="protections")
def delete_protection(request: PageRequest, access: RepoAccess, uid: UUID) -> HttpResponse:
    """Delete a protection. A GET asks for confirmation."""
    protection, form = get_protection(access, uid), PageForm(request)
    if request.method == "POST":
        with form.refusals():
            actions.delete_protection(access=access, protection=protection)
            message = f"{protection.branch} is no longer protected."
            return redirect_to_settings(request, access, message, "/protections")
    context = settings_context(access, "protections")
    return form.render_page(request, "delete_protection", protection=protection, **context)


@repo_page(Level.ADMIN, methods=POST, throttle="protections")
def add_approver(request: PageRequest, access: RepoAccess, uid: UUID) -> HttpResponse:
    """Add an approver to a protection."""
    protection, form = get_protection(access, uid), NewApprover(request)
    if form.is_valid():
        with form.refusals():
            user = named_user(form.cleaned_data["username"])
            actions.add_approver(access=access, protection=protection, user=user)
            message = f"{user.username} added as an approver."
            return redirect_to_settings(request, access, message, f"/protections/{protection.uuid}")
    return show_protection(request, access, protection, form)


@repo_page(Level.ADMIN, methods=FORM, throttle="protections")
def remove_approver(
    request: PageRequest, access: RepoAccess, uid: UUID, person: UUID
) -> HttpResponse:
    """Remove an approver. A GET asks for confirmation: with none left, every writer can approve."""
    protection, form = get_protection(access, uid), PageForm(request)
    approver: Approver = get_object_or_404(list_approvers(protection), user__uuid=person)
    approver.protection = protection
    if request.method == "POST":
        with form.refusals():
            actions.remove_approver(access=access, approver=approver)
            message = f"{approver.user.username} removed as an approver."
            return redirect_to_settings(request, access, message, f"/protections/{protection.uuid}")
    context = {"protection": protection, "approver": approver}
    return form.render_page(
        request, "remove_approver", **context, **settings_context(access, "protections")
    )
