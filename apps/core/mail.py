"""Sends e-mail by the server of `EMAIL_URL`."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor

from django.core.mail import EmailMessage

from apps.core.controls import without_controls

logger = logging.getLogger(__name__)

SENDER = ThreadPoolExecutor(1, thread_name_prefix="mail")
"""Sends one e-mail at a time; the process ends after it has sent those in the queue."""


def send_later(to: str, subject: str, text: str) -> None:
    """Send a text by `SENDER`, and return at once."""
    SENDER.submit(send, to, subject, text)


def send(to: str, subject: str, text: str, headers: Mapping[str, str] | None = None) -> bool:
    """Send a text to an address. If that fails, log it without the address and return False.

    Each step of the protocol may take `EMAIL_TIMEOUT` seconds: do not call it in a request.
    """
    subject = without_controls(" ".join(subject.split()))  # of a title from before their rule
    try:
        EmailMessage(subject, text, to=[to], headers=dict(headers or {})).send()
    except Exception as error:  # of any backend; its text may contain the address
        logger.error("A message could not be sent: %s", type(error).__name__)
        return False
    return True
