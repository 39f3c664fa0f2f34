"""Answers a POST with an `Idempotency-Key` once, and replays that answer afterwards.

`ApiViewSet` calls `answer_once`, named by `settings.ANSWER_ONCE`, after authentication, rate
limits, permissions and the validation of query and body.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from django.http.response import HttpResponseBase
from rest_framework.response import Response

from apps.core import json
from apps.core.errors import as_api_error
from apps.core.renderers import error_response
from apps.core.transactions import HeldCommit
from apps.core.views import ApiViewSet
from apps.idempotency.claims import Claim, claim
from apps.idempotency.rules import is_passing, read_key
from apps.idempotency.sealing import Seal, digest_of, digest_of_body, digest_of_person

REPLAYED = "Idempotency-Replayed"
"""The header of a replayed answer."""


def answer_once(
    view: ApiViewSet, sent: str, answer: Callable[[], HttpResponseBase]
) -> HttpResponseBase:
    """Carry out the operation and store its answer, or replay the stored answer.

    `sent` is the header. Errors: 422 for an invalid key, 422 `idempotency_mismatch`, 409
    `idempotency_in_progress`; for a replay those of `ApiViewSet.check_again`.
    """
    key, person = read_key(sent), view.principal.user
    digest = digest_of(person.pk, view.http_request.get_full_path(), key)
    body = digest_of_body(view.sent)
    claimed = claim(digest, person=digest_of_person(person.pk), body=body)
    seal = Seal(key, digest)
    if claimed.answer is None:
        view.asked_since = claimed.since
        return _answer_first(claimed, seal, answer)
    replay = _unpacked(seal.open(claimed.answer))
    view.check_again(replay.data)
    return replay


def _answer_first(
    claimed: Claim, seal: Seal, answer: Callable[[], HttpResponseBase]
) -> HttpResponseBase:
    """Answer, and store the answer in the action's transaction. A refusal is stored in its own
    transaction, because the action has changed nothing.
    """
    try:
        with HeldCommit(claimed.hold) as held:
            response = answer()
            with held.transaction():
                claimed.store(seal.close(_packed(response)))
        return response
    except Exception as exception:
        refusal = as_api_error(exception)
        if refusal is None or is_passing(refusal):
            claimed.release()
        else:
            claimed.store(seal.close(_packed(error_response(refusal))))
        raise


def _packed(response: Any) -> bytes:
    headers = {name: text for name, text in response.items() if name != "Content-Type"}
    return json.dumps([response.status_code, headers, response.data])


def _unpacked(packed: bytes) -> Response:
    status, headers, data = json.loads(packed)
    return Response(data, status, headers={**headers, REPLAYED: "true"})
