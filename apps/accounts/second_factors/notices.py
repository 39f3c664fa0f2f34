"""E-mails to a person about changes of how they sign in. They do not depend on `wants_mail`, nor
on the limit of mail to one address, which others could use up first.
"""

from __future__ import annotations

from django.db import transaction
from django.template.loader import render_to_string

from apps.accounts.models import User
from apps.core import mail
from apps.core.views import site_url


class Notice:
    """Texts for each change, as the end of "On your account, …"."""

    TURNED_ON = "a second factor was turned on"
    TURNED_OFF = "the second factor was turned off"
    RESET = "the second factor was turned off by the staff of the site"
    RECOVERY_USED = "a recovery code was used"
    NEW_CODES = "new recovery codes were created; the old ones no longer work"
    PASSKEY_ADDED = "a passkey was added"
    PASSKEY_REMOVED = "a passkey was removed"
    IDENTITY_LINKED = "an account for single sign-on was linked, which now signs in to it"
    IDENTITY_UNLINKED = "an account for single sign-on was unlinked"


def notify(user: User, notice: str) -> None:
    """Send one of `Notice` after the commit, if the person has an address. Returns at once."""
    if not user.email:
        return
    context = {"user": user, "notice": notice, "link": site_url()}
    text = render_to_string("web/mail/second-factor.txt", context)
    subject = f"Your Guildhall account: {notice}"
    transaction.on_commit(lambda: mail.send_later(user.email, subject, text))
