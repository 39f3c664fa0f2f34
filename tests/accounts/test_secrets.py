"""Tokens and passwords appear in no log, row or event, and only in the first answer."""

from __future__ import annotations

import base64
import logging
from functools import partial

import pytest

from apps.accounts import actions
from apps.accounts.models import Invite
from apps.accounts.principal import ANONYMOUS
from apps.accounts.proofs import address_proof
from apps.core.errors import ApiError
from tests.api import Api
from tests.factories import UserFactory
from tests.principals import principal_of
from tests.sample_data import everything

PASSWORD = "correct horse battery staple"
ADDRESS = "eve@example.org"
SCOPES = ("site", "self", "user:eve", "user:sam")


@pytest.fixture
def token(make, alice) -> str:
    text: str = make.token(alice)
    return text


def test_no_log_holds_a_token(caplog, token, settings, db):
    caplog.set_level(logging.DEBUG)
    basic = base64.b64encode(f":{token}".encode()).decode()
    for header in (f"Bearer {token}", f"Basic {basic}", f"Basic {token}", token, f"Junk {token}"):
        api = Api(None)
        api.headers["Authorization"] = header
        for path in ("/teams", "/nothing", "/teams?page=x", "/teams/nobody"):
            api.get(path)
    settings.ROOT_URLCONF = "tests.core.broken"
    broken = Api(token).client.get("/api/v1/broken", headers={"Authorization": f"Bearer {token}"})
    assert broken.status_code == 500
    assert "ZeroDivisionError" in caplog.text
    assert token not in caplog.text
    assert basic not in caplog.text


def test_no_log_holds_a_token_that_is_being_made(caplog, token):
    caplog.set_level(logging.DEBUG)
    made = Api(token).post("/api-tokens", name="laptop").gives(201)["token"]
    assert made not in caplog.text


def test_no_row_holds_a_token_or_a_password(db, token):
    UserFactory.create(username="dora", clear_password=PASSWORD)
    rows = str(everything())
    assert "dora" in rows
    assert token not in rows
    assert PASSWORD not in rows


def test_no_answer_but_the_first_holds_a_token(token):
    api = Api(token)
    made = api.post("/api-tokens", name="laptop").gives(201)
    url = f"/api-tokens/{made['uuid']}"
    answers = [
        api.get(url),
        api.get("/api-tokens"),
        api.get("/events?scope=self"),
        api.get("/events?scope=user:alice"),
        api.put(f"{url}/revoke"),
        api.delete(url),
    ]
    for answer in answers:
        assert made["token"] not in answer.response.content.decode()
        assert "digest" not in answer.response.content.decode()


def test_a_token_in_a_refusal_is_not_repeated(token):
    refused = Api(token + "x").get("/teams")
    assert token not in refused.response.content.decode()


def test_no_log_event_or_list_holds_an_address_or_a_password(caplog, make, alice, sam):
    """A person is invited, joins, is refused, changed, suggested and deactivated."""
    caplog.set_level(logging.DEBUG)
    staff, own = Api(make.token(sam)), Api(make.token(alice))
    invite = staff.post("/signup-invites", expires_at="1d", email=ADDRESS).gives(201)
    row = Invite.objects.get(uuid=invite["uuid"])
    join = partial(
        actions.sign_up, principal=ANONYMOUS, username="eve", password=PASSWORD, invite=row
    )
    with pytest.raises(ApiError) as refused:
        join(email="other@example.org")
    eve = join(email=ADDRESS)
    actions.confirm_email(principal=principal_of(eve), proof=address_proof(eve, ADDRESS))
    with pytest.raises(ApiError) as taken:
        actions.confirm_email(principal=principal_of(alice), proof=address_proof(alice, ADDRESS))
    actions.change_password(principal=principal_of(eve), user=eve, password=PASSWORD + "!")
    actions.deactivate_user(principal=principal_of(sam), user=eve)
    actions.reactivate_user(principal=principal_of(sam), user=eve)
    paths = ["/users", "/users/eve", "/users/eve/activity", "/events?scope=user:eve"]
    paths += [f"/suggest-users?email={ADDRESS}", "/suggest-users?name=eve", "/check-username"]
    said = [own.get(path).response.content.decode() for path in paths]
    said += [staff.get(f"/events?scope={scope}").response.content.decode() for scope in SCOPES]
    said += [refused.value.detail, taken.value.detail]
    for text in (*said, caplog.text):
        assert ADDRESS not in text.lower() and PASSWORD not in text
    assert '"invite-accepted"' in "".join(said)
