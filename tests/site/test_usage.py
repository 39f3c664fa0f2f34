"""Current usage for staff: in memory, in Redis, and while Redis does not answer."""

import pytest
from redis.exceptions import RedisError

from apps.site import limits
from apps.site.counters import Limit, Usage
from apps.site.models import RateLimit
from apps.site.shared import SharedCounters

ALICE = Limit("user:alice", 10, 3_600_000)
ANYBODY = Limit("api", 5, 3_600_000)


@pytest.fixture(params=["memory", "Redis"])
def counting(request, db, monkeypatch):
    """Both limits are in force, counted in this way."""
    RateLimit.objects.all().delete()
    for limit in (ALICE, ANYBODY):
        RateLimit.objects.create(
            scope=limit.rate_scope, max_requests=limit.most, window_seconds=3600
        )
    if request.param == "Redis":
        shared = SharedCounters(request.getfixturevalue("redis"))
        monkeypatch.setattr(limits, "counters", lambda: shared)
    return limits.counters()


def test_usage_names_how_many_and_who_used_most(counting):
    assert limits.usage()["api"] == Usage()
    for who in ("1", "::1", "::1", "2"):
        counting.hit([(f"api:3600000:{who}", ANYBODY)])
    counting.hit([("user:alice:3600000:7", ALICE)])
    counting.hit([("api:60000:9", Limit("api", 5, 60_000))])  # of a former window
    counting.hit([("git:60000:9", Limit("git", 5, 60_000))])
    assert limits.usage() == {"api": Usage(3, "::1", 2), "user:alice": Usage(1, "7", 1)}


def test_a_limit_that_does_not_hold_is_not_counted(counting):
    counting.hit([("api:3600000:1", ANYBODY)])
    RateLimit.objects.filter(scope="api").update(is_enabled=False)
    limits.limit_cache.invalidate()
    assert list(limits.usage()) == ["user:alice"]


def test_while_redis_is_lost_usage_is_that_of_the_process(own_redis, shared):
    shared.hit([("api:3600000:1", ANYBODY)])
    assert [key for key, _ in shared.all_states()[1]] == ["api:3600000:1"]
    own_redis.kill()
    with pytest.raises(RedisError):
        shared.shared.all_states()
    shared.hit([("api:3600000:2", ANYBODY)])
    assert [key for key, _ in shared.all_states()[1]] == ["api:3600000:2"]
