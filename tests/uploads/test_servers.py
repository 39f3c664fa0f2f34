"""Uploads through real servers."""

from __future__ import annotations

import base64
import os
from contextlib import closing
from typing import Any

import pytest

from apps.core.slugs import PREFIX
from apps.uploads.rules import SIZE_MAX


def test_ten_mebibytes_go_in_and_come_out(server, path):
    content = os.urandom(SIZE_MAX)
    owner, _, slug = path.rpartition("/")
    made = server.api("alice").post(
        f"/{owner}/repos/{slug}/uploads",
        filename="a.bin",
        content_base64=base64.b64encode(content).decode(),
    )
    uuid = made.gives(201)["uuid"]
    server.api("sam").get(f"/uploads/{uuid}").gives()
    server.api("bob").get(f"/uploads/{uuid}/content").fails(403, "forbidden")

    def ask(method: str, **headers: str) -> Any:
        connection = server.connect()
        headers["Authorization"] = f"Bearer {server.token('alice')}"
        connection.request(method, f"{PREFIX}/uploads/{uuid}/content", headers=headers)
        answer = connection.getresponse()
        body = answer.read()
        connection.close()
        return answer, body

    answer, body = ask("GET")
    assert (answer.status, body) == (200, content)
    assert answer.headers["Content-Length"] == str(SIZE_MAX)
    assert "Transfer-Encoding" not in answer.headers
    for method, headers in (("HEAD", {}), ("GET", {"If-None-Match": answer.headers["ETag"]})):
        assert ask(method, **headers)[1] == b""


@pytest.mark.parametrize(("name", "status"), [("", 401), ("carol", 403)])
def test_who_sends_a_file_is_asked_before_it_has_come(server, path, name, status):
    """The response arrives after 64 KiB of a body of 14 MiB."""
    owner, _, slug = path.rpartition("/")
    with closing(server.connect()) as connection:
        connection.putrequest("POST", f"{PREFIX}/{owner}/repos/{slug}/uploads")
        connection.putheader("Content-Type", "application/json")
        connection.putheader("Content-Length", str(14 * 1024 * 1024))
        if name:
            connection.putheader("Authorization", f"Bearer {server.token(name)}")
        connection.endheaders(bytes(64 * 1024))
        assert connection.getresponse().status == status
