"""Harbours, each a TOML file in the folder of that name."""

import tomllib
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from tides.harmonics import Constituent, height_at

FOLDER = Path(__file__).resolve().parent.parent / "harbours"


@dataclass(frozen=True)
class Harbour:
    name: str
    mean_level: float
    waves: list[Constituent]

    def height(self, moment: datetime) -> float:
        return height_at(moment, self.mean_level, self.waves)


def load(slug: str) -> Harbour:
    """Read a harbour. `FileNotFoundError` for one that nobody has measured."""
    told = tomllib.loads((FOLDER / f"{slug}.toml").read_text())
    waves = [Constituent(name, *pair) for name, pair in told["waves"].items()]
    return Harbour(told["name"], told["mean_level"], waves)
