"""`…/compare/{base}...{head}`."""

from __future__ import annotations

import os
import subprocess
from typing import Any
from urllib.parse import quote

import pytest

from apps.browse import comparison
from apps.browse.read_slots import heavy_slots
from apps.git import diff, exports, run
from apps.repos.models import Repo
from tests.browse.code import LINK, SCRIPT, SUBMODULE, Code, Thing, code_of, push
from tests.factories import ForkFactory

pytestmark = [pytest.mark.once, pytest.mark.django_db]
RESOURCE = "/compare/"
TEXT = b"".join(b"line %d of a text\n" % n for n in range(20))
OLD: dict[bytes, Thing] = {
    b"a.txt": TEXT,
    b"run.sh": TEXT + b"1",
    b"gone": b"x",
    b"link": b"y",
    b"bin": b"\0\1",
    b"crlf": b"1\r\n",
}
NEW: dict[bytes, Thing] = {
    b"b/moved.txt": TEXT + b"more",
    b"run.sh": (SCRIPT, TEXT + b"1"),
    b"link": (LINK, b"a.txt"),
    b"bin": b"\0\2",
    b"crlf": b"1\r\n2\r\n",
    b"caf\xe9": b"new",
    b"sub": (SUBMODULE, b"1" * 40),
}
STATUSES = {
    "b/moved.txt": "renamed",
    "run.sh": "modified",
    "link": "type_changed",
    "bin": "modified",
    "crlf": "modified",
    "caf\ufffd": "added",
    "sub": "added",
    "gone": "removed",
}
REFUSED = """
main main..topic ... main... ...topic main...-x main...--output=x main...@{-1}
main...topic~1 main...topic^ main...a//b main...topic.lock main...HEAD main...refs/notes/x
main...a...b main....topic -x...topic main...%00 main...a%0Ab main...refs/pull/0/head
../..
"""
"""Texts that are refused before git gets them, because they cannot name a ref."""
MISSING = ["main...nothing", "nothing...main", "main..." + "1" * 40, "main...refs/pull/9/head"]
MISSING += ["main...%FF"]


@pytest.fixture
def pair(code: Code, team_repo: Repo, alice: Any) -> tuple[str, str]:
    """The heads of `main` and `topic/x`. Each has a commit that the other has not."""
    start = code.commit_with(OLD)
    main = code.commit_with({**OLD, b"later": b"z"}, start)
    topic = code.commit_with(NEW, code.commit_with({**OLD, b"gone": b"w"}, start, message="first"))
    push(team_repo, "refs/heads/main", main, by=alice)
    push(team_repo, "refs/heads/topic/x", topic, by=alice)
    return main, topic


@pytest.fixture
def text(api: Any, make: Any, team_repo: Repo, alice: Any) -> Any:
    """`text(…)` returns Django's whole response to alice, if it is not JSON."""

    def send(address: str, **headers: str) -> Any:
        caller = api(alice)
        path = f"/api/v1{team_repo.api_path}/compare/{address}"
        return caller.client.get(path, headers={**caller.headers, **headers})

    return send


def bytes_of(answer: Any) -> bytes:
    return b"".join(answer.streaming_content) if answer.streaming else bytes(answer.content)


def test_what_can_be_no_ref_is_refused_and_what_is_none_is_not_found(
    ask, pair, tmp_path, monkeypatch
) -> None:
    monkeypatch.chdir(tmp_path)
    before = run.spawned
    for address in [*REFUSED.split(), "main..." + "a" * 300]:
        ask(address).fails(422, "invalid_ref")
    assert run.spawned == before, "git has seen none of them"
    for address in MISSING:
        ask(address).fails(404, "not_found")
    for owner in ("x", "teams/no", "a/b/c", "", "%00", "teams/a%00"):
        ask(f"main...{owner}:topic").fails(422, "source_not_found")
    assert list(tmp_path.iterdir()) == []


def test_a_comparison_says_what_the_head_has_since_both_were_one(ask, pair, code) -> None:
    main, topic = pair
    record = ask("main...topic/x").gives()
    assert (record["base_sha"], record["head_sha"]) == (main, topic)
    start = code.git("merge-base", main, topic).word
    assert (record["merge_base_sha"], record["ahead_by"], record["behind_by"]) == (start, 2, 1)
    assert [row["message"] for row in record["commits"]] == ["change", "first"]
    assert record["commits_truncated"] is record["files_truncated"] is False
    files = {file["path"]: file for file in record["files"]["results"]}
    assert {path: file["status"] for path, file in files.items()} == STATUSES
    assert files["b/moved.txt"]["previous_path"] == "a.txt"
    assert files["caf\ufffd"]["path_base64"] == "Y2Fm6Q"
    assert files["sub"]["sha"] == "1" * 40
    assert (files["run.sh"]["previous_mode"], files["run.sh"]["mode"]) == ("100644", "100755")
    expected = (None, None, 1)
    assert (files["gone"]["sha"], files["gone"]["mode"], files["gone"]["deletions"]) == expected
    assert files["bin"]["is_binary"] is True and files["bin"]["additions"] is None
    totals = {
        name: sum(file[name] or 0 for file in files.values()) for name in ("additions", "deletions")
    }
    assert record["stats"] == {**totals, "changed_files": len(files)}
    direct = ask("main...topic/x?direct=true").gives()
    assert {file["path"] for file in direct["files"]["results"]} == {*files, "later"}
    same = ask(f"{topic}...refs/heads/topic/x").gives()
    assert (same["ahead_by"], same["commits"], same["files"]["results"]) == (0, [], [])


def test_histories_without_a_common_commit_are_compared_as_they_are(
    ask, pair, code, team_repo, alice
) -> None:
    push(team_repo, "refs/heads/alone", code.commit_with({b"a.txt": TEXT}), by=alice)
    ask("main...alone").fails(422, "no_merge_base")
    record = ask("main...alone?direct=true").gives()
    assert (record["merge_base_sha"], record["ahead_by"], record["behind_by"]) == (None, 1, 2)
    assert {file["status"] for file in record["files"]["results"]} == {"removed"}


def test_a_tag_is_compared_as_its_commit(ask, pair, code, team_repo, alice) -> None:
    push(team_repo, "refs/tags/v1", code.tag_of(pair[0]), by=alice)
    assert ask("v1...topic/x").gives()["base_sha"] == pair[0]
    assert ask(f"{code.tag_of(pair[0])}...topic/x").gives()["base_sha"] == pair[0]


def test_pages_have_every_file_once_while_somebody_pushes(
    ask, pair, team_repo, alice, code
) -> None:
    whole = ask("main...topic/x?patch=true").gives()
    url, seen = "main...topic/x?per_page=3&patch=true", []
    for _ in range(3):
        page = ask(url).gives()["files"]
        seen += page["results"]
        url = (page["next"] or "").partition("/compare/")[2]
        push(
            team_repo,
            "refs/heads/topic/x",
            code.commit_with({}, team_repo.git.ref("refs/heads/topic/x")),
            by=alice,
        )
    assert url == "" and seen == whole["files"]["results"]


def test_every_list_that_is_cut_says_so(ask, pair, monkeypatch) -> None:
    monkeypatch.setattr(diff, "FILES_MAX", 3)
    monkeypatch.setattr(comparison, "COMMITS_MAX", 1)
    record = ask("main...topic/x?per_page=2&page=2").gives()
    assert record["files_truncated"] is record["files"]["files_truncated"] is True
    assert record["stats"]["changed_files"] == 8
    assert len(record["files"]["results"]) == 1 and record["files"]["next"] is None
    assert (len(record["commits"]), record["commits_truncated"], record["ahead_by"]) == (1, True, 2)


def test_patches_are_shown_of_thirty_files_at_most(ask, pair, code, team_repo, alice) -> None:
    files = {b"%02d" % n: b"%d\n" % n for n in range(35)}
    files |= {b"0bin": b"\0", b"0wide": b"x" * (diff.SIDE_MAX + 1), b"0latin": b"\xe9\n"}
    push(team_repo, "refs/heads/many", code.commit_with({**OLD, **files}, pair[0]), by=alice)
    assert "patch" not in ask("main...many").gives()["files"]["results"][0]
    page = ask("main...many?patch=true&per_page=100").gives()["files"]["results"]
    assert len(page) == 30
    patches = {
        file["path"]: (file["patch"], file["is_binary"], file["is_too_large"]) for file in page
    }
    assert patches["0bin"] == (None, True, False)
    assert patches["0wide"] == (None, False, True)
    assert patches["0latin"] == ("@@ -0,0 +1 @@\n+\ufffd\n", False, False)
    assert patches["07"] == ("@@ -0,0 +1 @@\n+7\n", False, False)


def test_the_diff_as_text_applied_to_the_merge_base_gives_the_head(
    text, pair, code, tmp_path
) -> None:
    answer = text("main...topic/x?format=diff")
    assert (answer.status_code, answer["Content-Type"]) == (200, "text/x-diff")
    assert answer["X-Content-Type-Options"] == "nosniff"
    env = {
        "PATH": os.environ["PATH"],
        "GIT_DIR": str(code.path),
        "GIT_INDEX_FILE": str(tmp_path / "index"),
    }
    start = code.git("merge-base", *pair).word
    for args in (["read-tree", start], ["apply", "--cached", "-"], ["write-tree"]):
        stdin = bytes_of(answer) if "apply" in args else b""
        done = subprocess.run(
            ["git", *args], env=env, cwd=tmp_path, input=stdin, capture_output=True, check=False
        )
        assert done.returncode == 0, done.stderr
    assert done.stdout.decode().strip() == code.show(pair[1]).partition("\n")[0].removeprefix(
        "tree "
    )
    mails = text("main...topic/x?format=patch")
    assert mails["Content-Type"] == "text/plain; charset=utf-8"
    assert bytes_of(mails).count(b"\nSubject: [PATCH ") == 2
    unchanged = text("main...topic/x?format=patch", **{"If-None-Match": mails["ETag"]})
    assert (unchanged.status_code, unchanged.content) == (304, b"")


def test_a_text_that_is_too_large_is_refused_before_its_first_byte(ask, pair, monkeypatch) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(exports, "TEXT_MAX", 500)
        for form in ("diff", "patch"):
            assert "git fetch" in ask(f"main...topic/x?format={form}").fails(422, "diff_too_large")
    before = run.spawned
    ask("main...topic/x?format=diff").fails(422, "diff_too_large")
    assert run.spawned == before, "the refusal is cached"
    monkeypatch.setattr(comparison, "FILES_MAX", 7)
    ask("main...topic/x?format=diff&direct=true").fails(422, "diff_too_large")


def test_a_large_text_is_sent_in_pieces_from_a_file(text, pair, code, team_repo, alice) -> None:
    lines = os.urandom(1024 * 1024).hex().encode()
    push(
        team_repo, "refs/heads/large", code.commit_with({**OLD, b"large": lines}, pair[0]), by=alice
    )
    for _ in range(2):  # the second time, its size is cached
        answer = text("main...large?format=diff")
        assert answer.streaming and int(answer["Content-Length"]) > len(lines)
        assert lines in bytes_of(answer)


def test_the_second_answer_runs_no_git(ask, pair) -> None:
    first = ask("main...topic/x").gives()
    before = run.spawned
    assert ask("main...topic/x?page=1").gives()["files"]["results"] == first["files"]["results"]
    assert run.spawned == before
    tag = ask("main...topic/x").header("ETag")
    assert ask("main...topic/x", **{"If-None-Match": tag}).status == 304
    assert run.spawned == before


@pytest.fixture
def fork(make: Any, team_repo: Repo, pair: Any, carol: Any, alice: Any) -> tuple[Repo, str]:
    """A private fork of carol, who may read the upstream. Its `topic` has a commit of its own."""
    team_repo.visibility = "public"
    team_repo.save()
    uuid = ForkFactory.create(upstream=team_repo, owner=carol).repo_uuid
    made = Repo.objects.get(fork__repo_uuid=uuid)
    made.visibility = "private"
    made.save()
    made.git.create()
    made.git.fetch_objects(team_repo.git, pair[0])
    head = code_of(made).commit_with({b"secret": b"hidden\n"}, pair[0], message="Hide it")
    push(made, "refs/heads/topic", head, by=carol)
    return made, head


def test_a_head_in_a_fork_is_compared_without_being_copied(ask, fork, carol, team_repo) -> None:
    made, head = fork
    for name in ("carol", "users/carol", "users/CAROL"):
        record = ask(f"main...{name}:topic?patch=true&per_page=1", carol).gives()
        assert (record["head_sha"], record["ahead_by"]) == (head, 1)
        assert record["commits"][0]["web_url"].endswith(f"/{made.path}/commits/{head}")
        assert f"...{name}:{head}?" in record["files"]["next"]
    assert ask(record["files"]["next"].partition("/compare/")[2], carol).gives()["head_sha"] == head
    for name in ("teams/acme", "teams/ACME"):
        assert ask(f"main...{name}:main", carol).gives()["ahead_by"] == 0
    assert not team_repo.git.has_commit(head)


def test_a_private_fork_shows_nothing_to_who_may_not_read_it(ask, fork, carol, bob, alice) -> None:
    _, head = fork
    ask("main...carol:topic", carol).gives()
    ask("main...carol:topic?patch=true", carol).gives()
    said = {
        ask(f"main...{name}:{ref}{query}", person).fails(422, "source_not_found").replace(name, "?")
        for person in (bob, alice)
        for name in ("users/carol", "carol", "users/nobody", "teams/none", "bob")
        for ref in ("topic", "nothing", head, "-x")
        for query in ("", "?format=diff")
    }
    assert len(said) == 1
    for person in (bob, carol):  # by its name alone, after a reader of the fork has got the answer
        ask(f"main...{head}", person).fails(404, "not_found")
        ask(f"{head}...main", person).fails(404, "not_found")


def test_any_owner_has_one_address_for_each_name(ask, pair) -> None:
    """A slash may be encoded."""
    assert ask(quote("main...topic/x", safe="")).gives() == ask("main...topic/x").gives()


def test_a_slot_for_slow_answers_is_waited_for(ask, pair, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("apps.core.slots.PATIENCE", 0)
    with heavy_slots.slot("another"), monkeypatch.context() as patch:
        patch.setattr(heavy_slots, "most", 1)
        ask("main...topic/x").fails(503, "unavailable")
    ask("main...topic/x").gives()
