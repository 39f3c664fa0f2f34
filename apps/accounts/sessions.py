"""Sessions in the database, for `SESSION_ENGINE`."""

from __future__ import annotations

from django.contrib.sessions.backends import db


class SessionStore(db.SessionStore):
    """Looks no key up that Django never makes: PostgreSQL fails if there is a NUL in a text."""

    def __init__(self, session_key: str | None = None) -> None:
        super().__init__(session_key if session_key and session_key.isalnum() else None)
