"""Slots for git, counted by all processes together."""

import pytest

from apps.repos.http.shared_slots import SharedSlots
from tests.waiting import eventually

pytestmark = pytest.mark.once


def first_end(slots: SharedSlots) -> float:
    """The second in which the first lease of a slot for all ends."""
    leases = slots.client.zrange("guildhall:git:all", 0, -1, withscores=True)
    return min(float(end) for _, end in leases)


def test_processes_share_slots_and_those_of_a_dead_one_come_back(own_redis, patient, caplog):
    one, other = (SharedSlots(own_redis.url, lease=10, renewed=0.5) for _ in range(2))
    asked = {"person:1": 2, "all": 3}
    first, full = one.take(asked)
    assert not full
    other.take({"person:1": 2, "all": 3})
    assert one.take(asked)[1] == "person:1"
    assert other.take({"person:2": 2, "all": 2})[1] == "all"
    one.give_back(first)
    assert other.take(asked)[1] == ""
    assert other.take({"address:1": 2, "nobody": 1, "all": 4})[1] == ""
    assert one.take({"address:2": 2, "nobody": 1, "all": 5})[1] == "nobody"
    before = first_end(one)
    eventually(lambda: first_end(one) > before)
    assert one.take(asked)[1] == "person:1", "they are renewed"
    other.closed.set()  # as if it had been killed
    eventually(lambda: one.take(asked)[1] == "")
    own_redis.kill()
    assert one.take({"person:3": 0})[1] == ""
    assert "slots for git count in this process only" in caplog.text
    one.closed.set()
