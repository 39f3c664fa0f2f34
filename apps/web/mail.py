"""E-mails that requests send: to reset a password, and to confirm an address."""

from __future__ import annotations

from urllib.parse import urlencode

from django.conf import settings
from django.contrib.auth.hashers import UNUSABLE_PASSWORD_PREFIX
from django.template.loader import render_to_string
from django.urls import reverse

from apps.accounts.models import User
from apps.accounts.proofs import address_proof, reset_proof
from apps.core import mail
from apps.core.views import site_url
from apps.site.limits import admits_mail

NO_MAIL = "This site sends no e-mail: ask its staff for the link, which the server has printed"


def send_reset(email: str) -> None:
    """Send a link to reset the password to the accounts with this address, within its mail limit.

    Returns at once, and takes as long for an unknown address: the time of sending must not reveal
    whether an account exists. For the same reason mail to unknown addresses counts.
    """
    holders = User.objects.filter(email_key=email.lower(), is_active=True)
    if settings.OIDC_ISSUER:  # accounts that the provider has made get no password
        holders = holders.exclude(
            password__startswith=UNUSABLE_PASSWORD_PREFIX, identities__isnull=False
        )
    people = list(holders)
    if admits_mail(email):
        mail.SENDER.submit(_send_resets, people)


def send_confirmation(user: User, email: str) -> str:
    """Send the link that confirms an e-mail address; returns the message for the person.

    Whether another account has the address is checked when the link is opened. The message is the
    same if nothing is sent because of the mail limit of the address.
    """
    title, proof = "Confirm your e-mail address for Guildhall", address_proof(user, email)
    if admits_mail(email):
        mail.SENDER.submit(_send, email, title, "confirm-email", user, proof)
    way = f"We have sent a link to {email}" if settings.SENDS_MAIL else NO_MAIL
    return f"Your e-mail address is not confirmed yet. {way}. It works for a day."


def _send_resets(people: list[User]) -> None:
    for user in people:
        title, proof = "Reset your Guildhall password", reset_proof(user)
        _send(user.email, title, "new-password", user, proof)


def _send(to: str, subject: str, page: str, user: User, proof: str) -> None:
    """Send the e-mail `web/mail/<page>.txt` with a link to that page."""
    link = f"{site_url()}{reverse(page)}?{urlencode({'token': proof})}"
    text = render_to_string(f"web/mail/{page}.txt", {"user": user, "link": link})
    mail.send(to, subject, text)
