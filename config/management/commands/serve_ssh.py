"""`manage.py serve_ssh`: git over SSH (docs/ssh.md)."""

from __future__ import annotations

import os
import socket
from typing import Any

from django.core.management.base import BaseCommand, CommandError

from apps.ssh.process import fingerprints, listen, run
from config.server import allow_many_files


class Command(BaseCommand):
    help = "Serve git over SSH at SSH_ADDRESS until Ctrl-C or SIGTERM."

    def handle(self, *args: Any, **options: Any) -> None:
        try:
            listening = listen()
        except OSError as error:
            raise CommandError(f"Cannot listen at SSH_ADDRESS: {error.strerror}.") from None
        if listening is None:
            raise CommandError("Set SSH_ADDRESS, such as SSH_ADDRESS=0.0.0.0:2222.")
        allow_many_files()
        run(listening, on_ready=self.report)

    def report(self, listening: socket.socket) -> None:
        host, port = listening.getsockname()[:2]
        self.stdout.write(f"git over SSH is at ssh://git@{host}:{port}")
        for line in fingerprints():
            self.stdout.write(line)
        self.stdout.flush()
        notify_systemd()


def notify_systemd() -> None:
    """Tell systemd that the service is ready, if it has started this process (`Type=notify`)."""
    name = os.environ.get("NOTIFY_SOCKET", "")
    if not name:
        return
    address = f"\0{name[1:]}" if name.startswith("@") else name
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as notify:
        notify.sendto(b"READY=1", address)
