"""python3 -m tides <harbour> [--days <n>]"""

import argparse
from datetime import datetime, timedelta, timezone

from tides.extremes import turning_points
from tides.harbours import load


def main() -> None:
    parser = argparse.ArgumentParser(prog="tides")
    parser.add_argument("harbour")
    parser.add_argument("--days", type=int, default=1)
    asked = parser.parse_args()
    harbour = load(asked.harbour)
    start = datetime.now(timezone.utc).replace(second=0, microsecond=0)
    print(harbour.name)
    for moment, height, kind in turning_points(
        harbour.height, start, start + timedelta(days=asked.days)
    ):
        print(f"{moment:%a %d %b %H:%M}  {height:5.2f} m  {kind}")


main()
