"""Limits of the git processes that answer reads at the same time in this process.

Light answers take milliseconds. Heavy ones are compare, blame, archive and a filtered log. A caller
has at most two heavy slots, and never the last one, so that crawlers leave some to others. Few
requests may wait for a slot, because each keeps a server thread busy.
"""

from __future__ import annotations

import os
import sys

from apps.core import metrics
from apps.core.errors import PLAIN, Unavailable
from apps.core.slots import Slots

RETRY_AFTER = 5
"""Seconds in `Retry-After`."""
CPUS = os.cpu_count() or 1
MOST_WAITING, MOST_WAITING_OF_CALLER = 4, 2


def busy(full: str) -> Unavailable:
    """503 if too many reads run git."""
    metrics.slots_refused.add("reads")
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
"""Slots to send archives. They are separate from `heavy_slots`, which slow clients would otherwise
block for everybody.
"""
