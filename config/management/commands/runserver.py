"""`manage.py runserver`: Django's development server, with the live stream."""

from __future__ import annotations

from daphne.management.commands import runserver

from config.embedded import Server


class Command(runserver.Command):  # type: ignore[misc]
    server_cls = Server
