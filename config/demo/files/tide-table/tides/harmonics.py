"""The height of the tide as a sum of cosines, one for each constituent."""

from dataclasses import dataclass
from datetime import datetime, timezone
from math import cos, radians

EPOCH = datetime(2000, 1, 1, 12, tzinfo=timezone.utc)

# Degrees in an hour.
SPEEDS = {"M2": 28.9841042, "S2": 30.0, "K1": 15.0410686, "O1": 13.9430356}


@dataclass(frozen=True)
class Constituent:
    """One wave: how high it is, in metres, and how late, in degrees."""

    name: str
    amplitude: float
    phase: float

    def height(self, hours: float) -> float:
        return self.amplitude * cos(radians(SPEEDS[self.name] * hours - self.phase))


def height_at(moment: datetime, mean_level: float, waves: list[Constituent]) -> float:
    """Metres above the datum of the chart."""
    hours = (moment - EPOCH).total_seconds() / 3600
    return mean_level + sum(wave.height(hours) for wave in waves)
