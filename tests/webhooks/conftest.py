"""The addresses of webhooks of a repository, a team and the site."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from ipaddress import ip_network
from typing import Any

import pytest
from django.utils import timezone

from apps.webhooks import dispatch, queue
from apps.webhooks.models import Delivery, DeliveryStatus, Webhook

URL = "https://ci.example.org/hook?key=hunter2"


@dataclass(frozen=True)
class Place:
    """A list of webhooks in the API, a person who may change it, and one who may not."""

    path: str
    api: Any
    stranger: Any

    def create(self, **body: Any) -> Any:
        return self.api.post(self.path, **{"url": URL, **body}).gives(201)


@pytest.fixture
def places(api, alice, bob, sam, team_repo):
    """By the kind of owner."""
    return {
        "repo": Place(f"{team_repo.api_path}/webhooks", api(alice), api(bob)),
        "team": Place("/teams/acme/webhooks", api(alice), api(bob)),
        "site": Place("/webhooks", api(sam), api(alice)),
    }


@pytest.fixture(params=["repo", "team", "site"])
def place(request, places):
    """Each of them in turn."""
    return places[request.param]


@pytest.fixture
def of_repo(places):
    return places["repo"]


@pytest.fixture
def make_delivery():
    """Makes a delivery of a webhook in the form that the worker writes."""

    def make(webhook: Webhook, **values: Any) -> Delivery:
        row = {
            "kind": "thread-created",
            "event_id": 7,
            "status": DeliveryStatus.SUCCEEDED,
            "response_status": 200,
            "duration_ms": 12,
            "created_at": timezone.now(),
            "request_headers": {"webhook-id": "evt_7"},
            "request_body": '{"type":"thread-created"}',
            "response_headers": {"content-type": "text/plain"},
            "response_body": "ok",
        }
        return Delivery.objects.create(webhook=webhook, **{**row, **values})

    return make


@pytest.fixture
def on_this_machine(settings):
    """Webhooks may call this machine by http."""
    settings.WEBHOOK_ALLOW_HTTP = True
    settings.WEBHOOK_ALLOWED_NETS = [ip_network("127.0.0.0/8")]


@pytest.fixture
def at_once(monkeypatch, on_this_machine):
    """Waits between attempts are short, and there are more attempts."""
    monkeypatch.setattr(queue, "BACK_OFF", (timedelta(milliseconds=50),) * 1000)
    monkeypatch.setattr(dispatch, "LOOK_SECONDS", 0.05)
    monkeypatch.setattr(dispatch, "GAP_SECONDS", 0.0)
    monkeypatch.setattr(dispatch, "RECOVERING_PAUSE", 0.0)
