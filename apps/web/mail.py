"""Messages to people, sent beside the requests that ask for them."""

from __future__ import annotations

import logging
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from urllib.parse import urlencode

from django.contrib.auth.tokens import default_token_generator
from django.core.mail import EmailMessage
from django.template.loader import render_to_string
from django.urls import reverse

from apps.accounts.models import User
from apps.core.views import site_url

SENDER = ThreadPoolExecutor(1, thread_name_prefix="mail")
"""One at a time; what is waiting is still sent when the process ends."""
logger = logging.getLogger(__name__)


def send_resets(people: Iterable[User]) -> None:
    """Send each of them the way to a new password.

    Returns at once, and as soon for nobody as for somebody: making and sending the message would
    tell by its time who has an account.
    """
    SENDER.submit(_send_resets, list(people))


def _send_resets(people: list[User]) -> None:
    for user in people:
        secret = {"user": user.uuid, "token": default_token_generator.make_token(user)}
        link = f"{site_url()}{reverse('new-password')}?{urlencode(secret)}"
        text = render_to_string("web/mail/reset.txt", {"user": user, "link": link})
        try:
            EmailMessage("A new password for Guildhall", text, to=[user.email]).send()
        except Exception as error:  # whatever the way out is, and its text may hold the address
            logger.error("A message could not be sent: %s", type(error).__name__)
