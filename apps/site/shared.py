"""Counting in Redis, for all processes together. Knows no Django.

Apart from counters.py, because redis-py takes a tenth of a second to load, which every command
and every server without Redis would wait for.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from redis import Redis
from redis.backoff import NoBackoff
from redis.exceptions import RedisError
from redis.retry import Retry

from apps.site.counters import Asked, Count, Hit, MemoryCounters, State

MOST_SEEN = 20_000
"""Keys of Redis that are looked through for people."""
PATIENCE = 0.05
"""Seconds that Redis has to answer."""
PAUSE = 5.0
"""Seconds for which a Redis that did not is left alone."""

logger = logging.getLogger(__name__)

SCRIPT = """
local now = tonumber(ARGV[1])
if now == 0 then
  local time = redis.call('TIME')
  now = time[1] * 1000 + math.floor(time[2] / 1000)
end
local admitted, state, answer = 1, {}, {}
for n, key in ipairs(KEYS) do
  local window, most = tonumber(ARGV[2 * n]), tonumber(ARGV[2 * n + 1])
  local index = math.floor(now / window)
  local elapsed = now - index * window
  local previous, current = 0, 0
  local kept = redis.call('GET', key)
  if kept then
    local a, b, c = string.match(kept, '(%d+) (%d+) (%d+)')
    local before = tonumber(a)
    if before >= index then
      previous, current = tonumber(b), tonumber(c)
      if before > index then
        index, elapsed = before, 0
      end
    elseif before == index - 1 then
      previous = tonumber(c)
    end
  end
  if previous * (window - elapsed) + (current + 1) * window > most * window then
    admitted = 0
  end
  state[n] = {index, previous, current, elapsed, window}
end
for n, key in ipairs(KEYS) do
  local index, previous, current, elapsed, window = unpack(state[n])
  if admitted == 1 then
    current = current + 1
    local kept = string.format('%d %d %d', index, previous, current)
    redis.call('SET', key, kept, 'PX', 2 * window)
  end
  answer[3 * n - 2], answer[3 * n - 1], answer[3 * n] = previous, current, elapsed
end
return {admitted, now, unpack(answer)}
"""


def connect(url: str) -> Redis:
    """A client that gives up soon: redis-py would try a dead Redis again and again, for seconds."""
    return Redis.from_url(
        url,
        socket_timeout=PATIENCE,
        socket_connect_timeout=PATIENCE,
        retry=Retry(NoBackoff(), 0),
        protocol=2,
    )


class RedisCounters:
    """Counts in Redis, by its clock, in one call for all keys."""

    def __init__(
        self, url: str, *, prefix: str = "guildhall", clock: Callable[[], int] = lambda: 0
    ) -> None:
        self.prefix = prefix
        self.clock = clock
        """0 stands for the time of Redis."""
        self.client: Any = connect(url)
        self.script: Any = self.client.register_script(SCRIPT)
        self.close = self.client.close

    def hit(self, asked: Asked) -> Hit:
        """As `MemoryCounters.hit`; raises `RedisError`."""
        keys = [f"{self.prefix}:limit:{key}" for key, _ in asked]
        values = [self.clock()]
        for _, limit in asked:
            values += [limit.window, limit.most]
        admitted, now, *numbers = self.script(keys, values)
        counts = [Count(*numbers[at : at + 3]) for at in range(0, len(numbers), 3)]
        return Hit(bool(admitted), counts, now)

    def all_kept(self) -> tuple[int, list[tuple[str, State]]]:
        """As `MemoryCounters.all_kept`, of at most `MOST_SEEN` keys; raises `RedisError`."""
        begin, names, cursor = f"{self.prefix}:limit:", list[bytes](), 0
        seconds, micro = self.client.time()
        for _ in range(MOST_SEEN // 1000):
            cursor, some = self.client.scan(cursor, match=f"{begin}*", count=1000)
            names += some
            if cursor == 0:
                break
        values = self.client.mget(names) if names else []
        found: list[tuple[str, State]] = []
        for name, value in zip(names, values, strict=True):
            if value is not None:
                index, previous, current = map(int, value.split())
                found.append((name.decode().removeprefix(begin), (index, previous, current)))
        return seconds * 1000 + micro // 1000, found


class SharedCounters(MemoryCounters):
    """Counts in Redis, and in this process while Redis does not answer. No request fails of it."""

    def __init__(self, shared: RedisCounters, pause: float = PAUSE) -> None:
        super().__init__()
        self.shared = shared
        self.pause = pause
        self.lost = False
        self.leave_until = 0.0

    def hit(self, asked: Asked) -> Hit:
        probing = self.lost
        if probing and not self._may_probe():
            return super().hit(asked)
        try:
            hit = self.shared.hit(asked)
        except (RedisError, OSError) as error:
            self._lose(error)
            return super().hit(asked)
        if probing:
            self._regain()
        return hit

    def all_kept(self) -> tuple[int, list[tuple[str, State]]]:
        if not self.lost:
            with suppress(RedisError, OSError):
                return self.shared.all_kept()
        return super().all_kept()

    def _may_probe(self) -> bool:
        """Whether the pause is over. One request may try then, and the next pause begins."""
        with self.lock:
            now = time.monotonic()
            if now < self.leave_until:
                return False
            self.leave_until = now + self.pause
            return True

    def _lose(self, error: Exception) -> None:
        with self.lock:
            self.leave_until = time.monotonic() + self.pause
            news, self.lost = not self.lost, True
        if news:
            reason = " ".join(str(error).split())
            logger.warning("Redis does not answer, rate limits are counted here: %s", reason)

    def _regain(self) -> None:
        with self.lock:
            news, self.lost = self.lost, False
        if news:
            logger.warning("Redis answers again and counts the rate limits")
