"""An archive may come from anybody. A bad one is refused with a reason, and leaves nothing."""

from __future__ import annotations

import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from zipfile import ZIP_DEFLATED, ZIP_LZMA, ZipFile, ZipInfo

import orjson
import pytest
from django.conf import settings as django_settings
from django.core.management.base import CommandError

from apps.accounts.models import Deletion, User
from apps.events.models import Event
from apps.git import store
from apps.repos.models import Repo
from apps.threads.models import Thread
from apps.uploads.models import Upload
from config.moving import reading
from tests.git.scratch import git as run_git
from tests.moving.conftest import changed, lines, record, with_line

BOB = "a" * 40


def everything() -> tuple[Any, ...]:
    """The rows and folders that an import could leave."""
    folders = set(store.folders(django_settings.REPOSITORIES_DIR))
    models = (Repo, Thread, User, Deletion, Event, Upload)
    return folders, [model.objects.count() for model in models]


@pytest.fixture
def refused(run: Any, tides: Repo) -> Callable[..., str]:
    """Import an archive that must be refused; returns the reason."""

    def tried(path: Path, *further: str) -> str:
        before = everything()
        with pytest.raises(CommandError) as refusal:
            run("import_repo", path, "--user", "alice", *further)
        assert everything() == before
        return str(refusal.value)

    return tried


def test_the_place_has_to_be_there_and_free(archive, refused, run, tides):
    with pytest.raises(CommandError, match="There is no team nowhere"):
        run("import_repo", archive, "--team", "nowhere")
    with pytest.raises(CommandError, match="no user"):
        run("import_repo", archive, "--user", "nobody")
    assert "no user" in refused(archive, "--map", "bob=nobody")
    assert "OLD=NEW" in refused(archive, "--map", "bob")
    assert "slug" in refused(archive, "--slug", "Not A Slug")
    run("import_repo", archive, "--user", "alice")
    assert "is taken" in refused(archive)
    tides.owner_team.is_active = False
    tides.owner_team.save(update_fields=["is_active"])
    with pytest.raises(CommandError, match="deactivated"):
        run("import_repo", archive, "--team", "acme", "--slug", "other")


def test_the_disk_quota_is_kept(archive, refused, settings):
    settings.OWNER_BYTES = 10
    assert "may take" in refused(archive)


@pytest.mark.parametrize("kind", ["text", "short", "cut"])
def test_what_is_no_archive_is_refused(archive, refused, tmp_path, kind):
    whole = archive.read_bytes()
    content = {"text": b"Not a ZIP file", "short": whole[:100], "cut": whole[:-200]}[kind]
    (tmp_path / "bad.zip").write_bytes(content)
    assert "is damaged, or no archive" in refused(tmp_path / "bad.zip")


def test_damaged_bytes_are_noticed(archive, refused, tmp_path):
    with ZipFile(archive) as file:
        info = file.getinfo("threads.jsonl")
    damaged = bytearray(archive.read_bytes())
    for offset in range(info.header_offset + 200, info.header_offset + 220):
        damaged[offset] ^= 0xFF
    (tmp_path / "bad.zip").write_bytes(damaged)
    assert "is damaged" in refused(tmp_path / "bad.zip")


@pytest.mark.parametrize("name", ["../../etc/cron.d/x", "/etc/x", "uploads/../x", "uploads/", "x"])
def test_no_other_file_belongs_into_it(archive, refused, tmp_path, name):
    bad = changed(archive, tmp_path / "bad.zip")
    with ZipFile(bad, "a") as file:
        file.writestr(name, b"x")
    assert "does not belong" in refused(bad)


def test_a_link_is_a_file_with_other_content(archive, refused, tmp_path):
    bad = changed(archive, tmp_path / "bad.zip", repository_bundle=None)
    link = ZipInfo("repository.bundle")
    link.external_attr = 0o120777 << 16
    with ZipFile(bad, "a") as file:
        file.writestr(link, "/etc/passwd")
    assert "Nothing was imported" in refused(bad)


@pytest.mark.filterwarnings("ignore:Duplicate name")
def test_no_file_is_there_twice(archive, refused, tmp_path):
    bad = changed(archive, tmp_path / "bad.zip")
    with ZipFile(bad, "a") as file:
        file.writestr("threads.jsonl", b"")
    assert "two files" in refused(bad)


def test_sizes_are_bounded(archive, refused, tmp_path):
    bomb = changed(archive, tmp_path / "bomb.zip", threads_jsonl=b"[" * (reading.LINE_MAX + 1))
    assert bomb.stat().st_size < 1_000_000
    assert "threads.jsonl, line 1: it is too long" in refused(bomb)
    manifest = changed(archive, tmp_path / "two.zip", manifest_json=b"{}\n{}\n")
    assert "manifest.json" in refused(manifest)
    for name, size in (("threads.jsonl", reading.LINES_MAX), (f"uploads/{'a' * 64}", 10 * 2**20)):
        info = ZipInfo(name)
        info.file_size = size + 1
        with pytest.raises(ValueError, match="more than"):
            reading.check_file(info)


def test_uploads_that_expand_are_refused(archive, refused, tmp_path):
    parts = {f"uploads/{number:064x}": bytes(100_000) for number in range(9)}
    bad = changed(archive, tmp_path / "bomb.zip")
    with ZipFile(bad, "a", ZIP_DEFLATED) as file:
        for name, content in parts.items():
            file.writestr(name, content)
    assert "uploads are larger than the archive" in refused(bad)


def test_events_may_have_any_size() -> None:
    """They are not read, and a repository may have many."""
    info = ZipInfo("events.jsonl")
    info.file_size = reading.LINES_MAX + 1
    reading.check_file(info)


def test_a_later_version_of_zip_is_refused(archive, refused, tmp_path):
    content = bytearray(archive.read_bytes())
    content[content.rindex(b"PK\x01\x02") + 6] = 255
    (tmp_path / "bad.zip").write_bytes(content)
    assert "no archive: zip file version" in refused(tmp_path / "bad.zip")


def test_a_method_that_takes_much_memory_is_refused(archive, refused, tmp_path):
    bad = changed(archive, tmp_path / "bad.zip", events_jsonl=None)
    with ZipFile(bad, "a", ZIP_LZMA) as file:
        file.writestr("events.jsonl", b"{}")
    assert "compressed in another way" in refused(bad)


LAST = -1
ANCHOR = {
    "commit_sha": "1" * 40,
    "path": "a",
    "side": "new",
    "start_line": 1,
    "line": 2,
    "snippet": ["a"],
    "review_uuid": None,
}
BAD_LINES: dict[str, tuple[str, dict[str, Any], str]] = {
    "kind": ("threads", {"kind": "gossip"}, "kind"),
    "body": ("threads", {"body": "x" * 65_537}, "body"),
    "title": ("threads", {"title": "a\nb"}, "title"),
    "time": ("threads", {"created_at": "yesterday"}, "created_at"),
    "author": ("threads", {"created_by_username": "../bob"}, "username"),
    "order": ("threads", {"number": 1}, "not in order"),
    "no companion": ("pulls", {"number": 999_999}, "Pull 999999 has no thread"),
    "branch": ("pulls", {"source_branch": "--upload-pack=x"}, "branch"),
    "sha": ("pulls", {"head_sha": "HEAD"}, "full name of a commit"),
    "thread": ("replies", {"thread_number": 999_999}, "thread 999999"),
    "parent": ("replies", {"parent_reply_number": 77_777}, "no parent"),
    "link": ("replies", {"links": [{"kind": "url", "target": "javascript:x"}]}, "links"),
    "lives": ("replies", {"is_deleted": True}, "deleted"),
    "lines": ("replies", {"anchor": {**ANCHOR, "start_line": 9}}, "no lines of a file"),
    "path": ("replies", {"anchor": {**ANCHOR, "path": "../a"}}, "not a path"),
    "no pull": ("replies", {"anchor": ANCHOR}, "no pull"),
    "version": ("reply_versions", {"reply_number": 77_777}, "77777 is not there"),
    "pull": ("reviews", {"pull_number": 999_999}, "pull 999999"),
    "status": ("reviews", {"status": "merged"}, "status"),
    "approver": ("approvers", {"branch": "nowhere"}, "no protection nowhere"),
    "setting": ("protections", {"required_approvals": -1}, "required_approvals"),
    "upload": ("uploads", {"sha256": "a" * 64}, "lacks the upload"),
    "filename": ("uploads", {"filename": "../x"}, "filename"),
    "type": ("uploads", {"filename": "x.exe"}, "exe"),
}


@pytest.mark.parametrize("name", BAD_LINES)
def test_a_bad_record_is_named(archive, refused, tmp_path, name):
    file, values, reason = BAD_LINES[name]
    bad = changed(archive, tmp_path / "bad.zip", **with_line(archive, file, LAST, **values))
    assert reason in refused(bad)


NUMBERED = ("threads", "thread_versions", "replies", "reply_versions", "pulls", "pull_versions")


@pytest.mark.parametrize("name", [*NUMBERED, "protections"])
def test_a_record_that_is_there_twice_is_refused(archive, refused, tmp_path, name):
    """The second one is not behind the first, but at the end of the file."""
    records = lines(archive, name)
    text = b"\n".join(map(orjson.dumps, [*records, records[0]]))
    bad = changed(archive, tmp_path / "bad.zip", **{f"{name}_jsonl": text})
    assert "is there twice" in refused(bad)


@pytest.mark.parametrize(
    "line", [b"{", b"[]", b'{"number": 1, "number": 2}', b"\xff", b"null"], ids=range(5)
)
def test_a_line_has_to_be_a_record(archive, refused, tmp_path, line):
    bad = changed(archive, tmp_path / "bad.zip", threads_jsonl=line)
    assert "threads.jsonl, line 1" in refused(bad)


def test_another_format_is_named(archive, refused, tmp_path):
    manifest = orjson.dumps({**record(archive, "manifest"), "format": 2})
    bad = changed(archive, tmp_path / "bad.zip", manifest_json=manifest)
    assert "another format: 2" in refused(bad)
    missing = changed(archive, tmp_path / "missing.zip", replies_jsonl=None)
    assert "no replies.jsonl" in refused(missing)


def test_an_upload_has_the_content_that_its_name_tells(archive, refused, tmp_path):
    [upload] = lines(archive, "uploads")
    parts = {f"uploads/{upload['sha256']}": b"Something else.\n"}
    assert "is another" in refused(changed(archive, tmp_path / "bad.zip", **parts))


@pytest.fixture
def scratch(archive: Path, tmp_path: Path) -> Iterator[Callable[..., bytes]]:
    """`scratch(commands…)` gives a bundle of the repository of the archive after git commands."""
    with ZipFile(archive) as file:
        (tmp_path / "bundle").write_bytes(file.read("repository.bundle"))
    folder = tmp_path / "scratch.git"
    clone = ["git", "clone", "-q", "--mirror", str(tmp_path / "bundle"), str(folder)]
    subprocess.run(clone, check=True)

    def bundle(*commands: tuple[str, ...], of: tuple[str, ...] = ("--all",)) -> bytes:
        for command in commands:
            run_git(folder, *command)
        run_git(folder, "bundle", "create", str(tmp_path / "made"), *of)
        return (tmp_path / "made").read_bytes()

    bundle.folder = folder  # type: ignore[attr-defined]
    yield bundle


def test_refs_of_no_pull_are_refused_and_others_are_left_out(
    archive, refused, tmp_path, scratch, run
):
    foreign = scratch(("update-ref", "refs/secret/x", "refs/heads/main"))
    good = changed(archive, tmp_path / "good.zip", repository_bundle=foreign)
    run("import_repo", good, "--user", "alice", "--slug", "good")
    names = run_git(Repo.objects.get(slug="good").git.path, "for-each-ref")
    assert b"refs/heads/main" in names and b"secret" not in names
    later = scratch(("update-ref", "refs/pull/999/head", "refs/heads/main"))
    bad = changed(archive, tmp_path / "bad.zip", repository_bundle=later)
    assert "refs/pull/999/head belongs to no pull" in refused(bad)


def test_a_bundle_is_checked_like_a_push(archive, refused, tmp_path, scratch):
    """A tree with `.git`, a ref with a name that the server refuses, a bundle without its base."""

    def reason(bundle: bytes) -> str:
        return str(refused(changed(archive, tmp_path / "bad.zip", repository_bundle=bundle)))

    assert "Nothing was imported" in reason(b"# v2 git bundle\nnonsense")
    thin = scratch(of=("main", "^main~1"))
    assert "Nothing was imported" in reason(thin)
    name = scratch(("update-ref", f"refs/heads/{BOB}", "refs/heads/main"))
    assert "invalid name of a ref" in reason(name)
    folder = scratch.folder
    blob = run_git(folder, "hash-object", "-w", "--stdin", stdin=b"x").strip()
    entry = b"100644 .git\0" + bytes.fromhex(blob.decode())
    literally = ("hash-object", "-w", "--literally", "-t", "tree", "--stdin")
    tree = run_git(folder, *literally, stdin=entry).strip().decode()
    person = ("-c", "user.name=x", "-c", "user.email=x@example.org")
    made = run_git(folder, *person, "commit-tree", "-m", "x", tree).strip().decode()
    evil = scratch(
        ("update-ref", "-d", f"refs/heads/{BOB}"), ("update-ref", "refs/heads/evil", made)
    )
    assert "fsck" in reason(evil)
