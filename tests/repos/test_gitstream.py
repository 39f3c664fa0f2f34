"""Bodies between a request and git."""

import gzip
import zlib

import pytest
from django.test import RequestFactory
from hypothesis import given
from hypothesis import strategies as st

from apps.core.errors import BadRequest, PayloadTooLarge
from apps.repos.gitstream import PIECE, inflated, pieces, whole_body


@given(st.binary(max_size=3000), st.integers(1, 400), st.integers(1, 50))
def test_a_gzip_body_is_inflated_whatever_the_pieces(body, repeat, size):
    packed = gzip.compress(body * repeat)
    parts = [packed[start : start + size] for start in range(0, len(packed), size)]
    assert b"".join(inflated(iter(parts))) == body * repeat


def test_a_small_body_that_inflates_to_much_comes_in_small_pieces():
    packed = gzip.compress(bytes(50_000_000))
    assert len(packed) < 100_000
    assert max(len(piece) for piece in inflated(iter([packed]))) <= PIECE


@pytest.mark.parametrize("raw", [b"no gzip", gzip.compress(b"cut off")[:-9], b"\x1f\x8b"], ids=len)
def test_broken_gzip_is_refused(raw):
    with pytest.raises(BadRequest):
        list(inflated(iter([raw])))


def test_a_body_over_the_limit_is_refused_after_inflating():
    packed = zlib.compress(bytes(1000), wbits=16 + zlib.MAX_WBITS)
    request = RequestFactory().post(
        "/", packed, content_type="x/y", headers={"content-encoding": "gzip"}
    )
    with pytest.raises(PayloadTooLarge):
        whole_body(request, 999)
    request = RequestFactory().post("/", b"plain", content_type="x/y")
    assert b"".join(pieces(request)) == b"plain"
