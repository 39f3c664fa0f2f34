"""The pages of SSH keys: one's own, and the deploy keys of a repository."""

from __future__ import annotations

from uuid import UUID

from django import forms
from django.http import HttpResponse
from django.shortcuts import get_object_or_404

from apps.core.access import Level
from apps.core.serializers import RequestSerializer
from apps.repos.access import RepoAccess
from apps.ssh import actions, queries
from apps.ssh.models import KEY_MAX
from apps.ssh.serializers import CreateDeployKey, CreateSshKey
from apps.web.decorators import FORM, page, repo_page
from apps.web.forms import PageForm, text_field
from apps.web.frame import repo_context
from apps.web.responses import PageRequest, page_of, redirect_to, render_page


class NewKey(PageForm):
    request_serializer: type[RequestSerializer] = CreateSshKey

    title = text_field(
        "Title",
        required=False,
        help_text="The machine that has the key. Without one, the comment of the key.",
        autocomplete="off",
    )
    key = forms.CharField(
        label="Public key",
        max_length=KEY_MAX,
        widget=forms.Textarea(attrs={"rows": "4", "spellcheck": "false", "class": "mono"}),
        help_text="The line in a file such as ~/.ssh/id_ed25519.pub. "
        "To make one: ssh-keygen -t ed25519",
    )


class NewDeployKey(NewKey):
    request_serializer = CreateDeployKey

    can_write = forms.BooleanField(
        label="Allow pushes",
        required=False,
        help_text="Without it, the key only clones and fetches.",
    )


@page(Level.NONE, methods=FORM, throttle="users")
def keys(request: PageRequest) -> HttpResponse:
    """The person's SSH keys."""
    form = NewKey(request)
    if form.is_valid():
        with form.refusals():
            row = actions.create_key(principal=request.principal, **form.cleaned_data)
            return redirect_to("keys", request, f"Key {row.title} added.")
    return form.render_page(request, "keys", page=page_of(request, queries.list_keys(request.user)))


@page(Level.NONE, methods=FORM, throttle="users")
def delete_key(request: PageRequest, uid: UUID) -> HttpResponse:
    """Delete a key. A GET asks for confirmation."""
    row = get_object_or_404(queries.list_keys(request.user), uuid=uid)
    if request.method == "POST":
        actions.delete_key(principal=request.principal, ssh_key=row)
        return redirect_to("keys", request, f"Key {row.title} deleted.")
    return render_page(request, "delete_key", key=row)


@repo_page(Level.ADMIN, signed_in=True, methods=FORM, throttle="repos")
def deploy_keys(request: PageRequest, access: RepoAccess) -> HttpResponse:
    """The deploy keys of a repository."""
    form = NewDeployKey(request)
    if form.is_valid():
        with form.refusals():
            row = actions.create_deploy_key(access=access, **form.cleaned_data)
            return redirect_to(home_of(access), request, f"Key {row.title} added.")
    context = repo_context(access, "settings")
    page = page_of(request, queries.list_deploy_keys(access.repo))
    return form.render_page(
        request, "deploy_keys", part="keys", page=page, may_change=access.is_writable, **context
    )


@repo_page(Level.ADMIN, signed_in=True, methods=FORM, throttle="repos")
def delete_deploy_key(request: PageRequest, access: RepoAccess, uid: UUID) -> HttpResponse:
    """Delete a deploy key. A GET asks for confirmation."""
    row, form = (
        get_object_or_404(queries.list_deploy_keys(access.repo), uuid=uid),
        PageForm(request),
    )
    if request.method == "POST":
        with form.refusals():
            actions.delete_deploy_key(access=access, ssh_key=row)
            return redirect_to(home_of(access), request, f"Key {row.title} deleted.")
    context = repo_context(access, "settings")
    return form.render_page(request, "delete_deploy_key", key=row, **context)


def home_of(access: RepoAccess) -> str:
    """The path of the list of deploy keys."""
    return f"/{access.repo.path}/settings/keys"
