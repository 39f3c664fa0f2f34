"""Files of the example that are computed: a picture, a binary table, a long line, many harbours."""

from __future__ import annotations

import json
import struct
import zlib
from collections.abc import Iterator
from math import cos, radians

from config.demo.objects import File

WIDTH, HEIGHT = 480, 120
SKY_AND_WATER = b"\xf6\xef\xe0\x0b\x5c\x8a"
NEW_MOON = 947_182_440
"""One of January 2000, in seconds since 1970."""
MONTH = 2_551_442.9
"""Seconds from one new moon to the next."""
NORTH_COAST = [
    "Aldern",
    "Birchness",
    "Cold-Haven",
    "Dunmouth",
    "Eelpool",
    "Farrow-Bay",
    "Grayling",
    "Heron-Point",
    "Inverlow",
    "Juniper-Sound",
    "Kelpwick",
    "Longstrand",
    "Merrow",
    "Narrowgate",
    "Osprey-Rock",
    "Pebbleford",
    "Quillan",
    "Rushmere",
    "Saltby",
    "Ternholm",
    "Underhill",
    "Vale-Harbour",
    "Westering",
    "Yarrow",
]
"""Invented, as all harbours of the example."""


def height(hour: float) -> float:
    """Metres at Amber Quay, with two of its four constituents."""
    moon, sun = 28.9841042 * hour - 112, 30 * hour - 158
    return 3.1 + 1.62 * cos(radians(moon)) + 0.54 * cos(radians(sun))


def picture() -> File:
    """The tide of two days as a PNG: a bit for each pixel, water or sky."""
    tops = [HEIGHT - int(height(column / 10) * 20) for column in range(WIDTH)]
    rows = b"".join(b"\0" + packed([row >= top for top in tops]) for row in range(HEIGHT))
    header = struct.pack(">IIBBBBB", WIDTH, HEIGHT, 1, 3, 0, 0, 0)
    parts = [(b"IHDR", header), (b"PLTE", SKY_AND_WATER), (b"IDAT", zlib.compress(rows, 9))]
    chunks = b"".join(chunk(name, content) for name, content in [*parts, (b"IEND", b"")])
    return File(b"\x89PNG\r\n\x1a\n" + chunks)


def packed(bits: list[bool]) -> bytes:
    """Eight bits a byte, the first one highest."""
    return int("".join("01"[bit] for bit in bits), 2).to_bytes(len(bits) // 8, "big")


def chunk(name: bytes, content: bytes) -> bytes:
    """A part of a PNG."""
    check = zlib.crc32(name + content)
    return struct.pack(">I", len(content)) + name + content + struct.pack(">I", check)


def new_moons() -> File:
    """The next 500 new moons, as seconds in eight bytes each."""
    return File(b"".join(struct.pack(">q", int(NEW_MOON + MONTH * n)) for n in range(500)))


def sample() -> File:
    """A week of heights as JSON, all in one line."""
    heights = [round(height(step / 6), 2) for step in range(7 * 144)]
    return File.text(json.dumps({"harbour": "amber-quay", "heights": heights}) + "\n")


def north_coast() -> Iterator[tuple[str, File]]:
    """The path and the content of each harbour of the north coast."""
    for number, name in enumerate(NORTH_COAST):
        lines = [
            f'name = "{name.replace("-", " ")}"',
            f"mean_level = {2 + number / 10:.1f}",
            "",
            "[waves]  # metres, degrees",
            f"M2 = [{0.9 + number * 0.07:.2f}, {(90 + number * 11) % 360}.0]",
            f"S2 = [{0.3 + number * 0.02:.2f}, {(130 + number * 12) % 360}.0]",
            f"K1 = [{0.08 + number * 0.01:.2f}, {(60 + number * 7) % 360}.0]",
            f"O1 = [{0.07 + number * 0.01:.2f}, {(290 + number * 5) % 360}.0]",
            "",
        ]
        yield f"harbours/{name.lower()}.toml", File.text("\n".join(lines))
