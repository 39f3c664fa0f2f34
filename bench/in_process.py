"""Django with the settings of an installation in this process, for benchmarks without a server.

The data is where DATA_DIR and DATABASE_URL say, or in a temporary folder.
"""

from __future__ import annotations

import os
import sys
import tempfile
from pathlib import Path

import django

ROOT = Path(__file__).resolve().parent.parent
FOLDER = tempfile.TemporaryDirectory()
sys.path.insert(0, str(ROOT))
os.environ.setdefault("DATA_DIR", FOLDER.name)
os.environ.setdefault("SECRET_KEY", "bench")
os.environ["DJANGO_SETTINGS_MODULE"] = "config.settings"
django.setup()

from django.conf import settings  # noqa: E402 - needs the settings
from django.core.management import call_command  # noqa: E402 - needs the settings

settings.ALLOWED_HOSTS = ["*"]


def migrate() -> None:
    """Create the tables of the database, unless they exist."""
    call_command("migrate", verbosity=0)
