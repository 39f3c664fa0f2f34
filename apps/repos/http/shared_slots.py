"""Counts slots of all processes in Redis. Does not import Django.

Each slot is a lease: the slots of a killed process become free after a minute.
"""

from __future__ import annotations

import logging
from contextlib import suppress
from threading import Event, Lock, Thread
from typing import Any
from uuid import uuid4

from redis.exceptions import RedisError

from apps.core.slots import Limits
from apps.site.shared import connect

LEASE = 60
"""Seconds after which a slot becomes free unless it is renewed."""
RENEWED = 20
"""Seconds between two renewals."""

logger = logging.getLogger(__name__)

TAKE = """
local now = tonumber(redis.call('TIME')[1])
for n, key in ipairs(KEYS) do
  redis.call('ZREMRANGEBYSCORE', key, '-inf', now)
  if redis.call('ZCARD', key) >= tonumber(ARGV[n + 2]) then
    return n
  end
end
for n, key in ipairs(KEYS) do
  redis.call('ZADD', key, now + ARGV[2], ARGV[1])
  redis.call('EXPIRE', key, ARGV[2])
end
return 0
"""
"""Takes a slot, or returns the number of the first key whose limit is reached."""
NO_LIMIT = 2**31


class SharedSlots:
    """Slots counted in Redis. While Redis does not answer, every slot is granted."""

    def __init__(self, url: str, *, lease: int = LEASE, renewed: float = RENEWED) -> None:
        self.client: Any = connect(url)
        self.lease, self.renewed = lease, renewed
        self.script: Any = self.client.register_script(TAKE)
        self.lock = Lock()
        self.held: dict[str, list[str]] = {}
        """Redis keys by slot, of the slots that this process holds."""
        self.closed = Event()
        self.renewing: Thread | None = None

    def take(self, limits: Limits) -> tuple[str, str]:
        """Take a slot; return its name, for `give_back`, and the key of a reached limit or ""."""
        name, names = uuid4().hex, list(limits)
        keys = [f"guildhall:git:{limit}" for limit in names]
        try:
            full = self.script(keys, [name, self.lease, *limits.values()])
        except (RedisError, OSError) as error:
            logger.warning("Without Redis, slots for git count in this process only: %s", error)
            return name, ""
        if full:
            return name, names[full - 1]
        with self.lock:
            self.held[name] = keys
            if self.renewing is None:
                self.renewing = Thread(target=self._renew_always, name="git-slots", daemon=True)
                self.renewing.start()
        return name, ""

    def give_back(self, name: str) -> None:
        """Release a slot. If Redis does not answer, its lease expires instead."""
        self._remove(name, self.held.pop(name, []))

    def _remove(self, name: str, keys: list[str]) -> None:
        with suppress(RedisError, OSError):
            for key in keys:
                self.client.zrem(key, name)

    def _renew_always(self) -> None:
        while not self.closed.wait(self.renewed):
            for name, keys in list(self.held.items()):
                with suppress(RedisError, OSError):
                    self.script(keys, [name, self.lease, *[NO_LIMIT] * len(keys)])
                if name not in self.held:  # released meanwhile
                    self._remove(name, keys)
