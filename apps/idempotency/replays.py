"""The first answer again: what a POST with an `Idempotency-Key` goes through.

`ApiViewSet` calls it by `settings.ANSWER_ONCE`, when all that every request is asked has been
asked: who calls, how often, what they may do, and whether query and body are valid.
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
"""The header that marks an answer which was given before."""


def answer_once(
    view: ApiViewSet, sent: str, answer: Callable[[], HttpResponseBase]
) -> HttpResponseBase:
    """Carry the operation out and keep its answer, or give the one that was kept.

    `sent` is the header. Errors: 422 for a key that is none, 422 `idempotency_mismatch`, 409
    `idempotency_in_progress`; for a kept answer what `ApiViewSet.check_again` refuses.
    """
    key, person = read_key(sent), view.principal.user
    digest = digest_of(person.pk, view.http_request.get_full_path(), key)
    whose, body = digest_of_person(person.pk), digest_of_body(view.sent)
    claimed, seal = claim(digest, person=whose, body=body), Seal(key, digest)
    if claimed.answer is None:
        view.asked_since = claimed.since
        return _answer_first(claimed, seal, answer)
    kept = _unpacked(seal.open(claimed.answer))
    view.check_again(kept.data)
    return kept


def _answer_first(
    claimed: Claim, seal: Seal, answer: Callable[[], HttpResponseBase]
) -> HttpResponseBase:
    """The answer is stored in the transaction of the action; a refusal in one of its own, since
    the action has changed nothing then.
    """
    try:
        with HeldCommit(claimed.hold) as held:
            response = answer()
            with held.transaction():
                claimed.keep(seal.close(_packed(response)))
        return response
    except Exception as exception:
        refusal = as_api_error(exception)
        if refusal is None or is_passing(refusal):
            claimed.release()
        else:
            claimed.keep(seal.close(_packed(error_response(refusal))))
        raise


def _packed(response: Any) -> bytes:
    headers = {name: text for name, text in response.items() if name != "Content-Type"}
    return json.dumps([response.status_code, headers, response.data])


def _unpacked(packed: bytes) -> Response:
    status, headers, data = json.loads(packed)
    return Response(data, status, headers={**headers, REPLAYED: "true"})
