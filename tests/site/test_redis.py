"""Rate limits counted in Redis: exactly, by several processes, and without a failed Redis."""

import signal
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from apps.site.counters import Limit
from apps.site.shared import RedisCounters, SharedCounters
from tests.server import Server
from tests.waiting import eventually

pytestmark = pytest.mark.once

HOUR = {"max_requests": 100, "window_seconds": 3600, "is_enabled": True}
OWN = "/api-tokens/self"
LOST = "Redis does not answer"
FOUND = "Redis answers again"
AT_ONCE = 10
"""Seconds; tests wait six times as long for a Redis."""
MANY = Limit("api", 1_000_000, 86_400_000)


PATIENT = f"--config={Path(__file__).with_name('patient.py')}"


def lines(caplog, text):
    return sum(text in message for message in caplog.messages)


def charge_all(counters, count):
    """`count` requests by eight threads: whether all were admitted, and the longest duration."""

    def charge(_):
        begin = time.monotonic()
        return counters.hit([("key", MANY)]).admitted, time.monotonic() - begin

    with ThreadPoolExecutor(8) as pool:
        done = list(pool.map(charge, range(count)))
    return all(admitted for admitted, _ in done), max(took for _, took in done)


def has_counted(counters, count):
    """Whether Redis answers by now."""
    return counters.shared.hit([("key", MANY)]).counts[0].current > count


def test_redis_dying_costs_no_request_and_one_line(own_redis, shared, caplog):
    counters = shared
    with ThreadPoolExecutor(1) as pool:
        load = pool.submit(charge_all, counters, 10_000)
        eventually(lambda: has_counted(counters, 200))
        own_redis.kill()
        admitted, longest = load.result()
    assert admitted and longest < AT_ONCE
    assert counters.lost and counters.states
    assert (lines(caplog, LOST), lines(caplog, FOUND)) == (1, 0)


class Asked(RedisCounters):
    """Counts the calls of Redis."""

    times = 0

    def hit(self, asked):
        self.times += 1
        return super().hit(asked)


def test_a_redis_that_hangs_is_waited_for_once_in_a_while(own_redis, caplog):
    """The eight concurrent requests try it, and the next one after the pause of an hour."""
    asked = Asked(own_redis.url)
    shared = SharedCounters(asked, pause=3600.0)
    own_redis.process.send_signal(signal.SIGSTOP)
    assert charge_all(shared, 1000)[0]
    assert 1 <= asked.times <= 8
    own_redis.process.send_signal(signal.SIGCONT)
    asked.close()
    assert (lines(caplog, LOST), lines(caplog, FOUND)) == (1, 0)


def test_counting_goes_back_to_redis_when_it_answers_again(own_redis, shared, caplog):
    shared.pause = 0.0
    shared.hit([("key", MANY)])
    own_redis.kill()
    for _ in range(5):
        assert shared.hit([("key", MANY)]).admitted
    own_redis.__enter__()
    assert shared.hit([("key", MANY)]).counts[0].current == 1
    assert (lines(caplog, LOST), lines(caplog, FOUND)) == (1, 1)


def until_limited(api):
    """Wait until the server uses a limit that another process has created."""
    eventually(lambda: "X-RateLimit-Limit" in api.get(OWN).response.headers)


@pytest.mark.slow
def test_twenty_clients_of_two_servers_get_exactly_what_the_limit_says(
    own_redis, tmp_path, new_server
):
    where = {"REDIS_URL": own_redis.url, "GUNICORN_CMD_ARGS": PATIENT}
    with (
        new_server(tmp_path, "gunicorn", **where) as one,
        Server(tmp_path, "gunicorn", beside=one) as two,
    ):
        one.api("sam").post("/rate-limits", scope="api", **HOUR).gives(201)
        until_limited(two.api("bob"))
        clients = [(one, two)[number % 2].api("alice") for number in range(20)]
        with ThreadPoolExecutor(20) as pool:
            sent = [pool.submit(client.get, OWN) for client in clients for _ in range(10)]
            statuses = Counter(one.result().status for one in sent)
        assert statuses == {200: 100, 429: 100}
        assert LOST not in one.log + two.log


@pytest.mark.slow
def test_a_server_under_load_does_not_mind_the_death_of_redis(own_redis, tmp_path, new_server):
    where = {"REDIS_URL": own_redis.url, "GUNICORN_CMD_ARGS": PATIENT}
    with new_server(tmp_path, "gunicorn", **where) as server:
        many = {**HOUR, "max_requests": 1_000_000}
        server.api("sam").post("/rate-limits", scope="api", **many).gives(201)
        client = server.api("alice")

        def ask(number):
            if number == 100:
                own_redis.kill()
            begin = time.monotonic()
            answer = client.get(OWN)
            assert answer.header("X-RateLimit-Resource") == "api"
            return answer.status, time.monotonic() - begin

        with ThreadPoolExecutor(8) as pool:
            done = list(pool.map(ask, range(400)))
        assert {status for status, _ in done} == {200}
        assert max(took for _, took in done) < AT_ONCE
        assert server.log.count(LOST) == 1
