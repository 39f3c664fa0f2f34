"""An archive is a snapshot: it agrees with itself, whatever people do while it is written."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import count
from pathlib import Path
from typing import Any
from zipfile import ZipFile

import pytest

from apps.accounts.models import User
from apps.accounts.principal import Principal
from apps.repos.models import Repo
from apps.threads.actions import delete_reply, delete_thread, update_reply, update_thread
from apps.threads.models import Reply
from apps.uploads import files
from apps.uploads.models import Upload
from config.moving.archive import ArchiveWriter, new_file
from config.moving.exporting import export_repo
from tests.conftest import person
from tests.gitclient import Clone
from tests.moving.conftest import BASE, lines
from tests.principals import access_of
from tests.races import together

pytestmark = pytest.mark.django_db(transaction=True)
alice = person("alice")


class BusyArchive(ArchiveWriter):
    """People work before each part is written, in a thread of their own."""

    work: Callable[[], object]

    def part(self, name: str, *options: Any) -> Any:
        together(self.work)
        return super().part(name, *options)


@pytest.fixture
def export(team_repo: Repo, alice: Any, tmp_path: Path) -> Callable[..., Path]:
    """`export(work)` writes an archive while `work` is called again and again."""

    def written(work: Callable[[], object]) -> Path:
        path = tmp_path / "a.zip"
        with new_file(path) as file, ZipFile(file, "w") as made:
            archive = BusyArchive(made)
            archive.work = work
            export_repo(Principal(alice), "teams/acme", "api", BASE, archive)
        return path

    return written


def test_an_archive_agrees_with_itself(export, team_repo, make, alice, bob, run, tmp_path):
    """Threads, pulls and branches come and go, and texts change."""
    clone = Clone(tmp_path / "clone", team_repo, alice)
    clone.push_commit("main", {"a": "1"})
    head = clone.push_commit("topic", {"b": "1"}, onto="main")
    pull = make.pull(team_repo, by=alice, source="topic")
    thread = make.thread(team_repo, by=alice)
    replies = [make.reply(thread, by=alice, body="First"), make.reply(thread, by=bob)]
    for number in range(3):
        clone.push_commit(f"later{number}", {"c": str(number)}, onto="main")
    before = team_repo.git.refs(), team_repo.git.kept_refs()
    at_work = working(team_repo, make, alice, clone, replies)
    path = export(lambda: next(at_work))
    assert next(at_work) > 10
    assert [row["number"] for row in lines(path, "threads")] == [pull.number, thread.number]
    assert [row["body"] for row in lines(path, "replies")] == ["First", "Same here."]
    run("import_repo", path, "--user", "bob", "--match-usernames")
    moved = Repo.objects.get(owner_user=bob)
    assert (moved.git.refs(), moved.git.kept_refs()) == before
    assert [row.head_sha for row in moved.pulls.all()] == [head]


def working(repo: Repo, make: Any, by: User, clone: Clone, replies: list[Reply]) -> Iterator[int]:
    """Each step changes what the files of an archive have in common; yields its number."""
    access, thread = access_of(by, repo), replies[0].thread
    for number in count():
        new = make.thread(repo, by=by)
        make.reply(new, by=by)
        make.reply(thread, by=by, to=replies[0])
        update_thread(access=access, thread=thread, body=f"Changed {number}")
        update_reply(access=access, reply=replies[0], body=f"Changed {number}")
        clone.push_commit("topic", {"b": f"other {number}"}, onto="main")
        if number < 3:
            make.pull(repo, by=by, source=f"later{number}")
            delete_thread(access=access, thread=new)
        if number == 3:
            delete_reply(access=access_of(replies[1].created_by, repo), reply=replies[1])
            clone.push(":later0", ":topic")
        yield number


def test_an_upload_that_is_removed_meanwhile_is_left_out(export, team_repo, make, alice, run):
    """But a file that is missing although texts refer to it is an error."""
    upload = make.upload(team_repo, by=alice)
    make.thread(team_repo, by=alice, body=f"/api/v1/uploads/{upload.uuid}/content")

    def remove_file() -> None:
        files.remove(upload.sha256)

    with pytest.raises(FileNotFoundError, match=str(upload.uuid)):
        export(remove_file)

    def remove() -> None:
        remove_file()
        Upload.objects.all().delete()

    make.upload(team_repo, by=alice)
    path = export(remove)
    assert lines(path, "uploads") == []
    run("import_repo", path, "--user", "alice")
