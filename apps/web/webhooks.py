"""The pages of webhooks, below repositories and teams, and for the site."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple
from uuid import UUID

from django import forms
from django.http import Http404, HttpResponse
from django.shortcuts import get_object_or_404

from apps.core.access import Level
from apps.core.serializers import RequestSerializer
from apps.events.kinds import Kind
from apps.repos.access import RepoAccess
from apps.repos.protection_rules import NamesFormField
from apps.teams.access import TeamAccess
from apps.web.decorators import FORM, POST, READ, View, page, repo_page, team_page
from apps.web.forms import PLAIN, EditForm, PageForm, text_field
from apps.web.frame import repo_context, team_context
from apps.web.responses import (
    PageRequest,
    keep_secret,
    page_number,
    page_of,
    redirect_to,
    render_page,
)
from apps.webhooks import actions, queries
from apps.webhooks.access import WebhookAccess, access_to_site, access_to_webhook
from apps.webhooks.models import Delivery, Resume, Webhook
from apps.webhooks.rules import outcome, reason_text
from apps.webhooks.serializers import KEEP_OLD_HOURS_MAX, CreateWebhook, UpdateWebhook
from apps.webhooks.serializers import RotateSecret as RotateSecretRequest


class NewWebhook(PageForm):
    request_serializer: type[RequestSerializer] = CreateWebhook
    all_kinds = [str(kind) for kind in Kind]

    url = text_field("Address", help_text="It begins with https://.", inputmode="url", **PLAIN)
    description = text_field("Description", required=False, autocomplete="off")
    kinds = NamesFormField(
        label="Kinds of events", help_text="One in each line. Without any, all kinds are sent."
    )

    def clean_kinds(self) -> list[str]:
        kinds: list[str] = self.cleaned_data["kinds"]
        if unknown := [kind for kind in kinds if kind not in self.all_kinds]:
            text = ", ".join(unknown)
            raise forms.ValidationError(f"There are no such kinds: {text}.")
        return kinds


class EditWebhook(EditForm, NewWebhook):
    request_serializer = UpdateWebhook


class RotateSecret(PageForm):
    request_serializer = RotateSecretRequest

    keep_old_hours = forms.IntegerField(
        label="Hours for which the old secret stays valid",
        min_value=0,
        max_value=KEEP_OLD_HOURS_MAX,
        initial=actions.KEEP_OLD_HOURS,
        help_text="Until then each request has a signature by either secret. With 0 it ends now.",
    )


class Pages(NamedTuple):
    """A page, declared for each kind of owner."""

    of_repo: View
    of_team: View
    of_site: View


def webhook_page(methods: tuple[str, ...]) -> Callable[[View], Pages]:
    """Declare a page for admins of repositories and of teams, and for staff."""

    def declare(view: View) -> Pages:
        @page(Level.STAFF, methods=methods, throttle="webhooks")
        def of_site(request: PageRequest, **kwargs: Any) -> Any:
            return view(request, access_to_site(request.principal), **kwargs)

        return Pages(
            repo_page(Level.ADMIN, signed_in=True, methods=methods, throttle="webhooks")(view),
            team_page(Level.ADMIN, methods=methods, throttle="webhooks")(view),
            of_site,
        )

    return declare


def home_of(access: WebhookAccess) -> str:
    """The path of the list of webhooks."""
    if isinstance(access, RepoAccess):
        return f"/{access.name}/settings/webhooks"
    return (
        f"/{access.name}/~settings/webhooks" if isinstance(access, TeamAccess) else "/site/webhooks"
    )


def context_of(access: WebhookAccess) -> dict[str, Any]:
    """The context of the header of the owner, and `home`."""
    context: dict[str, Any] = {"home": home_of(access), "may_change": True}
    if isinstance(access, RepoAccess):
        context |= repo_context(access, "settings") | {"part": "webhooks"}
        context["may_change"] = access.is_writable
    elif isinstance(access, TeamAccess):
        context |= team_context(access, "webhooks")
        context["may_change"] = access.team.is_active
    return context


def get_webhook(access: WebhookAccess, uid: UUID) -> Webhook:
    webhook: Webhook = get_object_or_404(queries.list_webhooks(access), uuid=uid)
    return webhook


def row_of(webhook: Webhook) -> dict[str, Any]:
    return {"webhook": webhook, "state": str(webhook.state), "reason": reason_text(webhook)}


@webhook_page(FORM)
def webhooks(request: PageRequest, access: WebhookAccess) -> HttpResponse:
    """The webhooks, and a form to add one. The response to the POST shows the new secret."""
    context, number = context_of(access), page_number(request)
    form, made = NewWebhook(request), None
    if form.is_valid():
        with form.refusals():
            made = actions.create_webhook(access=access, **form.cleaned_data)
    answer = render_page(
        request,
        "webhooks",
        status=201 if made else form.status_code,
        form=NewWebhook(request, unbound=True) if made else form,
        made=made,
        all_kinds=NewWebhook.all_kinds,
        page=page_of(request, queries.list_webhooks(access), row_of, number=number),
        **context,
    )
    return keep_secret(answer)


@webhook_page(FORM)
def webhook(request: PageRequest, access: WebhookAccess, uid: UUID) -> HttpResponse:
    """A webhook: its state, a form to change it, and its deliveries."""
    row = get_webhook(access, uid)
    names = ("url", "description", "kinds")
    form = EditWebhook(request, **{name: getattr(row, name) for name in names})
    if form.is_valid():
        with form.refusals():
            actions.update_webhook(access=access, webhook=row, **form.changes())
            return redirect_to(f"{home_of(access)}/{uid}", request, "Webhook saved.")
        row = get_webhook(access, uid)  # the rest of the page must not show refused values
    number = page_number(request)
    deliveries = queries.list_deliveries(row).defer(*queries.CONTENTS)
    context = context_of(access) | row_of(row)
    context |= {
        "all_kinds": NewWebhook.all_kinds,
        "page": page_of(request, deliveries, delivery_row, number=number),
    }
    return keep_secret(form.render_page(request, "webhook", **context))


def delivery_row(delivery: Delivery) -> dict[str, Any]:
    return {"delivery": delivery, "outcome": outcome(delivery)}


@webhook_page(POST)
def set_state(request: PageRequest, access: WebhookAccess, uid: UUID) -> HttpResponse:
    """Switch a webhook off, or let it go on with the events that wait (`next`) or without them."""
    row, chosen = get_webhook(access, uid), request.POST.get("state", "")
    if chosen in {*Resume}:
        actions.update_webhook(access=access, webhook=row, is_active=True, resume=chosen)
        message = "The webhook is active."
    else:
        actions.update_webhook(access=access, webhook=row, is_active=False)
        message = "The webhook is switched off."
    return redirect_to(f"{home_of(access)}/{uid}", request, message)


@webhook_page(FORM)
def rotate_secret(request: PageRequest, access: WebhookAccess, uid: UUID) -> HttpResponse:
    """Give a webhook a new secret, which the response to the POST shows."""
    row, form, secret = get_webhook(access, uid), RotateSecret(request), ""
    if form.is_valid():
        with form.refusals():
            actions.rotate_secret(access=access, webhook=row, **form.cleaned_data)
            secret = row.secret
    context = context_of(access) | row_of(row)
    return keep_secret(form.render_page(request, "rotate_secret", secret=secret, **context))


@webhook_page(FORM)
def delete_webhook(request: PageRequest, access: WebhookAccess, uid: UUID) -> HttpResponse:
    """Delete a webhook with its deliveries. A GET asks for confirmation."""
    row, form = get_webhook(access, uid), PageForm(request)
    if request.method == "POST":
        with form.refusals():
            actions.delete_webhook(access=access, webhook=row)
            return redirect_to(home_of(access), request, "Webhook deleted.")
    return form.render_page(request, "delete_webhook", **context_of(access), **row_of(row))


@webhook_page(POST)
def ping(request: PageRequest, access: WebhookAccess, uid: UUID) -> HttpResponse:
    """Send a ping, and show its delivery."""
    delivery = actions.ping_webhook(access=access, webhook=get_webhook(access, uid))
    return show_new(request, access, uid, delivery)


def show_new(
    request: PageRequest, access: WebhookAccess, uid: UUID, delivery: Delivery
) -> HttpResponse:
    path = f"{home_of(access)}/{uid}/deliveries/{delivery.uuid}"
    return redirect_to(path, request, f"Sent: {outcome(delivery)}.")


def get_delivery(access: WebhookAccess, uid: UUID, delivery: UUID) -> Delivery:
    webhook = get_webhook(access, uid)
    row: Delivery = get_object_or_404(queries.list_deliveries(webhook), uuid=delivery)
    row.webhook = webhook
    return row


@webhook_page(READ)
def delivery(
    request: PageRequest, access: WebhookAccess, uid: UUID, delivery: UUID
) -> HttpResponse:
    """A delivery with its request and its response."""
    row = get_delivery(access, uid, delivery)
    context = context_of(access) | row_of(row.webhook) | delivery_row(row)
    return keep_secret(render_page(request, "delivery", **context))


@webhook_page(POST)
def redeliver(
    request: PageRequest, access: WebhookAccess, uid: UUID, delivery: UUID
) -> HttpResponse:
    """Send a delivery again, and show the new one."""
    row = get_delivery(access, uid, delivery)
    sent = actions.redeliver(access=access, webhook=row.webhook, sent=row)
    return show_new(request, access, uid, sent)


@page(Level.NONE)
def find_webhook(request: PageRequest, uid: UUID) -> HttpResponse:
    """Redirect to the page of a webhook. Events and pings have this address, which never changes.

    404 for people who may not read it.
    """
    rows = Webhook.objects.select_related("repo__owner_team", "repo__owner_user", "team")
    webhook = get_object_or_404(rows, uuid=uid)
    access = access_to_webhook(request.principal, webhook)
    if access.level < Level.ADMIN:
        raise Http404
    return redirect_to(f"{home_of(access)}/{uid}")
