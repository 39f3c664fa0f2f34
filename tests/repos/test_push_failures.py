"""A push that fails for an internal reason: git prints the id of its request, as the log has it."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.server import Server
from tests.waiting import eventually

pytestmark = pytest.mark.one_server
ID = re.compile(r"\(request (\w+)\)")
BROKEN = {
    "sqlite": "CREATE TRIGGER broken BEFORE INSERT ON repos_pushjournal"
    " BEGIN SELECT RAISE(ABORT, 'broken'); END",
    "postgresql": "ALTER TABLE repos_pushjournal ADD CONSTRAINT broken CHECK (false) NOT VALID",
}
REPAIRED = {
    "sqlite": "DROP TRIGGER broken",
    "postgresql": "ALTER TABLE repos_pushjournal DROP CONSTRAINT broken",
}
RUN = "from django.db import connection as c; c.cursor().execute({}[c.vendor])"
FOLDER = "from apps.repos.models import Repo; print(Repo.objects.get(slug={!r}).git.path)"


@contextmanager
def broken_journal(server: Server) -> Iterator[None]:
    """The journal of pushes takes no row: a defect for each push."""
    server.run(RUN.format(BROKEN))
    yield
    server.run(RUN.format(REPAIRED))


@contextmanager
def without(folder: Path) -> Iterator[None]:
    away = folder.with_name("away")
    folder.rename(away)
    yield
    away.rename(folder)


def assert_logged(server: Server, begin: int, said: str, reason: str) -> None:
    """The log has a line with the reason and the id that git has printed."""
    request = ID.search(said)
    assert request, said
    line = rf"(?m)^.*{reason}.*\(request {request[1]}\)$"
    eventually(lambda: re.search(line, server.log[begin:]))
    assert "ght_" not in server.log[begin:]


def test_a_defect_is_reported_for_each_ref(server, ours):
    begin = len(server.log)
    ours.commit()
    with broken_journal(server):
        said = ours.fails("push", ours.url, "main", "main:other")
    assert said.count("[remote rejected]") == 2 and "broken" not in said
    assert_logged(server, begin, said, "A push to .* failed")
    assert "IntegrityError" in server.log[begin:]
    ours("push", "--quiet", ours.url, "main")


def test_a_git_that_finds_no_repository_is_reported(server, path, ours):
    """git asks for the refs first. It prints the text of that refusal."""
    begin = len(server.log)
    folder = Path(server.run(FOLDER.format(path.rpartition("/")[2])).strip())
    with without(folder):
        said = ours.fails("push", ours.url, "main:other")
        assert said.startswith("remote: ")
        assert_logged(server, begin, said, "git failed")
