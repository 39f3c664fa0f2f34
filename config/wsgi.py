"""The WSGI application, for gunicorn."""

import os

from django.core.wsgi import get_wsgi_application

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "config.settings")
application = get_wsgi_application()

from apps.jobs.worker import start_if_wanted  # noqa: E402
from config.checks import warn_of_counting_apart  # noqa: E402

warn_of_counting_apart()
start_if_wanted()
