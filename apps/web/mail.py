"""Messages to people, sent beside the requests that ask for them."""

from __future__ import annotations

from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from urllib.parse import urlencode

from django.conf import settings
from django.template.loader import render_to_string
from django.urls import reverse

from apps.accounts.models import User
from apps.accounts.proofs import address_proof, reset_proof
from apps.core import mail
from apps.core.views import site_url
from apps.site.limits import admits_mail

SENDER = ThreadPoolExecutor(1, thread_name_prefix="mail")
"""One at a time; what is waiting is still sent when the process ends."""
NO_MAIL = "This site sends no e-mail: ask its staff for the link, which the server has printed"


def send_reset(email: str) -> None:
    """Send whoever has this address the way to a new password; nothing where it had enough mail.

    Returns at once, and as soon for nobody as for somebody: making and sending the message would
    tell by its time who has an account. For the same reason mail to nobody is counted as well.
    """
    people = list(User.objects.filter(email_key=email.lower(), is_active=True))
    if admits_mail(email):
        SENDER.submit(_send_resets, people)


def send_confirmation(user: User, email: str) -> str:
    """Send to an address the link by which it becomes the person's; returns what to tell them.

    Nobody looks whether another account has it: whoever opens the link is told. Where the address
    had enough mail nothing is sent, and the same is told.
    """
    secret, title = (
        {"token": address_proof(user, email)},
        "Confirm your e-mail address for Guildhall",
    )
    if admits_mail(email):
        SENDER.submit(_send, email, title, "confirm-email", user, secret)
    way = f"We have sent a link to {email}" if settings.SENDS_MAIL else NO_MAIL
    return f"Your e-mail address is not confirmed yet. {way}. It works for a day."


def _send_resets(people: list[User]) -> None:
    for user in people:
        secret = {"token": reset_proof(user)}
        _send(user.email, "Reset your Guildhall password", "new-password", user, secret)


def _send(to: str, subject: str, page: str, user: User, secret: Mapping[str, object]) -> None:
    """Send the template of this page's name, with a link to the page that carries the secret."""
    link = f"{site_url()}{reverse(page)}?{urlencode(secret)}"
    text = render_to_string(f"web/mail/{page}.txt", {"user": user, "link": link})
    mail.send(to, subject, text)
