"""The project's settings with a database and a data folder that belong to one test run.

SQLite is a file here, in WAL, as in the embedded mode: in memory, threads would lose writes.
With `DATABASE_URL` set, that server is used instead.
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

# Each test client loads the middleware anew; looking for static files then takes half of a test.
WHITENOISE_AUTOREFRESH = True
WORKER_THREAD = False  # tests do its work when they want it done
PASSWORD_HASHERS = ["django.contrib.auth.hashers.MD5PasswordHasher"]
if DATABASES["default"]["ENGINE"].endswith("sqlite3"):
    DATABASES["default"]["TEST"] = {"NAME": str(_data / "tests.db")}
    # Nobody pulls the plug on a test database; real servers in tests keep their own settings.
    DATABASES["default"]["OPTIONS"]["init_command"] += "PRAGMA synchronous=OFF;"
else:
    # A test run holds few connections; a pool would outlive the test database.
    DATABASES["default"]["OPTIONS"].pop("pool", None)
# Tests count in their own process unless they say otherwise, and see each change at once.
REDIS_URL = ""
LIMITS_LOOK = 3600.0
