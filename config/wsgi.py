"""The WSGI application, for gunicorn."""

import os

from django.core.wsgi import get_wsgi_application

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "config.settings")
application = get_wsgi_application()

# These modules import models, for which Django must be set up.
from apps.jobs.worker import start_if_wanted  # noqa: E402
from config.checks import warn_at_start  # noqa: E402

warn_at_start()
start_if_wanted()
