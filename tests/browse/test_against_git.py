"""Answers about generated repositories equal those of the `git` program."""

from __future__ import annotations

import base64
import gzip
import io
import tarfile
import zipfile
from typing import Any
from urllib.parse import quote
from uuid import uuid4

import pytest
from hypothesis import HealthCheck, Phase, given, settings

from apps.accounts.models import User
from apps.repos.models import Repo
from apps.repos.pushes import reconcile
from tests.api import Api
from tests.browse.generated import PEOPLE, World, worlds
from tests.browse.shell import EMPTY_TREE, LITERAL, Entry, Shell, text
from tests.by_actions import MakeByActions

pytestmark = pytest.mark.once
IN_ALL, IN_CI, IN_PLAIN_RUN = 100, 5, 2
TRIED = settings(
    # No shrinking: to find a smaller example takes minutes, and it is of no more use.
    phases=[Phase.explicit, Phase.generate],
    suppress_health_check=[*HealthCheck],
    deadline=None,
)
PATHS_TRIED = 12


class ComparedRepo:
    """A repository that is read both over the API and with the program."""

    def __init__(self, make: MakeByActions, alice: User, world: World) -> None:
        self.make, self.alice = make, alice
        self.repo: Repo = make.repo(alice, f"r{uuid4().hex[:12]}", by=alice)
        self.commits = world.write(self.repo.git.path)
        reconcile(repo=self.repo)
        self.repo.refresh_from_db()
        self.api, self.git = Api(make.token(alice)), Shell(self.repo.git.path)
        self.head = self.commits[-1]

    def get(self, what: str, **query: str) -> Any:
        return self.api.get(self.url(what, **query)).gives()

    def url(self, what: str, **query: str) -> str:
        parameters = "&".join(f"{name}={quote(value, safe='')}" for name, value in query.items())
        return f"{self.repo.api_path}/{what}{'?' if parameters else ''}{parameters}"

    def bytes(self, what: str, **query: str) -> bytes:
        address = "/api/v1" + self.url(what, **query)
        response = self.api.client.get(address, headers=self.api.headers)
        assert response.status_code == 200, response.content
        return b"".join(response) if response.streaming else response.content

    def all(self, what: str, per_page: str = "30", **query: str) -> list[Any]:
        """The results of all pages, which may be those of the files of a record."""
        results, link = [], self.url(what, per_page=per_page, **query)
        while link:
            record = self.api.get(link).gives()
            page = record.get("files", record)
            results += page["results"]
            link = page["next"]
        return results

    def everything(self) -> None:
        self.names()
        for sha in self.commits:
            self.commit(sha)
        self.logs()
        for sha in {self.head, self.commits[0], self.commits[len(self.commits) // 2]}:
            self.trees(sha)
        self.contents()
        for sha in self.commits[:-1]:
            self.comparison(sha)
        self.archives()

    def names(self) -> None:
        branches = {record["name"]: record["sha"] for record in self.all("branches")}
        assert branches == {name: sha for name, (sha, _) in self.git.refs("refs/heads").items()}
        tags = {record["name"]: record for record in self.all("tags")}
        expected = self.git.refs("refs/tags")
        peeled_shas = {name: peeled for name, (_, peeled) in expected.items()}
        assert {name: record["sha"] for name, record in tags.items()} == peeled_shas
        for name, (sha, peeled) in expected.items():
            assert tags[name]["tag_sha"] == (None if sha == peeled else sha)
            whole = self.get(f"tags/{name}")["message"]
            said = self.git.out("cat-file", "tag", sha) if sha != peeled else b""
            assert (whole or "").strip() == text(said.partition(b"\n\n")[2]).strip()

    def commit(self, sha: str) -> None:
        got, expected = self.get(f"commits/{sha}"), self.git.commit(sha)
        self.check_commit(got, expected)
        old = [*expected["parents"], EMPTY_TREE][0]  # type: ignore[misc]  # a list of names
        files = self.git.files(old, sha)
        check_files(self.all(f"commits/{sha}", "5"), files)
        assert got["stats"] == totals(files)

    def check_commit(self, got: dict[str, Any], expected: dict[str, Any]) -> None:
        for role in ("author", "committer"):
            assert {name: got[role][name] for name in expected[role]} == expected[role]
        plain = ("sha", "tree_sha", "parents", "subject")
        assert {name: got[name] for name in plain} == {name: expected[name] for name in plain}
        assert got["message"].strip("\n") == expected["message"].strip("\n")

    def logs(self) -> None:
        head = self.head
        assert self.shas() == self.git.lines("rev-list", head)
        for name, email in PEOPLE:
            for author in {text(name), text(email), text(email)[:4].upper()} - {""}:
                if "\ufffd" in author:
                    continue
                options = ("--format=%H", "-i", "-F", f"--author={author}")
                expected = self.git.lines("log", *options, head)
                assert self.shas(author=author) == expected, author
        paths = [entry.path for entry in self.git.tree(head, b"", "-r", "-t")][:PATHS_TRIED]
        for path in [*paths, b"nothing/here"]:
            expected = self.git.lines(LITERAL, "log", "--format=%H", head, "--", path)
            query = {"path": text(path)} if is_text(path) else {"path_base64": packed(path)}
            assert self.shas(**query) == expected, path
        middle = self.git.commit(self.commits[len(self.commits) // 2])["committer"]
        date = str(middle["date"])  # type: ignore[index]  # a record
        for option in ("since", "until"):
            expected = self.git.lines("log", "--format=%H", f"--{option}={date}", head)
            assert self.shas(**{option: date}) == expected, date

    def shas(self, **query: str) -> list[str]:
        return [record["sha"] for record in self.all("commits", ref=self.head, **query)]

    def trees(self, sha: str) -> None:
        expected = self.git.tree(sha, b"", "-r", "-t")
        check_entries(self.all("tree", ref=sha, recursive="true", sizes="true"), expected)
        folders = [entry.path for entry in expected if entry.type == "directory"][:PATHS_TRIED]
        for folder in [b"", *folders]:
            below = self.git.tree(sha, folder + b"/" if folder else b"")
            path, query = address("tree", folder)
            check_entries(self.all(path, ref=sha, sizes="true", **query), below)

    def contents(self) -> None:
        for entry in self.git.tree(self.head, b"", "-r"):
            path, query = address("contents", entry.path)
            got = self.get(path, ref=self.head, **query)
            assert (got["type"], got["sha"], got["mode"]) == (entry.type, entry.sha, entry.mode)
            if entry.type == "submodule":
                assert (got["content"], got["target"]) == (None, entry.sha)
                continue
            data = self.git.out("cat-file", "blob", entry.sha)
            path, query = address("raw", entry.path)
            assert self.bytes(path, ref=self.head, **query) == data
            assert got["size"] == len(data)
            if entry.type == "symlink":
                assert (got["content"], got["target"]) == (None, text(data))
                continue
            assert base64.b64decode(got["content"]) == data
            assert got["is_binary"] == (b"\0" in data[:8000])
            self.blame(entry)

    def blame(self, entry: Entry) -> None:
        expected = self.git.blame(self.head, entry.path)
        path, query = address("blame", entry.path)
        lines: list[tuple[str, int, str]] = []
        while len(lines) < len(expected):
            begin, end = len(lines) + 1, min(len(expected), len(lines) + 1000)
            query |= {"from": str(begin), "to": str(end)}
            got = self.get(path, ref=self.head, **query)
            assert (got["commit_sha"], got["total_lines"]) == (self.head, len(expected))
            for part in got["ranges"]:
                assert part["from"] == len(lines) + 1
                lines += [
                    (part["commit"]["sha"], part["original_line"] + n, part["original_path"])
                    for n in range(part["to"] - part["from"] + 1)
                ]
        assert lines == [(sha, line, text(name)) for sha, line, name in expected]

    def comparison(self, base: str) -> None:
        head, url = self.head, f"compare/{base}...{self.head}"
        met = self.git.merge_base(base, head)
        count = ("rev-list", "--left-right", "--count", f"{base}...{head}")
        lost, gained = self.git.lines(*count)[0].split()
        if met is None:
            self.api.get(self.url(url)).fails(422, "no_merge_base")
            url += "?direct=true"
        got = self.get(url)
        if got["merge_base_sha"] != met:  # criss-cross merges have several best common ancestors
            assert len(self.git.lines("merge-base", "--all", base, head)) > 1
        assert (got["behind_by"], got["ahead_by"]) == (int(lost), int(gained))
        commits = self.git.lines("rev-list", f"{base}..{head}")
        assert [record["sha"] for record in got["commits"]] == commits
        start = got["merge_base_sha"] or base
        files = self.git.files(start, head)
        assert got["stats"] == totals(files)
        assert not got["files_truncated"] and not got["commits_truncated"]
        query = {"direct": "true"} if met is None else {}
        check_files(self.all(f"compare/{base}...{head}", "5", **query), files)
        text_of = self.bytes(f"compare/{base}...{head}", format="diff", **query)
        assert text_of == self.git.patch(start, head)

    def archives(self) -> None:
        prefix = f"{self.repo.slug}-{self.head[:12]}/"
        expected = self.git.out("archive", "--format=tar", f"--prefix={prefix}", self.head)
        tar = self.bytes("archive", ref=self.head, format="tar")
        assert tar == expected
        assert gzip.decompress(self.bytes("archive", ref=self.head, format="tar.gz")) == expected
        entries = self.git.tree(self.head, b"", "-r")
        files = [entry for entry in entries if entry.type != "submodule"]
        with tarfile.open(fileobj=io.BytesIO(tar), errors="surrogateescape") as unpacked:
            names = [member.name for member in unpacked if not member.isdir()]
            inside = [name.encode("utf-8", "surrogateescape") for name in names]
        assert inside == [prefix.encode() + entry.path for entry in files]
        packed_files = io.BytesIO(self.bytes("archive", ref=self.head, format="zip"))
        with zipfile.ZipFile(packed_files) as zipped:
            names = [name for name in zipped.namelist() if not name.endswith("/")]
            assert len(names) == len(files)
            for entry in files:
                if is_text(entry.path) and entry.type == "file":
                    content = self.git.out("cat-file", "blob", entry.sha)
                    assert zipped.read(prefix + text(entry.path)) == content

    def pull(self) -> None:
        """Open a pull from each branch that is ahead of `main`. Its answers are stored rows."""
        for name, (sha, _) in self.git.refs("refs/heads").items():
            base = self.commits[0]
            if name == "main" or sha == base:
                continue
            self.git.out("update-ref", "refs/heads/begin", base)
            reconcile(repo=self.repo)
            met = self.git.merge_base(base, sha)
            number = self.opened(name)
            commits = self.git.lines("rev-list", "--reverse", f"{base}..{sha}")
            assert [record["sha"] for record in self.all(f"pulls/{number}/commits")] == commits
            if met is None:
                continue
            files = self.git.files(met, sha)
            check_files(self.all(f"pulls/{number}/files"), files)
            assert self.bytes(f"pulls/{number}/diff") == self.git.patch(met, sha)
            versions = self.all(f"pulls/{number}/versions")
            assert [(v["version"], v["head_sha"], v["merge_base_sha"]) for v in versions] == [
                (1, sha, met)
            ]

    def opened(self, branch: str) -> int:
        made = self.api.post(
            f"{self.repo.api_path}/pulls",
            title="Pull",
            body="",
            source_branch=branch,
            target_branch="begin",
        ).gives(201)
        number: int = made["number"]
        return number


def address(what: str, path: bytes) -> tuple[str, dict[str, str]]:
    """The end of a URL with this path, and the query for a path that is not UTF-8."""
    if not path:
        return what, {}
    if is_text(path):
        return f"{what}/{quote(path)}", {}
    return f"{what}/{quote(text(path))}", {"path_base64": packed(path)}


def is_text(path: bytes) -> bool:
    return "\ufffd" not in text(path)


def packed(path: bytes) -> str:
    return base64.urlsafe_b64encode(path).decode().rstrip("=")


def check_entries(got: list[dict[str, Any]], expected: list[Entry]) -> None:
    assert [
        (record["path"], record["type"], int(record["mode"], 8), record["sha"], record["size"])
        for record in got
    ] == [
        (text(entry.path), entry.type, int(entry.mode, 8), entry.sha, entry.size)
        for entry in expected
    ]
    for record, entry in zip(got, expected, strict=True):
        assert record.get("path_base64") == (None if is_text(entry.path) else packed(entry.path))


def check_files(got: list[dict[str, Any]], expected: list[dict[str, Any]]) -> None:
    assert (
        [{name: record[name] for name in expected[0]} for record in got] == expected
        if expected
        else not got
    )


def totals(files: list[dict[str, Any]]) -> dict[str, int]:
    return {
        "additions": sum(record["additions"] or 0 for record in files),
        "deletions": sum(record["deletions"] or 0 for record in files),
        "changed_files": len(files),
    }


@settings(TRIED, max_examples=IN_PLAIN_RUN)
@given(world=worlds())
def test_answers_are_those_of_the_program(make, alice, world):
    ComparedRepo(make, alice, world).everything()


@settings(TRIED, max_examples=IN_PLAIN_RUN)
@given(world=worlds())
def test_what_pulls_contain_is_what_the_program_says(make, alice, world):
    ComparedRepo(make, alice, world).pull()


@pytest.mark.slow
@settings(TRIED, max_examples=IN_CI)
@given(world=worlds())
def test_more_answers_are_those_of_the_program(make, alice, world):
    compared = ComparedRepo(make, alice, world)
    compared.everything()
    compared.pull()


@pytest.mark.long
@settings(TRIED, max_examples=IN_ALL)
@given(world=worlds())
def test_many_answers_are_those_of_the_program(make, alice, world):
    compared = ComparedRepo(make, alice, world)
    compared.everything()
    compared.pull()
