"""/{owner}/repos/{repo_slug}/pulls/{number}/viewed, and what a push does to the marks."""

from __future__ import annotations

from typing import Any

import pytest

from apps.pulls.actions import see_version
from apps.pulls.models import Pull, SeenVersion, ViewedFile
from apps.pulls.queries import progress_of
from tests.browse.code import code_of, push
from tests.principals import access_of

FILES = {b"README": b"text\n", b"a.py": b"1\n", b"b.py": b"2\n", b"latin-\xe9": b"3\n"}


@pytest.fixture
def code(team_repo):
    return code_of(team_repo)


@pytest.fixture
def base(team_repo, code, alice):
    made = code.commit_with({b"README": b"text\n"})
    push(team_repo, "refs/heads/main", made, by=alice)
    return made


@pytest.fixture
def push_files(team_repo, code, base, alice):
    """`push_files(**{"a.py": b"2\\n"})` pushes a version with these other contents."""

    def pushed(**changed: bytes) -> str:
        files = FILES | {name.encode(): content for name, content in changed.items()}
        sha: str = code.commit_with(files, base)
        push(team_repo, "refs/heads/topic", sha, by=alice)
        return sha

    return pushed


@pytest.fixture
def pull(make, team_repo, push_files, alice):
    push_files()
    return make.pull(team_repo, by=alice, source="topic")


@pytest.fixture
def path(pull):
    return f"{pull.repo.api_path}/pulls/{pull.number}/viewed"


def mark(api: Any, path: str, *, name: str | None = None, **fields: Any) -> Any:
    named = {} if name is None else {"path": name}
    return api.send("PUT", path, named | fields)


def paths(record: dict[str, Any]) -> list[str]:
    return [file["path"] for file in record["files"]]


def test_a_file_is_marked_and_unmarked_by_each_person_alone(api, path, alice, bob):
    person, other = api(bob), api(alice)
    record = mark(person, path, name="b.py", is_viewed=True).gives(200)
    assert paths(record) == ["b.py"] and record["viewed_count"] == 1
    assert (record["version"], record["changed_files"]) == (1, 3)
    assert mark(person, path, name="b.py", is_viewed=True).gives(200) == record
    assert person.get(path).gives(200) == record
    assert paths(other.get(path).gives(200)) == []
    assert paths(mark(person, path, name="b.py", is_viewed=False).gives(200)) == []
    assert not ViewedFile.objects.exists()


def test_a_path_that_is_not_utf_8_is_sent_in_base64(api, path, bob):
    sent: dict[str, Any] = {"name": "x", "path_base64": "bGF0aW4t6Q", "is_viewed": True}
    [file] = mark(api(bob), path, **sent).gives(200)["files"]
    assert file == {"path": "latin-\ufffd", "path_base64": "bGF0aW4t6Q"}


def test_a_file_that_has_not_changed_or_a_head_of_another_pull_is_not_found(api, path, base, bob):
    person = api(bob)
    mark(person, path, name="README", is_viewed=True).fails(404, "not_found")
    mark(person, path, name="a.py", is_viewed=True, head_sha=base).fails(404, "not_found")
    mark(person, path, name="../a.py", is_viewed=True).fails(422, "invalid_path")
    mark(person, path, name="a.py").fails(422, "validation_failed")
    mark(person, path, is_viewed=True).fails(422, "validation_failed")
    mark(person, path, name="a.py", is_viewed=True, head_sha="x").fails(422, "validation_failed")
    assert not ViewedFile.objects.exists()


def test_a_pull_without_a_head_has_no_files(api, make, team_repo, alice, bob):
    pull = make.pull(team_repo, by=alice, source="later")
    path = f"{team_repo.api_path}/pulls/{pull.number}/viewed"
    record = api(bob).get(path).gives(200)
    assert record["version"] is None and record["files"] == [] and record["changed_files"] == 0
    mark(api(bob), path, name="a.py", is_viewed=True).fails(404, "not_found")


def test_a_push_unmarks_only_files_whose_change_differs(api, path, push_files, bob):
    person = api(bob)
    for name in ("a.py", "b.py"):
        mark(person, path, name=name, is_viewed=True).gives(200)
    push_files(**{"a.py": b"other\n"})
    assert paths(person.get(path).gives(200)) == ["b.py"]
    assert paths(person.get(f"{path}?version=1").gives(200)) == ["a.py", "b.py"]
    push_files()
    assert paths(person.get(path).gives(200)) == ["a.py", "b.py"]


def test_the_head_says_which_change_was_read(api, path, push_files, bob):
    person = api(bob)
    first = person.get(path).gives(200)["head_sha"]
    push_files(**{"a.py": b"other\n"})
    sent: dict[str, Any] = {"name": "a.py", "is_viewed": True, "head_sha": first}
    assert mark(person, path, **sent).gives(200)["version"] == 1
    assert paths(person.get(path).gives(200)) == []


def test_the_versions_that_a_person_has_opened_are_stored(pull, bob):
    access = access_of(bob, pull.repo)

    def seen() -> tuple[int | None, int | None]:
        progress = progress_of(pull, bob.pk)
        return progress.seen_version, progress.previous_version

    assert seen() == (None, None)
    for version, stored in ((1, (1, None)), (1, (1, None)), (3, (3, 1)), (2, (3, 1)), (4, (4, 3))):
        see_version(access=access, pull=pull, version=version)
        assert seen() == stored
    assert SeenVersion.objects.count() == 1


def test_marks_go_with_their_pull(pull, api, path, bob):
    mark(api(bob), path, name="a.py", is_viewed=True).gives(200)
    see_version(access=access_of(bob, pull.repo), pull=pull, version=1)
    Pull.objects.filter(pk=pull.pk).delete()
    assert not ViewedFile.objects.exists() and not SeenVersion.objects.exists()


def test_an_archived_repository_keeps_its_marks_and_takes_no_new_ones(api, path, pull, bob):
    mark(api(bob), path, name="a.py", is_viewed=True).gives(200)
    pull.repo.is_archived = True
    pull.repo.save()
    mark(api(bob), path, name="b.py", is_viewed=True).fails(409, "repo_archived")
    assert paths(api(bob).get(path).gives(200)) == ["a.py"]
