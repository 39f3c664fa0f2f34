"""Sessions in the database, for `SESSION_ENGINE`."""

from __future__ import annotations

from django.conf import settings
from django.contrib.sessions.backends import db
from django.contrib.sessions.models import Session
from django.db import OperationalError
from django.http import HttpRequest
from django.utils import timezone

from apps.accounts.models import SEEN_EVERY, USER_AGENT_MAX, BrowserSession, User
from apps.core.errors import is_storage_full
from apps.core.requests import address_of
from apps.events import wake

SEEN = "seen"
"""Key of a session for the time of its last visit that was stored, in seconds."""


class SessionStore(db.SessionStore):
    """Looks no key up that Django never makes: PostgreSQL fails if there is a NUL in a text."""

    def __init__(self, session_key: str | None = None) -> None:
        super().__init__(session_key if session_key and session_key.isalnum() else None)

    def cycle_key(self) -> None:
        """Change the key. The row with the former key is deleted, and the next visit makes one."""
        self.pop(SEEN, None)
        super().cycle_key()

    def note_visit(self, user: User, request: HttpRequest) -> None:
        """Store when and where this session of the person was last used, once in `SEEN_EVERY`.

        It does nothing if the disk is full, so that pages still work.
        """
        now = timezone.now()
        if now.timestamp() - self.get(SEEN, 0) < SEEN_EVERY.total_seconds():
            return
        visit = BrowserSession(
            user=user,
            session_id=str(self.session_key),
            created_at=now,
            last_seen_at=now,
            address=address_of(request.META, settings.TRUSTED_PROXIES),
            user_agent=request.headers.get("User-Agent", "").replace("\0", "")[:USER_AGENT_MAX],
        )
        try:
            BrowserSession.objects.bulk_create(
                [visit],
                update_conflicts=True,
                unique_fields=["session"],
                update_fields=["last_seen_at", "address", "user_agent"],
            )
            user.note_seen()
        except OperationalError as error:
            if not is_storage_full(error):
                raise
            return
        self[SEEN] = now.timestamp()


def end_all_sessions(user: User) -> list[str]:
    """End all sessions of the person; return the fields that the caller saves.

    The caller has locked the person. Sessions without a row end too, by `deactivations`.
    """
    Session.objects.filter(browser__user=user).delete()
    wake.notify_on_commit(user.pk)
    user.deactivations += 1
    return ["deactivations"]
