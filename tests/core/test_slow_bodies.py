"""Access is checked again after a slow body: the caller may have lost it meanwhile."""

from __future__ import annotations

from io import BytesIO
from typing import Any

import orjson
import pytest

from apps.accounts import actions as accounts
from apps.accounts.models import ApiToken
from apps.core import views
from apps.core.slugs import PREFIX
from apps.teams import actions as teams
from tests.api import Answer, plain_client
from tests.principals import principal_of, team_access_of


class SlowBody(BytesIO):
    """A request's stream; a function is called while it is read."""

    def __init__(self, body, meanwhile):
        super().__init__(orjson.dumps(body))
        self.meanwhile = meanwhile

    def read(self, size=-1):
        self.meanwhile()
        return super().read(size)


@pytest.fixture
def send(monkeypatch):
    monkeypatch.setattr(views, "SLOW_BODY", -1.0)

    def sent(token, method, path, body, meanwhile):
        stream = SlowBody(body, meanwhile)
        request: Any = {"headers": {"Authorization": f"Bearer {token}"}, "wsgi.input": stream}
        raw, kind = stream.getvalue(), "application/json"
        return Answer(plain_client().generic(method, PREFIX + path, raw, kind, **request))

    return sent


def test_a_token_that_is_revoked_meanwhile_makes_no_other(send, alice, db):
    row, token = accounts.create_token(principal=None, owner=alice, name="stolen")

    def revoke():
        accounts.revoke_token(principal=principal_of(alice), token=row)

    before = ApiToken.objects.count()
    answer = send(token, "POST", "/api-tokens", {"name": "another"}, revoke)
    answer.fails(401, "invalid_token")
    assert ApiToken.objects.count() == before


def test_who_is_removed_meanwhile_changes_no_protection(send, make, alice, bob, acme):
    teams.update_member(
        access=team_access_of(alice, acme), member=acme.members.get(user=bob), role="admin"
    )
    protection = make.protection(make.repo(acme, "api", by=alice), by=alice)

    def remove():
        member = acme.members.filter(user=bob).first()
        if member is not None:
            teams.remove_member(access=team_access_of(alice, acme), member=member)

    address = f"/teams/acme/repos/api/protections/{protection.uuid}"
    send(make.token(bob), "PUT", address, {"branch": "other"}, remove).fails(403, "forbidden")
    protection.refresh_from_db()
    assert protection.branch == "main"


def test_who_still_may_is_let_through(send, make, alice):
    body = {"name": "Guild", "slug": "guild"}
    send(make.token(alice), "POST", "/teams", body, lambda: None).gives(201)
