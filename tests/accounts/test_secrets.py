"""Tokens and passwords are in no log, no row, no event and no answer but the first."""

from __future__ import annotations

import base64
import logging

import pytest

from tests.api import Api
from tests.world import everything

PASSWORD = "correct horse battery staple"


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


def test_no_row_holds_a_token_or_a_password(make, token):
    make.user("dora", password=PASSWORD)
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
