"""High and low water: where the curve turns."""

from collections.abc import Callable, Iterator
from datetime import datetime, timedelta

STEP = timedelta(minutes=6)


def turning_points(
    height: Callable[[datetime], float], start: datetime, end: datetime
) -> Iterator[tuple[datetime, float, str]]:
    """Yield each moment from which the water falls, or rises, after it did the other."""
    rising, moment, last = None, start, (start, height(start))
    while moment < end:
        moment += STEP
        here = height(moment)
        if here == last[1]:
            continue
        if rising is not None and rising != (here > last[1]):
            yield *last, "high" if rising else "low"
        rising, last = here > last[1], (moment, here)
