"""Answers a POST with an `Idempotency-Key` once, and replays that answer afterwards.

`ApiViewSet` calls `answer_once`, named by `settings.ANSWER_ONCE`, after authentication, rate
limits, permissions and the validation of query and body.
"""

from __future__ import annotations

import base64
import re
from collections.abc import Callable
from typing import Any

from cryptography.fernet import Fernet
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF
from django.conf import settings
from django.http.response import HttpResponseBase
from django.utils.crypto import salted_hmac
from rest_framework.response import Response

from apps.core import json
from apps.core.errors import ApiError, Invalid, as_api_error
from apps.core.renderers import error_response
from apps.core.transactions import HeldCommit
from apps.core.views import ApiViewSet
from apps.idempotency.claims import Claim, claim

HEADER = "Idempotency-Key"
BARE = re.compile(r"[!#-~][ -~]{0,254}")
QUOTED = re.compile(r'"((?:[ !#-\[\]-~]|\\["\\]){1,255})"')
"""A string of RFC 8941: in quotes, with `\\` before a quote or a backslash."""
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
    digest = _digest("request", [person.pk, view.http_request.get_full_path(), key, *limits(view)])
    body = _digest("body", view.sent)
    claimed = claim(digest, person=_digest("person", person.pk), body=body)
    seal = seal_of(key, digest)
    if claimed.answer is None:
        view.asked_since = claimed.since
        return _answer_first(claimed, seal, answer)
    replay = _unpacked(seal.decrypt(claimed.answer))
    view.check_again(replay.data)
    return replay


def limits(view: ApiViewSet) -> list[list[int]]:
    """The repositories to which the caller's token is limited, as a part of the key: an answer to
    another token may name others. Unlimited tokens of a person share their keys.
    """
    repo_ids = view.principal.repo_ids
    return [] if repo_ids is None else [sorted(repo_ids)]


def _answer_first(
    claimed: Claim, seal: Fernet, answer: Callable[[], HttpResponseBase]
) -> HttpResponseBase:
    """Answer, and store the answer in the action's transaction. A refusal is stored in its own
    transaction, because the action has changed nothing.
    """
    try:
        with HeldCommit(claimed.hold) as held:
            response = answer()
            with held.transaction():
                claimed.store(seal.encrypt(_packed(response)))
        return response
    except Exception as exception:
        refusal = as_api_error(exception)
        if refusal is None or is_temporary(refusal):
            claimed.release()
        else:
            claimed.store(seal.encrypt(_packed(error_response(refusal))))
        raise


def _packed(response: Any) -> bytes:
    headers = {name: text for name, text in response.items() if name != "Content-Type"}
    return json.dumps([response.status_code, headers, response.data])


def _unpacked(packed: bytes) -> Response:
    status, headers, data = json.loads(packed)
    return Response(data, status, headers={**headers, REPLAYED: "true"})


def read_key(sent: str) -> str:
    """The key in a header, with or without quotes; 422 if it is invalid."""
    if BARE.fullmatch(sent):
        return sent
    quoted = QUOTED.fullmatch(sent)
    if quoted is None:
        text = f"{HEADER}: Must be 1 to 255 printable ASCII characters, with or without quotes."
        raise Invalid("validation_failed", text)
    return re.sub(r"\\(.)", r"\1", quoted[1])


def is_temporary(refusal: ApiError) -> bool:
    """Whether the same request may succeed later or with valid credentials. Such a refusal is not
    stored.
    """
    status = refusal.status
    return status >= 500 or status in {401, 429} or "Retry-After" in refusal.headers


def _digest(kind: str, value: Any) -> str:
    """The digest of a value, the same for values that are equal as JSON."""
    salt = f"apps.idempotency.{kind}"
    return salted_hmac(salt, json.canonical(value), algorithm="sha256").hexdigest()


def seal_of(key: str, digest: str) -> Fernet:
    """Encrypts and decrypts the answer to one request.

    An answer may contain a secret that is stored nowhere else, such as a new API token. It is
    encrypted under a key derived from the `Idempotency-Key`, which is not stored, and from
    `SECRET_KEY`, which is not in the database.
    """
    derived = HKDF(SHA256(), 32, salt=digest.encode(), info=b"apps.idempotency.answer")
    secret = json.canonical([settings.SECRET_KEY, key])
    return Fernet(base64.urlsafe_b64encode(derived.derive(secret)))
