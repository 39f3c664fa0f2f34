"""Request bodies that are JSON, but that no client can have meant."""

from __future__ import annotations

import pytest

pytestmark = pytest.mark.once


@pytest.mark.parametrize(
    "body",
    [
        b'{"name": "x", "name": "y"}',
        b'{"name": "x", "n\\u0061me": "x"}',
        b'{"name": "x", "other": [{"inner": {"a": 1, "b": 2, "a": 1}}]}',
    ],
)
def test_nothing_is_guessed_where_a_body_has_a_key_twice(api, alice, body):
    detail = api(alice).send("POST", "/api-tokens", body).fails(400, "malformed_request")
    assert "more than once" in detail
    assert '"name"' in detail or '"a"' in detail


@pytest.mark.parametrize(
    "body",
    [
        b"[" * 100_000,
        b'{"a":' * 100_000,
        b'{"name":' + b"[" * 1000 + b"]" * 1000 + b"}",
        b'{"name":' * 1000 + b"1" + b"}" * 1000,
    ],
)
def test_a_body_nested_too_deeply_is_malformed(api, alice, body):
    api(alice).send("POST", "/api-tokens", body).fails(400, "malformed_request")
