"""Hostile requests in the process; test_servers.py sends them to real servers."""

from __future__ import annotations

import pytest

from apps.core.slugs import PREFIX
from tests.api import Answer, plain_client
from tests.core.hostile import CREDENTIALS, FINE, REFUSALS, OddRequest
from tests.sample_data import SampleData, everything


def send(sample: SampleData, odd: OddRequest) -> Answer:
    """The response to the request in the process, as staff unless it has credentials."""
    token = sample.make.token(sample.people["sam"])
    headers = {"Authorization": f"Bearer {token}", **odd.headers}
    request = plain_client().generic
    sent = odd.content_type or ""
    return Answer(request(odd.method, PREFIX + odd.path, odd.body, sent, headers=headers))


def assert_error_body(answer: Answer) -> None:
    body = answer.json or {}
    assert answer.header("Content-Type") == "application/json"
    assert {"error", "detail"} <= set(body) <= {"error", "detail", "conflict_paths"}
    assert body["detail"].strip()
    assert "\n" not in body["detail"]


@pytest.mark.parametrize("sort", REFUSALS)
def test_what_is_hostile_is_refused_in_words_and_changes_nothing(sort, sample, db, case):
    before = everything()
    for odd in REFUSALS[sort]:
        with case(str(odd)):
            answer = send(sample, odd)
            answer.fails(odd.status, odd.code)
            assert_error_body(answer)
            assert everything() == before


@pytest.mark.parametrize("odd", FINE, ids=str)
def test_what_is_merely_odd_is_answered(odd, sample, db):
    send(sample, odd).gives(odd.status)


def test_a_bad_credential_is_told_how_to_come_back(sample, db, case):
    for odd in CREDENTIALS:
        with case(str(odd)):
            challenge = send(sample, odd).header("WWW-Authenticate")
            assert challenge == 'Bearer realm="Guildhall", Basic realm="Guildhall"'
