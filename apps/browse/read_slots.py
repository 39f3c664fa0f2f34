"""How many git processes answer reads at once in this process.

Light: answers that take milliseconds. Heavy: compare, blame, archive, a filtered log. A caller has
two heavy slots at most, and never the last one, so that crawlers leave some to others. A request
that waits for a slot keeps a server thread busy, so few may wait.
"""

from __future__ import annotations

import os
import sys

from apps.core.errors import PLAIN, Unavailable
from apps.core.slots import Slots

RETRY_AFTER = 5
"""Seconds after which a client is told to try again."""
CPUS = os.cpu_count() or 1
MOST_WAITING, MOST_WAITING_OF_CALLER = 4, 2


def busy(full: str) -> Unavailable:
    """503: all slots are taken."""
    return Unavailable(*PLAIN[503], headers={"Retry-After": str(RETRY_AFTER)})


def slow_slots(most: int, per_caller: int) -> Slots:
    """Slots with a short queue. A caller leaves the last one of several to others."""
    return Slots(
        most,
        min(per_caller, max(1, most - 1)),
        refusal=busy,
        queue=MOST_WAITING,
        queue_per_caller=MOST_WAITING_OF_CALLER,
    )


light_slots = Slots(2 * CPUS, refusal=busy, queue=sys.maxsize)
heavy_slots = slow_slots(max(2, CPUS // 2), 2)
archive_slots = slow_slots(2 * CPUS, 1)
"""Held while an archive is sent. They are apart, because a slow client would keep everybody from
other heavy answers.
"""
