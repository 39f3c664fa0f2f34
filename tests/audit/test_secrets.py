"""No entry of the audit log contains a secret or an e-mail address."""

from __future__ import annotations

from typing import Any

import pytest
from django.contrib.sessions.models import Session
from django.core import mail

from apps.accounts.models import Invite, User
from apps.accounts.proofs import address_proof, reset_proof
from apps.core import json
from apps.events.audit import AuditEntry
from apps.teams.models import Team
from tests.web.page_client import PageClient

pytestmark = pytest.mark.once
FIRST, SECOND, THIRD = "horse-FIRST-battery", "horse-SECOND-battery", "horse-THIRD-battery"
MAIL = "marked-address@example.org"


def use_tokens(api: Any, owner: User) -> list[str]:
    """Create, use and rotate tokens, of a person and of a bot; return their texts."""
    client = api(owner)
    made = client.post("/api-tokens", name="laptop").gives(201)
    rotated = client.put(f"/api-tokens/{made['uuid']}/rotate", keep_old="1h").gives()
    client.put(f"/api-tokens/{made['uuid']}/revoke").gives()
    client.post("/teams/acme/bots", username="ci", role="member").gives(201)
    bot = client.post("/teams/acme/bots/ci/api-tokens", name="ci").gives(201)
    own = client.headers["Authorization"].removeprefix("Bearer ")
    return [made["token"], rotated["token"], bot["token"], own]


def use_webhooks(api: Any, owner: User) -> list[str]:
    """Create, change and delete a webhook; return its secrets."""
    client, address = api(owner), "https://ci.example.org/URL-MARK"
    made = client.post("/teams/acme/webhooks", url=address).gives(201)
    path = f"/teams/acme/webhooks/{made['uuid']}"
    changed = client.put(f"{path}/rotate-secret").gives()
    client.patch(path, url=f"{address}-2").gives()
    client.delete(path).gives(204)
    return [made["secret"], changed["secret"], "URL-MARK"]


def join_by_invite(staff: PageClient) -> tuple[PageClient, list[str]]:
    """Invite somebody, who signs up; return their browser, and the link and the keys."""
    staff.post("/settings/invites", email=MAIL, expires_at="7 days").gives(303)
    invite = Invite.objects.get()
    guest = PageClient()
    fields: Any = {"username": "guest", "email": MAIL, "password": FIRST, "again": FIRST}
    guest.post(f"/signup?invite={invite.uuid}", **fields).redirects_to("/")
    return guest, [str(invite.uuid), MAIL, FIRST, str(guest.client.cookies["sessionid"].value)]


def change_passwords(guest: PageClient) -> list[str]:
    """Confirm an address, change the password, ask for a link, and use it; return the secrets."""
    proof = address_proof(User.objects.get(username="guest"), MAIL)
    guest.post(f"/settings/email?token={proof}").gives(303)
    fields: Any = {"current": FIRST, "password": SECOND, "again": SECOND}
    guest.post("/settings/password", **fields).gives(303)
    guest.post("/reset", email=MAIL).gives(303)
    link = reset_proof(User.objects.get(username="guest"))
    guest.post(f"/reset/new?token={link}", password=THIRD, again=THIRD).gives(303)
    nobody = PageClient()
    nobody.sign_in(THIRD, THIRD).gives(422)  # the password in the wrong field
    nobody.sign_in("guest", SECOND).gives(422)
    nobody.sign_in("guest", THIRD).redirects_to("/")
    return [proof, link, SECOND, THIRD]


def test_no_entry_contains_a_secret(
    api: Any, acme: Team, alice: User, sam: User, settings: Any
) -> None:
    secrets = [*use_tokens(api, alice), *use_webhooks(api, alice)]
    guest, keys = join_by_invite(PageClient(sam))
    secrets += [*keys, *change_passwords(guest)]
    secrets += [*Session.objects.values_list("session_key", flat=True)]
    secrets += [*User.objects.values_list("password", flat=True)]
    kinds = {*AuditEntry.objects.values_list("kind", flat=True)}
    assert kinds >= {"token-created", "token-rotated", "token-revoked", "webhook-created"}
    assert kinds >= {"invite-created", "invite-accepted", "user-joined", "user-updated"}
    assert kinds >= {"webhook-updated", "signed-in", "sign-in-refused"}

    rows = json.dumps([*AuditEntry.objects.values()]).decode()
    export = api(sam).get("/audit/export").response.content.decode()
    page = PageClient(sam).get("/site/audit").gives().html
    for secret in filter(None, secrets):
        assert secret not in rows and secret not in export and secret not in page, secret
    assert len({*secrets}) > 12 and len(mail.outbox) >= 1
