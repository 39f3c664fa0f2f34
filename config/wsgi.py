"""The WSGI application, for gunicorn."""

import os
import sys

from django.core.wsgi import get_wsgi_application

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "config.settings")
application = get_wsgi_application()

# These have models below them, which need Django to be set up.
from apps.jobs.worker import start_if_wanted  # noqa: E402
from apps.repos.http.transfer_slots import process_slots  # noqa: E402
from config.checks import gunicorn_threads, warn_at_start  # noqa: E402

warn_at_start()
start_if_wanted()
# Here each request of git's has a thread until its client has taken the last byte.
if "gunicorn.arbiter" in sys.modules and (threads := gunicorn_threads(sys.argv[1:], os.environ)):
    process_slots.leave_threads(threads)
