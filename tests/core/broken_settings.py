"""The project's settings with the routes of `broken.py`, for real servers."""

from config.settings import *  # noqa: F403

ROOT_URLCONF = "tests.core.broken"
