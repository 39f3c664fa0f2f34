"""The commits of the repository `tide-table`, as changes of the files in `files/tide-table`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from config.demo.made_files import new_moons, north_coast, picture, sample
from config.demo.objects import File

FOLDER = Path(__file__).resolve().parent / "files" / "tide-table"
Files = Mapping[str, File]


@dataclass(frozen=True)
class Step:
    """A commit: who made it, and what it changes. `adds`: paths of files below `FOLDER`; `edits`:
    a text and what stands in its place, by path; `made`: files that are not there.
    """

    by: str
    message: str
    adds: tuple[str, ...] = ()
    edits: Mapping[str, tuple[str, str]] = field(default_factory=dict)
    made: Files = field(default_factory=dict)
    removes: tuple[str, ...] = ()

    def after(self, files: Files) -> dict[str, File]:
        """The files of the commit, from those of the one before."""
        kept = {path: file for path, file in files.items() if path not in self.removes}
        added = {path: read(path) for path in self.adds}
        edited = {path: edit(files[path], *texts) for path, texts in self.edits.items()}
        return {**kept, **added, **edited, **self.made}


def read(path: str) -> File:
    """A file of the folder."""
    content = (FOLDER / path).read_bytes()
    return File.program(content) if path.endswith(".sh") else File(content)


def edit(file: File, old: str, new: str) -> File:
    """A file with another text in place of one that stands in it once; `ValueError` if not."""
    text = file.content.decode()
    if text.count(old) != 1:
        raise ValueError(f"stands there {text.count(old)} times: {old}")
    return File(text.replace(old, new).encode(), file.mode)


def changelog(*lines: str) -> File:
    """A list of releases, newest first."""
    return File.text("\n".join(["# Releases", "", *lines, ""]))


HEIGHT = "    return mean_level + sum(wave.height(hours) for wave in waves)\n"
ROUNDED = HEIGHT.replace("mean_level + ", "round(mean_level + ").replace("waves)\n", "waves), 2)\n")
MILLIMETRES = ROUNDED.replace("), 2)", "), 3)")
FIRST = "- **1.0**: heights, high and low water, a page"
SECOND = "- **1.1**: the log of a gauge, heights in centimetres"
RUST_READING = "    Some((minute.parse().ok()?, height.trim().parse().ok()?))\n"
RUST_CHECKED = """\
    let height: i64 = height.trim().parse().ok()?;
    if !(-5_000..=20_000).contains(&height) {
        return None; // no sea can have that
    }
    Some((minute.parse().ok()?, height))
"""
NIGHT = """\
@media (prefers-color-scheme: dark) {
  :root {
    --water: #7cc4ec;
    --sand: #14202a;
  }
}

body {
"""
FEET_OPTION = """\
    parser.add_argument("--days", type=int, default=1)
    parser.add_argument("--feet", action="store_true", help="heights in feet")
"""
FEET_USED = """\
        shown = f"{height / 0.3048:5.1f} ft" if asked.feet else f"{height:5.2f} m"
        print(f"{moment:%a %d %b %H:%M}  {shown}  {kind}")
"""
METRES_USED = '        print(f"{moment:%a %d %b %H:%M}  {height:5.2f} m  {kind}")\n'
WIND = '''\
"""How far the wind moves the sea: a rule of thumb."""

from math import cos, radians


def surge(speed: float, direction: float, open_to: float, depth: float) -> float:
    """Metres by which a steady wind raises the water.

    `speed` in metres a second; both directions in degrees.
    """
    towards = cos(radians(direction - open_to))
    return 0.0007 * speed**2 * towards / depth
'''
SPRINGS = '''\
"""Springs and neaps: how large the tide of a day is."""

from tides.harmonics import Constituent


def largest_range(waves: list[Constituent]) -> float:
    """Metres between high and low water when moon and sun pull together."""
    return 2 * sum(wave.amplitude for wave in waves if wave.name in ("M2", "S2"))
'''

MAIN = [
    Step("alice", "Begin a tide table", ("README.md", "LICENSE")),
    Step(
        "alice",
        "Compute the height of the tide at a moment\n\nFour constituents are enough to begin with.",
        ("tides/__init__.py", "tides/harmonics.py"),
    ),
    Step("bob", "Test the height against one computed by hand", ("tests/test_harmonics.py",)),
    Step("bob", "Find high and low water", ("tides/extremes.py",)),
    Step(
        "alice",
        "Describe harbours in files of their own",
        ("tides/harbours.py", "harbours/amber-quay.toml", "harbours/gull-island.toml"),
    ),
    Step("alice", "Print a table", ("tides/__main__.py",)),
    Step("alice", "Print the table of a week", ("bin/print-week.sh",)),
    Step("bob", "Keep the readings of the gauge in a database", ("db/schema.sql",)),
    Step("bob", "Ask the database for the range of each day", ("db/daily-range.sql",)),
    Step(
        "alice",
        "Show the tide as a curve in a page",
        ("web/index.html", "web/curve.js", "web/style.css"),
        made={"web/sample.json": sample()},
    ),
    Step(
        "alice",
        "Explain how heights are computed",
        ("docs/how-it-works.md",),
        made={"docs/curve.png": picture()},
    ),
    Step("bob", "Run it in a container", ("Dockerfile",)),
    Step(
        "alice",
        "Release 1.0",
        made={"VERSION": File.text("1.0"), "CHANGELOG.md": changelog(FIRST)},
    ),
    Step("bob", "Use other colours at night", edits={"web/style.css": ("body {\n", NIGHT)}),
    Step("alice", "Read the log of a gauge", ("gauge/Cargo.toml", "gauge/src/main.rs")),
    Step(
        "bob",
        "Refuse readings that no sea can have\n\nThe gauge sends -32768 while it starts.",
        edits={"gauge/src/main.rs": (RUST_READING, RUST_CHECKED)},
    ),
    Step("alice", "Keep the times of new moons", made={"data/new-moons.bin": new_moons()}),
    Step(
        "bob",
        "Begin the documents with the README",
        made={"docs/README.md": File.link("../README.md")},
    ),
    Step(
        "bob",
        "Call the script after what it prints",
        edits={"README.md": ("bin/print-week.sh", "bin/week.sh")},
        made={"bin/week.sh": edit(read("bin/print-week.sh"), "bin/print-week.sh", "bin/week.sh")},
        removes=("bin/print-week.sh",),
    ),
    Step("bob", "Round heights to centimetres", edits={"tides/harmonics.py": (HEIGHT, ROUNDED)}),
    Step(
        "alice",
        "Release 1.1",
        made={"VERSION": File.text("1.1"), "CHANGELOG.md": changelog(SECOND, FIRST)},
    ),
]
"""The default branch, oldest first."""

BEFORE_ROUNDING = -3
"""Where in `MAIN` the branch with the conflict begins."""

TOPICS: dict[str, list[Step]] = {
    "spring-tides": [
        Step("alice", "Tell the largest range", made={"tides/springs.py": File.text(SPRINGS)})
    ],
    "feet": [
        Step(
            "alice",
            "Take an option for feet",
            edits={"tides/__main__.py": (FEET_OPTION.splitlines(True)[0], FEET_OPTION)},
        ),
        Step(
            "alice",
            "Show heights in feet",
            edits={"tides/__main__.py": (METRES_USED, FEET_USED)},
        ),
    ],
    "millimetres": [
        Step(
            "alice",
            "Round heights to millimetres",
            edits={"tides/harmonics.py": (HEIGHT, MILLIMETRES)},
        )
    ],
    "wind": [Step("alice", "Estimate the surge", made={"tides/wind.py": File.text(WIND)})],
    "small-image": [
        Step(
            "bob",
            "Leave the harbours out of the image",
            edits={"Dockerfile": ("COPY harbours harbours\n", "VOLUME /app/harbours\n")},
        )
    ],
    "north-coast": [
        Step("alice", "Add the harbours of the north coast", made=dict(north_coast())),
        Step(
            "alice",
            "Say that there are harbours in the north",
            edits={"README.md": ("harbours are made up", "harbours, 26 of them, are made up")},
        ),
    ],
}
"""What each branch has beside the default one."""
QUAY = "M2 = [1.62, 112.0]\n"
FORK = [
    Step(
        "dave",
        "Measure Amber Quay anew",
        edits={"harbours/amber-quay.toml": (QUAY, "M2 = [1.64, 112.5]\n")},
    ),
    Step(
        "dave",
        "Say when Amber Quay was measured",
        edits={"harbours/amber-quay.toml": ('Quay"\n', 'Quay"\nmeasured = 2024-06-01\n')},
    ),
]
"""The branch `amber-quay` of the fork."""
