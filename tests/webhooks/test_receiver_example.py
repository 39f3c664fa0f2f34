"""`docs/examples/webhook_receiver.py`, with which docs/webhooks.md begins."""

from __future__ import annotations

import os
import re
import socket
import subprocess
import sys
from contextlib import contextmanager
from http.client import HTTPConnection

from apps.webhooks.delivery import redeliver, send_ping
from apps.webhooks.models import Webhook
from tests.server import ROOT
from tests.waiting import eventually

EXAMPLE = ROOT / "docs" / "examples" / "webhook_receiver.py"
PAGE = (ROOT / "docs" / "webhooks.md").read_text()


def free_port():
    with socket.create_server(("127.0.0.1", 0)) as server:
        return server.getsockname()[1]


def post(port, headers=None):
    """The status of the answer to a request with this signature or none."""
    connection = HTTPConnection("127.0.0.1", port, timeout=60)
    connection.request("POST", "/", b"{}", headers or {})
    return connection.getresponse().status


@contextmanager
def running(secret, port, output):
    with output.open("w") as out:
        program = subprocess.Popen(
            [sys.executable, EXAMPLE, str(port)], env={**os.environ, "SECRET": secret}, stdout=out
        )
    try:
        eventually(lambda: answers(port))
        yield
    finally:
        program.kill()
        program.wait()


def answers(port):
    try:
        return post(port) == 401
    except OSError:
        return False


def test_the_example_receives_each_event_once_and_refuses_others(
    of_repo, on_this_machine, tmp_path
):
    port, output = free_port(), tmp_path / "output"
    made = of_repo.create(url=f"http://127.0.0.1:{port}/hook")
    webhook = Webhook.objects.get(uuid=made["uuid"])
    with running(made["secret"], port, output):
        forged = {"webhook-id": "evt_1", "webhook-timestamp": "1", "webhook-signature": "v1,AAAA"}
        assert post(port, forged) == 401
        delivery = send_ping(webhook)
        assert (delivery.status, delivery.response_status) == ("succeeded", 204)
        assert redeliver(delivery).response_status == 204
        other = Webhook.objects.create(
            url=webhook.url, cursor_event_id=0, created_by=webhook.created_by
        )
        assert send_ping(other).response_status == 401  # signed with another secret
    [line] = output.read_text().splitlines()
    assert line.startswith("ping {") and made["uuid"] in line


def test_the_page_shows_the_program_as_it_is():
    example = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)[0]
    program = unindented(EXAMPLE.read_text())
    assert all(unindented(part) in program for part in example.split("\n\n"))


def unindented(text):
    return "\n".join(line.strip() for line in text.strip().splitlines())
