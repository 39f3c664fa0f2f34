"""Uploads in a bucket, on a server of S3's protocol."""

from __future__ import annotations

import base64
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from apps.core.slugs import PREFIX
from apps.uploads import files, jobs
from apps.uploads.models import Upload
from config.environment import Environment
from tests.api import plain_client
from tests.server import Server
from tests.uploads.conftest import CREDENTIALS, client_of, url_of
from tests.uploads.test_files import DIE, POST, SWEEP

pytestmark = [pytest.mark.once, pytest.mark.parametrize("storage", ["bucket"], indirect=True)]


def keys(bucket: dict[str, str]) -> list[str]:
    """The names of all objects."""
    listed = client_of(bucket).list_objects_v2(Bucket=bucket["bucket_name"])
    return [row["Key"] for row in listed.get("Contents", [])]


def put(bucket: dict[str, str], key: str, content: bytes = b"mine") -> None:
    client_of(bucket).put_object(Bucket=bucket["bucket_name"], Key=key, Body=content)


@pytest.fixture
def content_of(make: Any) -> Callable[..., Any]:
    """`content_of(upload, carol)`: the response with the content."""

    def read(upload: Any, person: Any, method: str = "get", **headers: str) -> Any:
        headers["Authorization"] = f"Bearer {make.token(person)}"
        path = f"{PREFIX}/uploads/{upload['uuid']}/content"
        return getattr(plain_client(), method)(path, headers=headers)

    return read


def test_a_file_goes_into_a_bucket_and_comes_out(upload, content_of, carol, bucket):
    content = os.urandom(300_000)
    made = upload(carol, "a.bin", content).gives(201)
    assert f"site/{files.name_of(made['sha256'])}" in keys(bucket)
    answer = content_of(made, carol)
    assert (answer.status_code, answer.getvalue()) == (200, content)
    assert content_of(made, carol, "head").headers["Content-Length"] == "300000"
    etag = {"If-None-Match": answer.headers["ETag"]}
    assert content_of(made, carol, **etag).status_code == 304
    files.remove(made["sha256"])
    assert content_of(made, carol).status_code == 404


@pytest.mark.parametrize(
    "wrong",
    [{"endpoint_url": "http://127.0.0.1:1"}, {"bucket_name": "absent"}],
    ids=["server", "bucket"],
)
def test_a_storage_that_is_away_is_503(upload, content_of, carol, bucket, settings, caplog, wrong):
    made = upload(carol).gives(201)
    uploads = settings.STORAGES["uploads"]
    away = {**uploads, "OPTIONS": {**bucket, **wrong}}
    settings.STORAGES = {**settings.STORAGES, "uploads": away}
    refused = upload(carol, content=b"other")
    refused.fails(503, "unavailable")
    assert refused.header("Retry-After") == "60"
    answer = content_of(made, carol)
    assert (answer.status_code, answer.headers["Retry-After"]) == (503, "60")
    assert "could not be stored" in caplog.text and "cannot be read" in caplog.text
    assert "only" not in caplog.text, "the secret of the credentials"
    assert Upload.objects.count() == 1
    assert files.problem(made["sha256"])


def test_a_refusal_leaves_no_object(upload, carol, bucket, settings):
    settings.UPLOAD_BYTES_PER_DAY = 3
    upload(carol).fails(429, "upload_limit_reached")
    assert not [key for key in keys(bucket) if not key.endswith("/installation")]


def test_objects_of_others_stay(db, bucket):
    digest = "ab" * 32
    others = [
        "site/README",
        f"other/{files.name_of(digest)}",
        f"site/cd/{digest}",
        f"site/{digest}",
    ]
    for key in others:
        put(bucket, key)
    files.save(digest, b"mine")
    jobs.sweep_uploads(lambda _: None)
    assert set(others) == {key for key in keys(bucket) if key != "site/installation"}


def test_the_bucket_of_another_installation_is_left_alone(
    upload, carol, bucket, settings, tmp_path, caplog
):
    """Its uploads have no rows here."""
    settings.DATA_DIR = tmp_path
    (tmp_path / "installation").write_text("ours\n")
    upload(carol).gives(201)
    assert "site/installation" in keys(bucket)
    (tmp_path / "installation").write_text("another\n")
    settings.STORAGES = {**settings.STORAGES}  # another process
    before = keys(bucket)
    upload(carol, content=b"other").fails(503, "unavailable")
    assert "that of another installation" in caplog.text
    Upload.objects.all().delete()
    with pytest.raises(OSError, match="that of another installation"):
        jobs.sweep_uploads(lambda _: None)
    assert keys(bucket) == before


def test_a_start_without_the_packages_says_which_command_installs_them(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "storages", None)
    with pytest.raises(SystemExit) as stop:
        Environment(tmp_path, {"UPLOADS_URL": "s3://bucket"})
    assert str(stop.value) == 'UPLOADS_URL: needs further packages: run "bin/setup --s3".'


@pytest.mark.parametrize(
    ("text", "options"),
    [
        ("s3://bucket", {"bucket_name": "bucket", "location": ""}),
        (
            "s3://bucket/a/b/?region_name=eu&endpoint_url=http://127.0.0.1:9000",
            {
                "bucket_name": "bucket",
                "location": "a/b",
                "region_name": "eu",
                "endpoint_url": "http://127.0.0.1:9000",
            },
        ),
    ],
    ids=["bucket", "prefix and options"],
)
def test_the_address_of_a_bucket(tmp_path, text, options):
    assert Environment(tmp_path, {"UPLOADS_URL": text}).uploads_bucket == options


@pytest.fixture
def elsewhere(tmp_path: Path) -> Iterator[Server]:
    """An empty installation."""
    made = Server(tmp_path / "elsewhere")
    yield made
    made.__exit__()


@pytest.mark.slow
def test_servers_sweeps_and_backups_with_a_bucket(tmp_path, new_server, elsewhere, bucket):
    given = {**CREDENTIALS, "UPLOADS_URL": url_of(bucket)}
    content = os.urandom(100_000)
    with new_server(tmp_path, **given) as server:
        alice = server.api("alice")
        alice.post("/users/alice/repos", name="Api", slug="api").gives(201)
        sent = {"filename": "a.bin", "content_base64": base64.b64encode(content).decode()}
        made = alice.post("/users/alice/repos/api/uploads", **sent).gives(201)
        assert read(server, made["uuid"]) == content
    assert not Path(server.environment["DATA_DIR"], "uploads").exists()

    crash = f"actions.Upload.save = lambda *_, **__: {DIE}"
    with pytest.raises(AssertionError):
        server.run(POST.format(before=crash))
    said = server.run(SWEEP)
    assert "0 unused uploads and 1 files removed" in said and "agree" in said

    server.manage("backup", str(tmp_path / "first"))
    server.manage("backup", "--incremental", str(tmp_path / "first"), str(tmp_path / "second"))
    name = files.name_of(made["sha256"])
    copies = [tmp_path / backup / "uploads" / name for backup in ("first", "second")]
    assert copies[0].read_bytes() == content and copies[0].samefile(copies[1])

    code = "import sys; from apps.uploads import files; files.store()\n"
    code += "print(sorted({'boto3', 'storages'} & sys.modules.keys()))"
    assert elsewhere.run(code) == "[]\n", "nothing of S3 is loaded without UPLOADS_URL"
    elsewhere.environment.update(given)
    with pytest.raises(AssertionError, match="The storage of uploads is not empty"):
        elsewhere.manage("restore", str(tmp_path / "second"))
    elsewhere.environment["UPLOADS_URL"] = url_of({**bucket, "location": "copy"})
    assert "nothing is missing" in elsewhere.manage("restore", str(tmp_path / "second"))
    assert elsewhere.manage("check_uploads") == "1 files checked, none damaged\n"
    assert f"copy/{name}" in keys(bucket)


def read(server: Server, uuid: str) -> bytes:
    connection = server.connect()
    headers = {"Authorization": f"Bearer {server.token('alice')}"}
    connection.request("GET", f"{PREFIX}/uploads/{uuid}/content", headers=headers)
    with closing(connection):
        return connection.getresponse().read()
