"""The manifest of a backup: its origin and the numbers of its parts."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from pathlib import Path

from django.conf import settings
from django.db import connection

from config.installation import known_migrations

FILE = "manifest.json"
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
        unfinished = folder / f"{FILE}.tmp"
        unfinished.write_text(json.dumps(asdict(self), indent=1))
        unfinished.replace(folder / FILE)


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
