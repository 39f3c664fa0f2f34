"""Counts requests in Redis, for all processes together. It knows no Django.

Separate from counters.py, because importing redis-py takes a tenth of a second: commands, and
servers without Redis, need not wait for it.
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

from apps.site.counters import Count, Hit, LimitedKeys, MemoryCounters, State

SCANNED_MAX = 20_000
"""Maximum keys of Redis that `all_states` reads."""
PATIENCE = 0.05
"""Seconds to wait for an answer of Redis."""
PAUSE = 5.0
"""Seconds to leave Redis alone after it did not answer."""

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
    if before == index + 1 then
      index, elapsed = before, 0
    end
    if before == index then
      previous, current = tonumber(b), tonumber(c)
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
    """A client that gives up soon: by default redis-py retries a dead Redis for seconds."""
    return Redis.from_url(
        url,
        socket_timeout=PATIENCE,
        socket_connect_timeout=PATIENCE,
        retry=Retry(NoBackoff(), 0),
        protocol=2,
    )


class RedisCounters:
    """Counts in Redis and by its clock, with one call for all keys."""

    def __init__(
        self, url: str, *, prefix: str = "guildhall", clock: Callable[[], int] = lambda: 0
    ) -> None:
        self.prefix = prefix
        self.clock = clock
        """Returns milliseconds; 0 for the time of Redis."""
        self.client: Any = connect(url)
        self.script: Any = self.client.register_script(SCRIPT)
        self.close = self.client.close

    def hit(self, keys: LimitedKeys) -> Hit:
        """As `MemoryCounters.hit`; raises `RedisError`."""
        names = [f"{self.prefix}:limit:{key}" for key, _ in keys]
        values = [self.clock()]
        for _, limit in keys:
            values += [limit.window, limit.most]
        admitted, now, *numbers = self.script(names, values)
        counts = [Count(*numbers[start : start + 3]) for start in range(0, len(numbers), 3)]
        return Hit(bool(admitted), counts, now)

    def all_states(self) -> tuple[int, list[tuple[str, State]]]:
        """As `MemoryCounters.all_states`, for `SCANNED_MAX` keys at most; raises `RedisError`."""
        prefix, names, cursor = f"{self.prefix}:limit:", list[bytes](), 0
        seconds, microseconds = self.client.time()
        for _ in range(SCANNED_MAX // 1000):
            cursor, page = self.client.scan(cursor, match=f"{prefix}*", count=1000)
            names += page
            if cursor == 0:
                break
        values = self.client.mget(names) if names else []
        states: list[tuple[str, State]] = []
        for name, value in zip(names, values, strict=True):
            if value is not None:
                index, previous, current = map(int, value.split())
                states.append((name.decode().removeprefix(prefix), (index, previous, current)))
        return seconds * 1000 + microseconds // 1000, states


class SharedCounters(MemoryCounters):
    """Counts in Redis, or in this process while Redis does not answer: no request fails then."""

    def __init__(self, shared: RedisCounters, pause: float = PAUSE) -> None:
        super().__init__()
        self.shared = shared
        self.pause = pause
        self.lost = False
        self.paused_until = 0.0

    def hit(self, keys: LimitedKeys) -> Hit:
        probing = self.lost
        if probing and not self._may_probe():
            return super().hit(keys)
        try:
            hit = self.shared.hit(keys)
        except (RedisError, OSError) as error:
            self._note_failure(error)
            return super().hit(keys)
        if probing:
            self._note_recovery()
        return hit

    def all_states(self) -> tuple[int, list[tuple[str, State]]]:
        if not self.lost:
            with suppress(RedisError, OSError):
                return self.shared.all_states()
        return super().all_states()

    def _may_probe(self) -> bool:
        """Whether the pause is over. Then one request may try, and the next pause begins."""
        with self.lock:
            now = time.monotonic()
            if now < self.paused_until:
                return False
            self.paused_until = now + self.pause
            return True

    def _note_failure(self, error: Exception) -> None:
        with self.lock:
            self.paused_until = time.monotonic() + self.pause
            is_new, self.lost = not self.lost, True
        if is_new:
            reason = " ".join(str(error).split())
            logger.warning("Redis does not answer, rate limits are counted here: %s", reason)

    def _note_recovery(self) -> None:
        with self.lock:
            is_new, self.lost = self.lost, False
        if is_new:
            logger.warning("Redis answers again and counts the rate limits")
