"""`manage.py collectstatic`: Django's command, while other servers use the folder."""

from __future__ import annotations

import shutil
import time
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from django.conf import settings
from django.contrib.staticfiles.management.commands import collectstatic

from config.static import HashedStorage

PREFIX = "static-"
LEFTOVER = 3600.0
"""Seconds after which another process no longer collects into a folder."""


class Command(collectstatic.Command):
    def collect(self) -> dict[str, list[str]]:
        """Collect into a folder beside, and move each file into its place.

        Django deletes and writes anew each file whose name it has computed. A server would send a
        part of such a file meanwhile, or none, and browsers would store it for good.
        """
        storage: Any = self.storage
        remove_leftovers(Path(settings.DATA_DIR))
        with TemporaryDirectory(dir=settings.DATA_DIR, prefix=PREFIX) as folder:
            configured: Any = settings.STORAGES["staticfiles"]
            self.storage = HashedStorage(location=folder, **configured["OPTIONS"])
            collected = super().collect()
            publish(Path(folder), Path(settings.STATIC_ROOT))
        storage.hashed_files, storage.manifest_hash = storage.load_manifest()
        return collected


def remove_leftovers(data_dir: Path) -> None:
    """Remove folders of interrupted commands."""
    for folder in data_dir.glob(f"{PREFIX}*"):
        if time.time() - folder.stat().st_mtime >= LEFTOVER:
            shutil.rmtree(folder, ignore_errors=True)


def publish(source: Path, target: Path) -> None:
    """Move all files, the list of their names last: nobody asks for a file before."""
    paths = [path for path in source.rglob("*") if path.is_file()]
    for path in sorted(paths, key=lambda path: path.name == HashedStorage.manifest_name):
        place = target / path.relative_to(source)
        place.parent.mkdir(parents=True, exist_ok=True)
        path.replace(place)
