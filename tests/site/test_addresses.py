"""The client address of a request cannot be forged, and no header causes an error."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from apps.core.requests import UNKNOWN, address_of, network
from tests.texts import texts

pytestmark = pytest.mark.once


def address(forwarded, proxies, connected="192.0.2.1"):
    meta = {"REMOTE_ADDR": connected, "HTTP_X_FORWARDED_FOR": forwarded}
    return address_of(meta, proxies)


@pytest.mark.parametrize(
    ("forwarded", "proxies", "found"),
    [
        ("", 0, "192.0.2.1"),
        ("", 2, "192.0.2.1"),
        ("203.0.113.9", 0, "192.0.2.1"),
        ("203.0.113.9", 1, "203.0.113.9"),
        ("1.1.1.1, 203.0.113.9", 1, "203.0.113.9"),
        ("1.1.1.1, 203.0.113.9, 10.0.0.1", 2, "203.0.113.9"),
        ("203.0.113.9", 2, "203.0.113.9"),
        ("203.0.113.9:4711", 1, "203.0.113.9"),
        ("[2001:db8::7]:4711", 1, "2001:db8::/64"),
        ("::ffff:203.0.113.9", 1, "203.0.113.9"),
        ("fe80::1%eth0", 1, "fe80::/64"),
        ("1.1.1.1, unknown", 1, "192.0.2.1"),
        ("1.1.1.1,", 1, "192.0.2.1"),
        ("203.0.113.9\x00", 1, "192.0.2.1"),
        ("٣.1.1.1", 1, "192.0.2.1"),
        ("x" * 100_000, 1, "192.0.2.1"),
    ],
)
def test_the_nth_address_from_the_right_counts_for_n_proxies(forwarded, proxies, found):
    assert address(forwarded, proxies) == found


@pytest.mark.parametrize(
    ("connected", "found"),
    [
        ("2001:db8:1:2:3:4:5:6", "2001:db8:1:2::/64"),
        ("2001:db8:1:2::", "2001:db8:1:2::/64"),
        ("", UNKNOWN),
        ("unix:", UNKNOWN),
    ],
)
def test_without_proxies_it_is_who_is_connected(connected, found):
    assert address_of({"REMOTE_ADDR": connected}, 0) == found
    assert address_of({}, 1) == UNKNOWN


@given(texts(max_size=200), st.integers(1, 99))
def test_no_header_crashes_it_or_makes_up_a_name(forwarded, proxies):
    found = address(forwarded, proxies)
    assert found == "192.0.2.1" or network(found.removesuffix("/64")) == found
