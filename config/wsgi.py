"""The WSGI application, for gunicorn."""

import os
import sys

import django

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "config.settings")
django.setup(set_prefix=False)

# These modules import models, for which Django must be set up.
from apps.jobs.worker import start_if_wanted  # noqa: E402
from config.checks import refusal_at_start, warn_at_start  # noqa: E402
from config.health import Application, drain_at_end  # noqa: E402

if refusal := refusal_at_start():
    sys.stderr.write(f"{refusal}\n")
    sys.exit(3)  # gunicorn ends; after any other status it would start the next worker
application = Application()
drain_at_end()
warn_at_start()
start_if_wanted()
