"""`manage.py serve`: the embedded mode, all of Guildhall by one command."""

from __future__ import annotations

import secrets
from socket import socket
from typing import Any

from django.conf import settings
from django.core.management import call_command
from django.core.management.base import BaseCommand, CommandError, CommandParser

from apps.accounts import actions
from apps.accounts.models import User
from apps.core.views import server_url
from apps.jobs import worker
from apps.ssh.addresses import ssh_url
from apps.ssh.process import fingerprints
from config import demo, ssh
from config.monitoring import monitoring
from config.server import Server, end_at_once, listen
from config.static import collect

FIRST_USER = """\
This is a new installation. Its first user, shown only once:
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
        end_at_once()
        listening = self.listen()
        over_ssh = self.listen_for_ssh()
        address = server_url()
        metrics_line = monitoring.listen(settings.METRICS_ADDRESS)
        call_command("migrate", verbosity=0, interactive=False)
        collect()
        self.welcome(address)
        if options["demo"]:
            self.stdout.write(demo.load())
        if settings.ALLOWED_HOSTS == ["*"]:
            self.stderr.write("Anybody who reaches this machine can connect, by any host name.")
        if over_ssh:
            ssh.start(over_ssh, listening)
        server = Server(listening, settings.WEB_CONCURRENCY, load_application)
        if metrics_line:
            self.stdout.write(metrics_line)
        if over_ssh:
            self.stdout.write(f"git over SSH is at {ssh_url()}")
            for line in fingerprints():
                self.stdout.write(line)
        self.stdout.write(f"Guildhall is at {address} (Ctrl-C ends it)")
        self.stdout.flush()
        server.run()

    def listen(self) -> socket:
        """Listen before anything else: if the port is taken, nothing has been changed.

        Links and stream frames use this address from now on.
        """
        try:
            listening = listen(settings.HOST, settings.PORT)
        except OSError as error:
            raise CommandError(
                f"Cannot listen at {settings.HOST}:{settings.PORT}: {error.strerror}. "
                "Choose another port with PORT=8001, say."
            ) from None
        settings.HOST, settings.PORT = listening.getsockname()[:2]
        return listening

    def listen_for_ssh(self) -> socket | None:
        try:
            return ssh.listen()
        except OSError as error:
            raise CommandError(f"Cannot listen at SSH_ADDRESS: {error.strerror}.") from None

    def welcome(self, address: str) -> None:
        """Create the first user and print its secrets, unless there are users."""
        if User.objects.exists():
            return
        password = secrets.token_urlsafe(12)
        admin = actions.create_user(
            principal=None, username="admin", password=password, is_staff=True
        )
        _, token = actions.create_token(principal=None, owner=admin, name="first token")
        self.stdout.write(
            FIRST_USER.format(username=admin, password=password, token=token, address=address)
        )


def load_application() -> Any:
    """The ASGI application. The worker runs in a thread beside it with any database."""
    from config.asgi import application

    worker.start()
    return application
