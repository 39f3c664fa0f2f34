"""A configuration of gunicorn whose workers wait for a slow Redis."""

from apps.site import shared

shared.PATIENCE = 60.0
