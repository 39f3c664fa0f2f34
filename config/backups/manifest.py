"""The manifest of a backup: its origin and the numbers of its parts. DATA_DIR has a copy of the
last one, for staff.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

from django.conf import settings
from django.db import connection

from config.installation import known_migrations

FILE = "manifest.json"
LAST = "last-backup.json"
"""The file in DATA_DIR with the manifest of the last backup and its folder."""
FORMAT = 1
GUILDHALL = str(settings.SPECTACULAR_SETTINGS["VERSION"])


@dataclass(frozen=True)
class Manifest:
    """The content of `manifest.json`. `bytes`: of repositories and uploads. Times are ISO 8601."""

    format: int
    guildhall: str
    database: str
    started: str
    finished: str
    newest_event: int
    repositories: int
    uploads: int
    bytes: int
    rows: dict[str, int]
    migrations: list[str]

    def write(self, folder: Path) -> None:
        """Write it completely or not at all. `OSError`."""
        _write(folder / FILE, asdict(self))

    def write_as_last(self, folder: Path) -> None:
        """Tell staff of this installation that its last backup is in this folder. `OSError`."""
        _write(Path(settings.DATA_DIR, LAST), {**asdict(self), "folder": str(folder.resolve())})


def _write(path: Path, content: dict[str, Any]) -> None:
    unfinished = path.with_name(f"{path.name}.tmp")
    unfinished.write_text(json.dumps(content, indent=1))
    unfinished.replace(path)


@dataclass(frozen=True)
class LastBackup:
    """The last backup, or the one from which this installation was restored."""

    folder: str
    manifest: Manifest
    finished: datetime
    seconds: float
    """How long it took; 0 if the clock was set back meanwhile."""

    @classmethod
    def of(cls, folder: str, made: Manifest) -> LastBackup:
        """`TypeError` or `ValueError` if the times are none."""
        started, finished = map(datetime.fromisoformat, (made.started, made.finished))
        return cls(folder, made, finished, max(0.0, (finished - started).total_seconds()))


def last() -> LastBackup | None:
    """The last complete backup; None if there is none. `ValueError` if its file is damaged."""
    path = Path(settings.DATA_DIR, LAST)
    try:
        content = json.loads(path.read_text())
        return LastBackup.of(content.pop("folder"), Manifest(**content))
    except FileNotFoundError:
        return None
    except (AttributeError, KeyError, TypeError, ValueError):
        raise ValueError(f"{path} is damaged.") from None


def read(folder: Path) -> Manifest:
    """The manifest of a backup. `ValueError` if the folder is no complete backup of this format."""
    try:
        content = json.loads((folder / FILE).read_text())
        if content["format"] == FORMAT:
            return Manifest(**content)
    except FileNotFoundError:
        raise ValueError(f"{folder} is no complete backup: it has no {FILE}.") from None
    except (KeyError, TypeError, ValueError):
        raise ValueError(f"{folder / FILE} is damaged.") from None
    raise ValueError(f"{folder} is a backup of another format: {content['format']}.")


def check_restorable(manifest: Manifest) -> None:
    """`ValueError` if the backup is of another kind of database, or of a newer Guildhall."""
    if manifest.database != connection.vendor:
        raise ValueError(
            f"The backup is of {manifest.database}, but DATABASE_URL is of {connection.vendor}."
        )
    migrations = {f"{app}.{name}" for app, name in known_migrations()}
    if unknown := sorted(set(manifest.migrations) - migrations):
        raise ValueError(
            f"The backup is of a newer Guildhall ({manifest.guildhall}): this one has no migration "
            f"{unknown[0]}."
        )
