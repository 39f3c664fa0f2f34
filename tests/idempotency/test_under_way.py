"""Requests with a key that are in progress: claims, leases and takeovers."""

from __future__ import annotations

import pytest
from cryptography.fernet import InvalidToken
from django.db import OperationalError, connection
from django.utils import timezone

from apps.core.errors import ApiError, Conflict, Invalid, plain_error
from apps.idempotency import claims
from apps.idempotency.models import LEASE, KeyedRequest
from apps.idempotency.replays import is_temporary, seal_of
from apps.teams.models import Team
from tests.api import Api, plain_client
from tests.factories import ForkFactory
from tests.idempotency.test_keys import ACME, KEY, pass_time, replayed

DIGEST, PERSON, BODY = "d" * 64, "a" * 64, "b" * 64


def taken() -> claims.Claim:
    return claims.claim(DIGEST, person=PERSON, body=BODY)


def test_one_works_on_it_and_others_are_told_to_come_again(db):
    first = taken()
    assert (first.answer, first.since) == (None, None)
    with pytest.raises(Conflict) as refused:
        taken()
    assert refused.value.code == "idempotency_in_progress"
    assert refused.value.headers == {"Retry-After": "1"}
    with pytest.raises(Invalid, match="another body"):
        claims.claim(DIGEST, person=PERSON, body="c" * 64)
    first.store(b"sealed")
    assert taken().answer == b"sealed"


def test_a_claim_is_taken_over_when_its_lease_has_run_out_and_then_keeps_nothing(db):
    first = taken()
    pass_time(seconds=LEASE.total_seconds())
    second = taken()
    assert second.since is not None
    assert second.since < timezone.now() - LEASE
    for late in (first.hold, lambda: first.store(b"late")):
        with pytest.raises(Conflict, match="in progress"):
            late()
    first.release()
    with pytest.raises(Conflict, match="in progress"):
        taken()
    second.hold()
    second.store(b"sealed")
    assert taken().answer == b"sealed"
    with pytest.raises(Conflict):
        second.store(b"twice")


def test_what_is_released_is_free_at_once_and_known_to_have_been_tried(db):
    taken().release()
    again = taken()
    assert (again.answer, again.since) == (None, again.row.created_at)


def test_a_request_that_was_just_forgotten_is_one_to_send_again(db, monkeypatch):
    taken().store(b"sealed")
    rows = KeyedRequest.objects
    monkeypatch.setattr(rows, "filter", lambda **_: rows.none())
    with pytest.raises(Conflict, match="in progress"):
        taken()


@pytest.mark.parametrize("status", [401, 429, 500, 503])
def test_an_answer_that_may_be_another_in_a_moment_is_not_kept(status):
    assert is_temporary(plain_error(status) if status >= 500 else Refused(status))
    assert not is_temporary(plain_error(404))
    assert is_temporary(Conflict("busy", "Later.", headers={"Retry-After": "1"}))


class Refused(ApiError):
    def __init__(self, status):
        super().__init__("refused", "No.")
        self.status = status


def test_a_limited_token_gets_no_answer_to_another_token(api, make, alice, team_repo):
    """The answer may name repositories for which it is not valid."""
    ForkFactory.create(upstream=team_repo, owner=alice, created_by=alice)
    path = f"{team_repo.api_path}/pulls"
    pull = {"title": "t", "body": "", "source_branch": "users/alice:topic", "target_branch": "main"}
    made = api(alice).post_once(KEY, path, **pull).gives(201)
    assert made["source_repo_path"].startswith("users/alice/")
    limited = Api(make.scoped_token(alice, team_repo))
    limited.post_once(KEY, path, **pull).fails(403, "token_scope")
    assert api(alice).post_once(KEY, path, **pull).gives(201) == made
    own = pull | {"source_branch": "topic"}
    again = [limited.post_once("own", path, **own).gives(201) for _ in range(2)]
    assert again[0] == again[1]


def test_a_token_that_only_reads_gets_no_kept_answer(api, make, alice):
    api(alice).post_once(KEY, "/teams", **ACME).gives(201)
    reading = Api(make.scoped_token(alice, permission="read"))
    reading.post_once(KEY, "/teams", **ACME).fails(403, "token_scope")


def broken_at(beginning, error):
    """Let the next statement with this beginning fail, once."""
    left = [error]

    def execute_or_fail(execute, sql, *rest):
        if left and sql.startswith(beginning):
            raise left.pop()
        return execute(sql, *rest)

    return connection.execute_wrapper(execute_or_fail)


def test_an_answer_of_503_is_not_kept(api, alice, events):
    with broken_at('INSERT INTO "teams_member"', OperationalError("locked")), events():
        busy = api(alice).post_once(KEY, "/teams", **ACME)
    busy.fails(503, "unavailable")
    with events("team-created"):
        assert not replayed(api(alice).post_once(KEY, "/teams", **ACME))
        assert replayed(api(alice).post_once(KEY, "/teams", **ACME))


def test_a_defect_is_not_kept(api, alice, caplog):
    with broken_at('INSERT INTO "teams_member"', ZeroDivisionError()):
        headers = {**api(alice).headers, "Idempotency-Key": KEY}
        kind = "application/json"
        broken = plain_client().post("/api/v1/teams", ACME, content_type=kind, headers=headers)
    assert broken.status_code == 500
    assert "ZeroDivisionError" in caplog.text
    assert not Team.objects.exists()
    api(alice).post_once(KEY, "/teams", **ACME).gives(201)


def test_a_database_that_is_gone_by_then_leaves_the_lease_to_end(api, alice, caplog):
    gone = broken_at('UPDATE "idempotency_keyedrequest" SET "leased', OperationalError("gone"))
    with gone, broken_at('INSERT INTO "teams_member"', OperationalError("gone")):
        api(alice).post_once(KEY, "/teams", **ACME).fails(503, "unavailable")
    api(alice).post_once(KEY, "/teams", **ACME).fails(409, "idempotency_in_progress")
    pass_time(seconds=LEASE.total_seconds())
    api(alice).post_once(KEY, "/teams", **ACME).gives(201)


def test_who_was_overtaken_undoes_what_they_have_done(api, alice, events):
    """Another process has taken over the claim, and may carry out the request."""

    def overtake(execute, sql, *rest):
        if sql.startswith('INSERT INTO "teams_team"'):
            KeyedRequest.objects.update(token="00000000-0000-0000-0000-000000000000")
        return execute(sql, *rest)

    with connection.execute_wrapper(overtake), events():
        api(alice).post_once(KEY, "/teams", **ACME).fails(409, "idempotency_in_progress")
    assert not Team.objects.exists()


def test_a_seal_opens_only_what_was_closed_under_its_key_for_its_request(settings):
    sealed = seal_of(KEY, DIGEST).encrypt(b"answer")
    assert seal_of(KEY, DIGEST).decrypt(sealed) == b"answer"
    settings.SECRET_KEY += "x"
    others = [seal_of(KEY, DIGEST)]
    settings.SECRET_KEY = settings.SECRET_KEY[:-1]
    others += [seal_of(KEY + "x", DIGEST), seal_of(KEY, "e" * 64)]
    for other in others:
        with pytest.raises(InvalidToken):
            other.decrypt(sealed)
