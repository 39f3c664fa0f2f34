"""A full disk: 503 `storage_full` with a correct text, and nothing half done.

SQLite and PostgreSQL raise the error themselves; for files and git it is caused by `/dev/full` and
limits of file sizes.
"""

from __future__ import annotations

import errno
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from django.db import OperationalError, connection

from apps.core.errors import as_api_error
from apps.events.models import Event
from apps.git.protocol import ZERO, Command
from apps.git.run import GitDiskFull
from apps.pulls.models import Pull
from apps.repos.models import PushJournal
from apps.threads.models import Thread
from tests.api import Answer, plain_client
from tests.git.scratch import Scratch, push_body
from tests.gitclient import Clone
from tests.server import Server
from tests.web.page_client import PageClient

HELLO: dict[str, Any] = {"title": "Hello", "body": "much to say " * 4000, "kind": "discussion"}
WORDS = "The server has no disk space left, so nothing was saved."
FULL = "CREATE FUNCTION is_full() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN "
FULL += "RAISE 'could not extend file' USING ERRCODE = '53100'; END $$"
NO_LIMIT = 4294967294


@contextmanager
def full_database(table: str, write: str = "INSERT") -> Iterator[None]:
    """The database has no room for another page; on PostgreSQL for such a write to this table."""
    with connection.cursor() as cursor:
        if connection.vendor == "sqlite":
            cursor.execute("VACUUM")  # no page is free
            cursor.execute("PRAGMA page_count")
            cursor.execute(f"PRAGMA max_page_count = {cursor.fetchone()[0]}")
        else:
            cursor.execute(FULL)
            cursor.execute(
                f"CREATE TRIGGER is_full BEFORE {write} ON {table} EXECUTE FUNCTION is_full()"
            )
    try:
        yield
    finally:
        with connection.cursor() as cursor:
            if connection.vendor == "sqlite":
                cursor.execute(f"PRAGMA max_page_count = {NO_LIMIT}")
            else:
                cursor.execute("DROP FUNCTION is_full CASCADE")


def check_refused(answer: Answer) -> None:
    assert WORDS in answer.fails(503, "storage_full")
    assert answer.header("Retry-After") == "60"


@pytest.mark.django_db(transaction=True)
def test_a_write_to_a_full_database_is_503_storage_full_and_leaves_nothing(api, team_repo, alice):
    threads, events = f"{team_repo.api_path}/threads", Event.objects.count()
    with full_database("threads_thread"):
        check_refused(api(alice).post(threads, **HELLO))
        assert api(alice).get(threads).gives()["results"] == []
    assert not Thread.objects.exists() and Event.objects.count() == events
    api(alice).post(threads, **HELLO).gives(201)


@pytest.mark.django_db(transaction=True)
def test_a_request_that_met_a_full_disk_is_carried_out_when_it_is_sent_again(api, team_repo, alice):
    threads, key = f"{team_repo.api_path}/threads", "0f8fad5b-d9cb-469f-a165-70867728950e"
    with full_database("threads_thread"):
        check_refused(api(alice).post_once(key, threads, **HELLO))
    api(alice).post_once(key, threads, **HELLO).gives(201)


@pytest.mark.django_db(transaction=True)
def test_a_form_says_that_the_disk_is_full_and_keeps_the_text(team_repo, alice):
    with full_database("threads_thread"):
        page = PageClient(alice).post(f"/{team_repo.path}/threads/new", **HELLO, priority="normal")
    assert WORDS in page.gives(503).alert()
    assert page.header("Retry-After") == "60"
    assert HELLO["body"].strip() in page.html
    assert not Thread.objects.exists()


@pytest.mark.django_db(transaction=True)
def test_a_push_whose_journal_finds_no_room_moves_nothing_and_says_why(
    make, team_repo, alice, tmp_path
):
    other = Scratch(tmp_path / "other.git")
    other.create()
    new = other.commit({"a": b"1"})
    names = [f"refs/heads/{number:04}{'x' * 200}" for number in range(500)]
    body = push_body(other, [Command(ZERO, new, name) for name in names])
    with full_database("repos_pushjournal"):
        answer = plain_client().post(
            f"/{team_repo.path}.git/git-receive-pack",
            body,
            content_type="application/x-git-receive-pack-request",
            headers={"Authorization": f"Bearer {make.token(alice)}"},
        )
    assert answer.status_code == 200 and answer.text.count(WORDS) == len(names)
    assert team_repo.git.refs() == {} and not PushJournal.objects.exists()


@pytest.mark.django_db(transaction=True)
def test_a_merge_whose_git_finds_no_room_is_503_and_merges_nothing(api, make, alice, tmp_path):
    """git appends to a log of the branch, which is `/dev/full` here."""
    clone = Clone(tmp_path / "work", make.repo(alice, "api", by=alice), alice)
    clone.commit("main", {"a": "1\n"})
    clone.commit("topic", {"a": "2\n"}, onto="main")
    clone.push("main", "topic")
    pull = make.pull(clone.repo, by=alice, source="topic")
    log = clone.repo.git.path / "logs" / "refs" / "heads" / "main"
    log.parent.mkdir(parents=True)
    log.symlink_to("/dev/full")
    merge = f"{clone.repo.api_path}/pulls/{pull.thread.number}/merge"
    check_refused(api(alice).post(merge))
    assert Pull.objects.get().status == "open"
    log.unlink()
    api(alice).post(merge).gives()


def test_every_way_in_which_a_disk_is_full_is_storage_full():
    with pytest.raises(OSError) as caught:
        Path("/dev/full").write_bytes(b"x")
    for error in (caught.value, OSError(errno.EDQUOT, "quota"), GitDiskFull("git")):
        refusal = as_api_error(error)
        assert refusal is not None and (refusal.status, refusal.code) == (503, "storage_full")
    assert as_api_error(OSError(errno.EACCES, "secret")) is None
    busy = as_api_error(OperationalError("database is locked"))
    assert busy is not None and busy.code == "unavailable"


CREATE = """
import resource
from apps.accounts.access import access_to_user
from apps.accounts.actions import create_user
from apps.accounts.models import User
from apps.accounts.principal import Principal
from apps.core.errors import as_api_error
from apps.git.repo import GitRepo
from apps.repos.actions import create_repo
from apps.repos.models import Repo

create = GitRepo.create
def create_when_full(*arguments):
    resource.setrlimit(resource.RLIMIT_FSIZE, (10, resource.RLIM_INFINITY))
    try:
        create(*arguments)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY,) * 2)
GitRepo.create = create_when_full
ada = create_user(principal=None, username="ada")
try:
    create_repo(access=access_to_user(Principal(ada), ada), name="Api", slug="api")
except Exception as error:
    print(as_api_error(error).code, Repo.objects.count())
"""


@pytest.mark.slow
def test_a_repository_is_made_whole_or_not_at_all(tmp_path, new_server):
    """A limit of file sizes stands for a full disk."""
    data: Server = new_server(tmp_path)
    try:
        assert "storage_full 0" in data.run(CREATE)
        assert not list(Path(data.environment["DATA_DIR"], "repositories").glob("??/??/*"))
    finally:
        data.__exit__()


@pytest.mark.django_db(transaction=True)
def test_the_use_of_a_token_is_not_noted_on_a_full_disk_but_it_reads(api, team_repo, alice):
    """SQLite has room for it in the page of the row."""
    with full_database("accounts_apitoken", "UPDATE"):
        api(alice).get(team_repo.api_path).gives()
