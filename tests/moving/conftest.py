"""The repositories of the demo, one of them with an upload, and readers of archives."""

from __future__ import annotations

import io
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from zipfile import ZIP_DEFLATED, ZipFile

import orjson
import pytest
from django.conf import settings
from django.core.management import call_command
from django.db import transaction
from django.test import TestCase, override_settings

from apps.accounts.models import User
from apps.pulls.actions import comment_on_line, create_review
from apps.pulls.places import LinePlace
from apps.repos.models import Repo
from apps.threads.actions import create_reply, create_thread, delete_reply
from apps.uploads.actions import create_upload
from config import demo
from tests.api import Api
from tests.by_actions import MakeByActions
from tests.principals import access_of

BASE = "http://testserver"
CONTENT = b"Spring tide.\n"


@pytest.fixture(scope="module")
def tides(django_db_setup: None, django_db_blocker: Any, tmp_path_factory: Any) -> Iterator[Repo]:
    """The largest repository of the demo. A thread refers to an upload."""
    options = {"location": tmp_path_factory.mktemp("uploads")}
    storages: Any = settings.STORAGES
    folder = {**storages["uploads"], "OPTIONS": options}
    with (
        override_settings(BASE_URL=BASE, STORAGES={**storages, "uploads": folder}),
        django_db_blocker.unblock(),
        transaction.atomic(),
    ):
        with TestCase.captureOnCommitCallbacks(execute=True):  # create the refs of pulls
            demo.load()
        repo = Repo.objects.get(slug="tide-table", owner_team__slug="acme")
        access = access_of(repo.threads.order_by("number")[0].created_by, repo)
        upload = create_upload(access=access, filename="spring.txt", content=CONTENT)
        body = f"See [it]({BASE}/api/v1/uploads/{upload.uuid}/content) and `x`"
        create_thread(access=access, title="Spring", body=body, kind="question")
        with TestCase.captureOnCommitCallbacks(execute=True):
            add_comments(repo)
        yield repo
        transaction.set_rollback(True)


def add_comments(repo: Repo) -> None:
    """Comments on lines of a pull: one of a review, and one that was deleted and has an answer."""
    pull = repo.pulls.filter(status="open").exclude(head_sha=None).order_by("number")[0]
    pull.repo, access = repo, access_of(pull.thread.created_by, repo)
    [path, *_] = repo.git.git("ls-tree", "-r", "--name-only", str(pull.head_sha)).out.splitlines()
    review = create_review(access=access, pull=pull, status="commented")
    place, uuid = LinePlace(str(pull.head_sha), path, 1), review.uuid
    comment_on_line(access=access, pull=pull, place=place, body="Why?", review_uuid=uuid)
    deleted = comment_on_line(access=access, pull=pull, place=place, body="Why not?")
    number = deleted.number
    create_reply(
        access=access, thread=pull.thread, kind="answer", body="So.", parent_reply_number=number
    )
    delete_reply(access=access, reply=deleted)


@pytest.fixture
def alice(tides: Repo, db: None) -> Api:
    """The API for an owner of the team."""
    owner = User.objects.get(username="alice")
    return Api(MakeByActions().token(owner))


@pytest.fixture
def run(db: None) -> Callable[..., str]:
    """Run a command; returns what it prints."""

    def ran(*arguments: Any) -> str:
        out = io.StringIO()
        call_command(*map(str, arguments), stdout=out)
        return out.getvalue()

    return ran


@pytest.fixture(scope="module")
def archive(tides: Repo, django_db_blocker: Any, tmp_path_factory: Any) -> Path:
    """An archive of the repository."""
    path: Path = tmp_path_factory.mktemp("archive") / "tides.zip"
    with django_db_blocker.unblock():
        call_command("export_repo", tides.path, str(path), stdout=io.StringIO())
    return path


def lines(archive: Path, name: str) -> list[Any]:
    with ZipFile(archive) as file:
        return [orjson.loads(line) for line in file.read(f"{name}.jsonl").splitlines()]


def record(archive: Path, name: str) -> Any:
    with ZipFile(archive) as file:
        return orjson.loads(file.read(f"{name}.json"))


def listed(api: Api, path: str) -> list[Any]:
    """All records of a list of the API."""
    records: list[Any] = []
    page = f"{path}{'&' if '?' in path else '?'}per_page=100"
    while page:
        answer = api.get(page).gives()
        records += answer["results"]
        page = answer["next"]
    return records


def changed(archive: Path, target: Path, **parts: bytes | None) -> Path:
    """A copy of the archive in which these parts are replaced, or removed; `.` in names is `_`."""
    with ZipFile(archive) as old, ZipFile(target, "w", ZIP_DEFLATED) as new:
        for name in old.namelist():
            content = parts.get(name.replace(".", "_"), old.read(name))
            if content is not None:
                new.writestr(name, content)
    return target


def with_line(archive: Path, name: str, at: int, /, **values: Any) -> dict[str, bytes]:
    """The part of an archive in which the record at this index has other values."""
    records = lines(archive, name)
    records[at] = {**records[at], **values}
    return {f"{name}_jsonl": b"\n".join(map(orjson.dumps, records))}
