"""The resources `…/webhooks` and `…/webhooks/{uuid}/deliveries`.

They exist below repositories, below teams, and for the site.
"""

from __future__ import annotations

from dataclasses import replace
from functools import wraps
from typing import Any, cast

from django.http.response import HttpResponseBase
from rest_framework.decorators import action
from rest_framework.response import Response

from apps.accounts.principal import Principal
from apps.core.access import Level
from apps.core.filters import StrictFilterSet, TextFilter, WordFilter
from apps.core.lookup import get_or_missing
from apps.core.operation import operation
from apps.core.views import ApiViewSet
from apps.repos.access import RepoScoped
from apps.teams.access import TeamScoped
from apps.webhooks import actions, queries
from apps.webhooks.access import SiteAccess, access_to_site
from apps.webhooks.models import Delivery, DeliveryStatus, Webhook
from apps.webhooks.serializers import (
    CreateWebhook,
    DeliveryRecord,
    FullDeliveryRecord,
    NewWebhookRecord,
    RotateSecret,
    UpdateWebhook,
    WebhookRecord,
    delivery_record,
    full_delivery_record,
    webhook_record,
)


class WebhookScoped(ApiViewSet):
    """A resource of webhooks; subclasses open the repository, the team or the site."""

    schema_tags = ["webhooks"]
    access: Any
    """A `WebhookAccess`, which the class that opens it declares."""
    webhook: Webhook

    def load_objects(self) -> None:
        if "webhook_uuid" in self.kwargs:
            self.webhook = self.get_webhook(self.kwargs["webhook_uuid"])

    def get_webhook(self, uuid: object) -> Webhook:
        rows = queries.list_webhooks(self.access)
        webhook: Webhook = get_or_missing(rows, "webhook", uuid=uuid)
        return webhook


class WebhookViewSet(WebhookScoped):
    """…/webhooks"""

    lookup_url_kwarg = "webhook_uuid"
    lookup_value_converter = "uid"

    @operation(Level.ADMIN, response=WebhookRecord)
    def list(self) -> Response:
        """List the webhooks, newest first."""
        return self.page_of(queries.list_webhooks(self.access), webhook_record)

    @operation(
        Level.ADMIN,
        request=CreateWebhook,
        response=NewWebhookRecord,
        status=201,
        errors=("invalid_url", "webhook_limit"),
    )
    def create(self) -> dict[str, Any]:
        """Add a webhook, which sends the events that happen from now on.

        This answer contains the `secret` with which its requests are signed.
        """
        webhook = actions.create_webhook(access=self.access, **self.validated_data)
        return {**self.record(webhook), "secret": webhook.secret}

    @operation(Level.ADMIN, response=WebhookRecord)
    def retrieve(self) -> dict[str, Any]:
        """Read a webhook."""
        return webhook_record(self.webhook)

    @operation(Level.ADMIN, request=UpdateWebhook, response=WebhookRecord, errors=("invalid_url",))
    def update(self) -> dict[str, Any]:
        """Change a webhook.

        `is_active: true` goes on with the first event that waits. With `resume: "now"` the events
        that wait are dropped.
        """
        actions.update_webhook(access=self.access, webhook=self.webhook, **self.validated_data)
        return self.record(self.webhook)

    @operation(Level.ADMIN, status=204)
    def destroy(self) -> None:
        """Delete a webhook and its deliveries."""
        actions.delete_webhook(access=self.access, webhook=self.webhook)

    @action(detail=True, url_path="rotate-secret", methods=["put"])
    @operation(Level.ADMIN, request=RotateSecret, response=NewWebhookRecord)
    def rotate_secret(self) -> dict[str, Any]:
        """Give a webhook a new secret, which only this answer contains.

        For `keep_old_hours`, 24 by default, requests are signed with both secrets.
        """
        actions.rotate_secret(access=self.access, webhook=self.webhook, **self.validated_data)
        return {**self.record(self.webhook), "secret": self.webhook.secret}

    @action(detail=True, methods=["post"])
    @operation(Level.ADMIN, response=DeliveryRecord, status=201)
    def ping(self) -> dict[str, Any]:
        """Send a request of the kind `ping` at once, and answer with its delivery.

        It is one attempt of at most 15 seconds, also for a webhook that is not active.
        """
        return delivery_record(actions.ping_webhook(access=self.access, webhook=self.webhook))

    def record(self, webhook: Webhook) -> dict[str, Any]:
        return webhook_record(self.get_webhook(webhook.uuid))


class DeliveryFilterSet(StrictFilterSet):
    status = WordFilter(DeliveryStatus, help_text="Only deliveries with this status.")
    event_id = TextFilter("Only deliveries of this event.", method="of_event")

    def of_event(self, rows: Any, _name: str, value: str) -> Any:
        """An id that is no number matches nothing."""
        is_number = value.isascii() and value.isdigit() and len(value) < 19
        return rows.filter(event_id=int(value)) if is_number else rows.none()


class DeliveryViewSet(WebhookScoped):
    """…/webhooks/{webhook_uuid}/deliveries"""

    queryset = Delivery.objects.all()
    filterset_class = DeliveryFilterSet
    lookup_url_kwarg = "delivery_uuid"
    lookup_value_converter = "uid"
    delivery: Delivery

    def load_objects(self) -> None:
        super().load_objects()
        if "delivery_uuid" in self.kwargs:
            rows = queries.list_deliveries(self.webhook)
            uuid = self.kwargs["delivery_uuid"]
            self.delivery = get_or_missing(rows, "delivery", uuid=uuid)

    @operation(Level.ADMIN, response=DeliveryRecord)
    def list(self) -> Response:
        """List the attempts of a webhook, newest first.

        Those of the last 30 days are kept, at most 1,000.
        """
        rows = queries.list_deliveries(self.webhook).defer(*queries.CONTENTS)
        return self.page_of(rows, delivery_record)

    @operation(Level.ADMIN, response=FullDeliveryRecord)
    def retrieve(self) -> dict[str, Any]:
        """Read an attempt with its request and its response.

        The headers of the request lack the signature. `response_body` has the first 4 KiB.
        """
        return full_delivery_record(self.delivery)

    @action(detail=True, methods=["post"])
    @operation(Level.ADMIN, response=DeliveryRecord, status=201)
    def redeliver(self) -> dict[str, Any]:
        """Send the request of a delivery again at once, and answer with the new delivery.

        It has the same `webhook-id` and a new timestamp. It is one attempt of at most 15 seconds,
        and changes neither the state of the webhook nor the events that wait.
        """
        return delivery_record(
            actions.redeliver(access=self.access, webhook=self.webhook, sent=self.delivery)
        )


class WebhookOfRepoViewSet(RepoScoped, WebhookViewSet):
    """/{owner}/repos/{repo_slug}/webhooks"""


class DeliveryOfRepoViewSet(RepoScoped, DeliveryViewSet):
    """/{owner}/repos/{repo_slug}/webhooks/{webhook_uuid}/deliveries"""


class WebhookOfTeamViewSet(TeamScoped, WebhookViewSet):
    """/teams/{team_slug}/webhooks"""


class DeliveryOfTeamViewSet(TeamScoped, DeliveryViewSet):
    """/teams/{team_slug}/webhooks/{webhook_uuid}/deliveries"""


class SiteScoped(ApiViewSet):
    """A resource of the site, for staff."""

    principal: Principal

    def open(self) -> SiteAccess:
        return access_to_site(self.principal)


def for_staff(handler: Any) -> Any:
    """The same operation, for staff."""

    @wraps(handler)
    def run(view: Any, *args: Any, **kwargs: Any) -> HttpResponseBase:
        return cast("HttpResponseBase", handler(view, *args, **kwargs))

    cast("Any", run).operation = replace(handler.operation, level=Level.STAFF)
    return run


class WebhookOfSiteViewSet(SiteScoped, WebhookViewSet):
    """/webhooks"""

    list = for_staff(WebhookViewSet.list)
    create = for_staff(WebhookViewSet.create)
    retrieve = for_staff(WebhookViewSet.retrieve)
    update = for_staff(WebhookViewSet.update)
    destroy = for_staff(WebhookViewSet.destroy)
    rotate_secret = for_staff(WebhookViewSet.rotate_secret)
    ping = for_staff(WebhookViewSet.ping)


class DeliveryOfSiteViewSet(SiteScoped, DeliveryViewSet):
    """/webhooks/{webhook_uuid}/deliveries"""

    list = for_staff(DeliveryViewSet.list)
    retrieve = for_staff(DeliveryViewSet.retrieve)
    redeliver = for_staff(DeliveryViewSet.redeliver)
