"""The project's settings with a database and a data folder for one test run.

SQLite is a file in WAL mode, as in the embedded mode: in memory, threads would lose writes. With
`DATABASE_URL` that server is used instead.
"""

from __future__ import annotations

import atexit
import os
import shutil
import tempfile
from pathlib import Path

_data = Path(tempfile.mkdtemp(prefix="guildhall-tests-"))
atexit.register(shutil.rmtree, _data, ignore_errors=True)
os.environ["DATA_DIR"] = str(_data)
os.environ.setdefault("SECRET_KEY", "tests-only")

from config.settings import *  # noqa: E402, F403
from config.settings import DATABASES  # noqa: E402

# Each test client loads the middleware; looking for static files would take half of a test.
WHITENOISE_AUTOREFRESH = True
WORKER_THREAD = False  # tests run the jobs that they need
WORKER_CONTEXTS = []
# Tests empty the tables: the database then lacks the id of its folder.
SILENCED_SYSTEM_CHECKS = ["guildhall.E001"]
PASSWORD_HASHERS = ["django.contrib.auth.hashers.MD5PasswordHasher"]
if DATABASES["default"]["ENGINE"].endswith("sqlite3"):
    DATABASES["default"]["TEST"] = {"NAME": str(_data / "tests.db")}
    # Test databases need not survive a loss of power; real servers in tests keep their settings.
    DATABASES["default"]["OPTIONS"]["init_command"] += "PRAGMA synchronous=OFF;"
else:
    # A test run has few connections, and a pool would outlive the test database.
    DATABASES["default"]["OPTIONS"].pop("pool", None)
# Tests count in their own process by default, and see changes at once.
REDIS_URL = ""
LIMITS_LOOK = 3600.0
