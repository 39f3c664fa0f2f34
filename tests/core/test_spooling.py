"""How much of a request body a server stores for anonymous clients."""

from __future__ import annotations

import re
from contextlib import closing, suppress
from pathlib import Path

import pytest

from tests.server import Server

MIB = 1024 * 1024
SENT = 64 * MIB
BOUNDARY = "b" * 30
FORM = (
    f'--{BOUNDARY}\r\nContent-Disposition: form-data; name="f"; filename="f"\r\n'
    "Content-Type: application/octet-stream\r\n\r\n"
).encode()
HEADERS = {
    "Content-Type": f"multipart/form-data; boundary={BOUNDARY}",
    # A made-up cookie, which makes Django read the form to compare both.
    "Cookie": f"csrftoken={'a' * 32}",
    "Content-Length": str(SENT),
}


def written(server: Server) -> int:
    """Bytes that the serving processes have written so far: to files and in answers."""
    counts = [Path(f"/proc/{pid}/io").read_text() for pid in server.pids]
    return sum(int(re.findall(r"wchar: (\d+)", count)[0]) for count in counts)


def send(server: Server, path: str) -> None:
    """As much of a large form as the server receives."""
    with closing(server.connect()) as connection:
        connection.putrequest("POST", path)
        for name, value in HEADERS.items():
            connection.putheader(name, value)
        connection.endheaders()
        with suppress(ConnectionError):
            connection.send(FORM)
            for _ in range(SENT // MIB - 1):
                connection.send(bytes(MIB))
            connection.send(bytes(MIB - len(FORM)))
            connection.getresponse().read()


@pytest.mark.parametrize(
    "path",
    [
        "/signin",
        "/admin/git-receive-pack",
        "/admin/users/x/y.git/git-receive-pack",
        "/users/nobody/nothing.git/git-receive-pack",
        "/users/nobody/nothing.git/git-upload-pack",
    ],
)
def test_nothing_that_nobody_sends_is_written_to_disk(server, path):
    before = written(server)
    send(server, path)
    assert written(server) - before < 4 * MIB
