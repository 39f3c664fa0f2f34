"""A configuration of gunicorn's, whose workers give Redis all the time that it needs."""

from apps.site import shared

shared.PATIENCE = 60.0
