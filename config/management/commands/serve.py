"""`manage.py serve`: the embedded mode, all of Guildhall in one process (engine.md §1)."""

from __future__ import annotations

import secrets
from typing import Any

from django.conf import settings
from django.core.management import call_command
from django.core.management.base import BaseCommand, CommandParser
from django.db import connections

from apps.accounts import actions
from apps.accounts.models import User
from apps.jobs import worker
from config import demo

FIRST_USER = """\
Guildhall is new here, so there is a first user. This is shown once:
    username  {username}
    password  {password}
    token     {token}
Try it:
    curl -H 'Authorization: Bearer {token}' {address}/api/v1/teams
"""


class Command(BaseCommand):
    help = "Serve on HOST and PORT until Ctrl-C; makes the database and a first user if needed."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument(
            "--demo", action="store_true", help="fill an empty Guildhall with an example first"
        )

    def handle(self, *args: Any, **options: Any) -> None:
        # Twisted's reactor comes with these, which no other command needs.
        from config.asgi import application
        from config.embedded import Server

        server = Server.at(application, settings.HOST, settings.PORT)
        address = f"http://{settings.HOST}:{settings.PORT}"
        call_command("migrate", verbosity=0, interactive=False)
        self.welcome(address)
        if options["demo"]:
            self.stdout.write(demo.load())
        worker.start()  # all in one process, whatever the database
        connections.close_all()
        if settings.ALLOWED_HOSTS == ["*"]:
            self.stderr.write("Anybody who reaches this machine can connect, by any host name.")
        self.stdout.write(f"Guildhall is at {address} (Ctrl-C ends it)")
        self.stdout.flush()
        server.run()

    def welcome(self, address: str) -> None:
        """Make the first user and show its secrets, unless there are users."""
        if User.objects.exists():
            return
        password = secrets.token_urlsafe(12)
        admin = actions.create_user(actor=None, username="admin", password=password, is_staff=True)
        _, token = actions.create_token(actor=admin, owner=admin, name="first token")
        self.stdout.write(
            FIRST_USER.format(username=admin, password=password, token=token, address=address)
        )
