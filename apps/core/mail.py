"""Sending one message by mail, as `EMAIL_URL` says."""

from __future__ import annotations

import logging
from collections.abc import Mapping

from django.core.mail import EmailMessage

from apps.core.controls import without_controls

logger = logging.getLogger(__name__)


def send(to: str, subject: str, text: str, headers: Mapping[str, str] | None = None) -> bool:
    """Send a text to an address; False when it could not be sent, which is logged without it.

    Takes up to `EMAIL_TIMEOUT` seconds for each step of the protocol: not for a request.
    """
    subject = without_controls(" ".join(subject.split()))  # of a title from before their rule
    try:
        EmailMessage(subject, text, to=[to], headers=dict(headers or {})).send()
    except Exception as error:  # whatever the way out is, and its text may hold the address
        logger.error("A message could not be sent: %s", type(error).__name__)
        return False
    return True
