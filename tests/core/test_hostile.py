"""engine.md §2: what stock parts get wrong, and more. Over real servers: test_servers.py."""

from __future__ import annotations

import pytest

from apps.core.slugs import PREFIX
from tests.api import Answer, plain_client
from tests.core.hostile import CREDENTIALS, FINE, REFUSALS, Knock
from tests.world import World, everything


def send(world: World, knock: Knock) -> Answer:
    """The request in the process, as staff unless it says who it is."""
    token = world.make.tokens[world.people["sam"].pk]
    headers = {"Authorization": f"Bearer {token}", **knock.headers}
    request = plain_client().generic
    sent = knock.content_type or ""
    return Answer(request(knock.method, PREFIX + knock.path, knock.body, sent, headers=headers))


def assert_error_body(answer: Answer) -> None:
    body = answer.json or {}
    assert answer.header("Content-Type") == "application/json"
    assert {"error", "detail"} <= set(body) <= {"error", "detail", "conflict_paths"}
    assert body["detail"].strip()
    assert "\n" not in body["detail"]


@pytest.mark.parametrize("sort", REFUSALS)
def test_what_is_hostile_is_refused_in_words_and_changes_nothing(sort, world, db, case):
    before = everything()
    for knock in REFUSALS[sort]:
        with case(str(knock)):
            answer = send(world, knock)
            answer.fails(knock.status, knock.code)
            assert_error_body(answer)
            assert everything() == before


@pytest.mark.parametrize("knock", FINE, ids=str)
def test_what_is_merely_odd_is_answered(knock, world, db):
    send(world, knock).gives(knock.status)


def test_a_bad_credential_is_told_how_to_come_back(world, db, case):
    for knock in CREDENTIALS:
        with case(str(knock)):
            challenge = send(world, knock).header("WWW-Authenticate")
            assert "Bearer" in challenge
            assert "Basic" in challenge
