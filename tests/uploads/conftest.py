"""Fixtures for uploads: a storage for files in each test, an internal repository, a picture."""

from __future__ import annotations

import base64
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest

from apps.repos.models import Repo, Visibility
from tests.api import Answer

PNG = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
)

IN_BOTH = pytest.mark.parametrize("storage", ["folder", "bucket"], indirect=True)
"""For tests of all storages. The others use a folder."""
CREDENTIALS = {"AWS_ACCESS_KEY_ID": "tests", "AWS_SECRET_ACCESS_KEY": "only"}
BUCKET = "apps.uploads.bucket.UploadBucket"


@pytest.fixture(scope="session")
def s3() -> Iterator[str]:
    """The address of a server of S3's protocol."""
    from moto.server import ThreadedMotoServer  # slow to load

    server = ThreadedMotoServer("127.0.0.1", 0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    yield f"http://{host}:{port}"
    server.stop()


@pytest.fixture
def bucket(s3: str, monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    """The options of a storage with a new bucket, below a prefix."""
    for name, value in CREDENTIALS.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setitem(os.environ, "AWS_EC2_METADATA_DISABLED", "true")
    options = {"bucket_name": f"b{uuid4().hex}", "location": "site", "endpoint_url": s3}
    options["region_name"] = "us-east-1"
    client_of(options).create_bucket(Bucket=options["bucket_name"])
    return options


def client_of(options: dict[str, str]) -> Any:
    """A client of the bucket's server."""
    import boto3

    return boto3.client(
        "s3", endpoint_url=options["endpoint_url"], region_name=options["region_name"]
    )


def url_of(options: dict[str, str]) -> str:
    """The value of UPLOADS_URL for this bucket."""
    address, region = options["endpoint_url"], options["region_name"]
    query = f"endpoint_url={address}&region_name={region}"
    return f"s3://{options['bucket_name']}/{options['location']}?{query}"


@pytest.fixture(autouse=True)
def storage(request: pytest.FixtureRequest, settings: Any, tmp_path: Path) -> str:
    """The kind of storage of this test."""
    kind: str = getattr(request, "param", "folder")
    backend = settings.STORAGES["uploads"]["BACKEND"] if kind == "folder" else BUCKET
    options = {"location": tmp_path / "uploads"}
    if kind == "bucket":
        options = request.getfixturevalue("bucket")
    uploads = {"BACKEND": backend, "OPTIONS": options}
    settings.STORAGES = {**settings.STORAGES, "uploads": uploads}
    return kind


@pytest.fixture
def uploads_dir(tmp_path: Path) -> Path:
    return tmp_path / "uploads"


@pytest.fixture
def open_repo(team_repo: Repo) -> Repo:
    """An internal repository, which carol, a stranger, can read."""
    team_repo.visibility = Visibility.INTERNAL
    team_repo.save(update_fields=["visibility"])
    return team_repo


@pytest.fixture
def upload(api: Any, open_repo: Repo) -> Callable[..., Answer]:
    """`upload(carol, "a.txt", b"…")`: the response to this upload by carol."""

    def post(person: Any, filename: Any = "notes.txt", content: bytes = b"Slow.\n") -> Answer:
        text = base64.b64encode(content).decode()
        path = f"{open_repo.api_path}/uploads"
        answer: Answer = api(person).post(path, filename=filename, content_base64=text)
        return answer

    return post


def files(folder: Path) -> list[str]:
    """The names of all files below a folder."""
    return sorted(path.name for path in folder.rglob("*") if path.is_file())
