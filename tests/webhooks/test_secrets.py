"""The secret of a webhook stands in two answers and nowhere else; its address in no event."""

from __future__ import annotations

import logging
from zipfile import ZipFile

import pytest
from django.core.management import call_command

from apps.webhooks.models import Webhook
from tests.admin.urls import admin_url, row_url
from tests.api import Api
from tests.sample_data import everything
from tests.web.page_client import PageClient

URL = "https://127.0.0.1/hook?key=hunter2"
"""An address to which no webhook may send: each attempt fails at once."""


def use(place):
    """Create, read, change, try and rotate a webhook; its secrets, and the texts of all answers
    that must not have one.
    """
    api, sent = place.api, {"url": URL, "kinds": ["repo-updated"]}
    made = api.post_once("first", place.path, **sent).gives(201)
    assert api.post_once("first", place.path, **sent).gives(201) == made
    one = f"{place.path}/{made['uuid']}"
    rotated = api.put(f"{one}/rotate-secret").gives()
    pinged = api.post(f"{one}/ping").gives(201)
    delivery = f"{one}/deliveries/{pinged['uuid']}"
    answers = [
        api.get(place.path),
        api.get(one),
        api.put(one, description="x", resume="now"),
        api.post(one, secret=made["secret"]),
        api.post(f"{delivery}/redeliver"),
        api.get(f"{one}/deliveries"),
        api.get(delivery),
        place.stranger.get(one),
    ]
    return (made["secret"], rotated["secret"]), [one.response.content.decode() for one in answers]


@pytest.fixture
def used(place):
    return use(place)


def parts(secret):
    return (secret, secret.removeprefix("whsec_"), secret.removeprefix("whsec_").rstrip("="))


def assert_absent(secrets, text):
    for secret in secrets:
        assert not [part for part in parts(secret) if part in text]


def test_the_secret_is_in_no_other_answer_and_in_no_log(place, caplog):
    caplog.set_level(logging.DEBUG)
    secrets, answers = use(place)
    assert len({*secrets}) == 2 and caplog.text
    for text in (*answers, caplog.text):
        assert_absent(secrets, text)


def test_the_secret_is_in_no_other_row(used):
    secrets, _ = used
    rows = everything()
    stored = str(rows.pop("Webhook"))
    assert all(secret in stored for secret in secrets)  # the old one is still valid
    assert rows["KeyedRequest"] and rows["Delivery"]
    assert_absent(secrets, str(rows))
    assert "v1," not in str(rows["Delivery"])


def test_no_event_has_the_secret_or_the_address(used, api, sam):
    secrets, _ = used
    for scope in ("site", "self", "user:alice", "team:acme"):
        text = api(sam).get(f"/events?scope={scope}").response.content.decode()
        assert_absent(secrets, text)
        assert "hunter2" not in text
    assert "webhook-created" in api(sam).get("/events?scope=site").response.content.decode()


def test_no_page_shows_the_secret(used, places, alice, sam):
    secrets, _ = used
    staff, row = PageClient(sam), Webhook.objects.get()
    home = "/site/webhooks"
    if row.repo or row.team:
        home = f"/{row.owner_path}/{'' if row.repo else '~'}settings/webhooks"
    delivery = row.deliveries.earliest("pk")
    below = ("", f"/{row.uuid}", f"/{row.uuid}/rotate", f"/{row.uuid}/deliveries/{delivery.uuid}")
    paths = [f"{home}{end}" for end in below]
    for path in (*paths, admin_url(Webhook), row_url(row)):
        page = staff.get(path).gives()
        assert_absent(secrets, page.html)
        assert "no-store" in page.header("Cache-Control")


def test_no_export_has_webhooks(of_repo, make, alice, tmp_path):
    secrets, _ = use(of_repo)
    archive = tmp_path / "api.zip"
    call_command("export_repo", "teams/acme/api", str(archive))
    with ZipFile(archive) as files:
        texts = [files.read(name).decode(errors="replace") for name in files.namelist()]
    call_command("export_user", "alice", str(tmp_path / "alice.jsonl"))
    texts.append((tmp_path / "alice.jsonl").read_text())
    for text in texts:
        assert_absent(secrets, text)
        assert "hunter2" not in text


def test_a_replay_needs_the_access_of_the_first_request(of_repo, make, alice, acme):
    sent = {"url": URL}
    of_repo.api.post_once("key", of_repo.path, **sent).gives(201)
    acme.members.filter(user=alice).delete()
    Api(make.token(alice)).post_once("key", of_repo.path, **sent).fails(403, "forbidden")
