"""apps/git/log.py: lists of commits, also of commits with invalid texts and dates."""

from __future__ import annotations

import datetime as dt

import pytest
from hypothesis import given
from hypothesis import strategies as st

from apps.git import run
from apps.git.log import EPOCH, Commit, Signature, calendar_date, log, parse_log
from apps.git.run import GitError, GitTooLarge
from tests.git.scratch import ALICE, BOB, Scratch, git

pytestmark = pytest.mark.once
SHAS = st.text("0123456789abcdef", min_size=40, max_size=40)
TEXTS = st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]))
DATES = st.datetimes(timezones=st.sampled_from([dt.UTC, dt.timezone(dt.timedelta(hours=-5.5))]))
SIGNATURES = st.builds(
    Signature, TEXTS, TEXTS, DATES.map(lambda date: date.replace(microsecond=0).isoformat())
)
COMMITS = st.builds(Commit, SHAS, SHAS, st.lists(SHAS).map(tuple), SIGNATURES, SIGNATURES, TEXTS)


def written(commit: Commit) -> bytes:
    """The fields of a commit in git's output."""
    texts = [commit.sha, commit.tree, " ".join(commit.parents)]
    for person in (commit.author, commit.committer):
        texts += [person.name, person.email, person.date]
    return "".join(f"{text}\0" for text in [*texts, commit.message]).encode()


@given(st.lists(COMMITS, max_size=4))
def test_what_git_writes_is_read_by_the_count_of_its_fields(commits):
    assert parse_log(b"".join(map(written, commits))) == commits


@given(st.binary())
def test_bytes_of_another_form_are_an_error_of_git(out):
    try:
        assert all(isinstance(commit, Commit) for commit in parse_log(out))
    except GitError as error:
        assert "unexpected output" in str(error)


@given(st.text())
def test_every_date_that_is_shown_is_one_of_the_calendar(text):
    assert dt.datetime.fromisoformat(calendar_date(text)).tzinfo is not None


@pytest.mark.parametrize(
    ("text", "date"),
    [
        ("2023-11-14T23:13:20+02:00", "2023-11-14T23:13:20+02:00"),
        ("2023-11-14T23:13:20Z", "2023-11-14T23:13:20+00:00"),  # newer gits
        ("2023-11-16T02:13:20+53:00", "2023-11-13T21:13:20+00:00"),
        ("2023-11-14T23:13:20-99:99", "2023-11-19T03:52:20+00:00"),
        ("10000-01-01T00:00:00+00:00", EPOCH),
        ("3170843-11-07T09:46:39+00:00", EPOCH),
        ("9999-12-31T23:00:00-99:00", EPOCH),
        ("%aI", EPOCH),
        ("", EPOCH),
    ],
)
def test_dates_that_no_clock_shows(text, date):
    assert calendar_date(text) == date


def hostile(repo: Scratch, head: bytes, message: bytes, *parents: str) -> str:
    """A commit object that git itself would not write."""
    lines = f"tree {repo.tree('100644', {})}\n".encode()
    lines += b"".join(b"parent %s\n" % parent.encode() for parent in parents)
    stored = lines + head + b"\n" + message
    return repo.store("commit", [stored], len(stored))


PLAIN = b"author A <a@x> 5 +0000\ncommitter B <b@x> 6 +0530\n"


@pytest.mark.parametrize(
    ("head", "message", "author", "committer", "text"),
    [
        (PLAIN, b"one\0two", ("A", "a@x"), ("B", "b@x"), "one"),
        (PLAIN, b"caf\xe9\x1f", ("A", "a@x"), ("B", "b@x"), "caf\ufffd\x1f"),
        (b"", b"nobody", ("", ""), ("", ""), "nobody"),
        (b"author\ncommitter \xff\xfe\n", b"", ("", ""), ("", ""), ""),
        (PLAIN + b"encoding ISO-8859-1\n", b"caf\xe9", ("A", "a@x"), ("B", "b@x"), "café"),
        (PLAIN + b"encoding no such\n", b"caf\xe9", ("A", "a@x"), ("B", "b@x"), "caf\ufffd"),
        (PLAIN + b"encoding UTF-7\n", b"a+AAA-b", ("A", "a@x"), ("B", "b@x"), "a+AAA-b"),
        (b"author A\x01%x00 <a> 5 +9999\ncommitter B> <<b>> 99999999999999999999 -1\n", b"%H",
         ("A\x01%x00", "a"), ("B>", "<b"), "%H"),
    ],
)  # fmt: skip
def test_hostile_commits_forge_no_field(repo, head, message, author, committer, text):
    sha = hostile(repo, head, message)
    [commit] = log(repo, sha, count=9)
    assert (commit.sha, commit.parents, commit.message) == (sha, (), text)
    assert (commit.author.name, commit.author.email) == author
    assert (commit.committer.name, commit.committer.email) == committer
    for person in (commit.author, commit.committer):
        assert dt.datetime.fromisoformat(person.date).year in (1970, 1969)


def test_a_date_keeps_the_offset_of_its_commit(repo):
    [commit] = log(repo, hostile(repo, PLAIN, b"x"), count=1)
    assert commit.committer.date == "1970-01-01T05:30:06+05:30"


def test_a_subject_is_the_first_paragraph_in_one_line():
    person = Signature("A", "a@x", EPOCH)
    for message, subject in {
        "\n \none\ntwo\n\nthree": "one two",
        "one\r\n\r\ntwo\r\n": "one",
        "": "",
        " \n": "",
    }.items():
        assert Commit("", "", (), person, person, message).subject == subject


@pytest.fixture
def line(repo: Scratch) -> list[str]:
    """Five commits, newest first. The second and the fourth are Bob's."""
    shas: list[str] = []
    for number in range(5):
        author = BOB if number % 2 else ALICE
        files = {"a": b"%d" % (number // 3), "b": b"%d" % number, "a*": b"x", "caf\udce9": b"x"}
        message = f"commit {number}"
        shas.insert(0, repo.commit(files, *shas[:1], author=author, message=message))
    return shas


def test_pages_ranges_and_their_order(repo, line):
    def found(**asked):
        return [commit.sha for commit in log(repo, line[0], **asked)]

    assert found(count=9) == line
    assert found(count=2, skip=1) == line[1:3]
    assert found(count=2, skip=1, reverse=True) == line[2:0:-1]
    assert found(count=9, exclude=line[2]) == line[:2]
    assert found(count=9, exclude=line[0]) == []
    assert found(count=9, skip=5) == []
    [commit] = log(repo, line[4], count=1)
    assert (commit.subject, commit.author.name) == ("commit 0", ALICE.name)


def test_only_what_changes_a_path_which_is_taken_literally(repo, line):
    def found(path):
        return [commit.sha for commit in log(repo, line[0], count=9, path=path)]

    assert found(b"a") == [line[1], line[4]]
    assert found(b"a*") == found("caf\udce9".encode("utf-8", "surrogateescape")) == [line[4]]
    assert found(b"?") == found(b":(top)a") == found(b":/") == found(b"-a") == found(b"a\nb") == []


def test_only_what_somebody_wrote_whose_name_is_taken_literally(repo, line):
    def found(author):
        return [commit.sha for commit in log(repo, line[0], count=9, author=author)]

    assert found("bOB") == found("bob@example") == [line[1], line[3]]
    assert found("B.b") == found("^Bob") == found("--output=/x") == []


def test_a_mailmap_decides_nothing(repo):
    mapped = f"Mallory <mallory@example.org> <{ALICE.email}>\n".encode()
    sha = repo.commit({".mailmap": mapped})
    repo.update_ref("refs/heads/main", sha, "0" * 40)
    assert git(repo.path, "log", "--format=%aN", "--author=Mallory", sha) == b"Mallory"
    assert log(repo, sha, count=1, author="Mallory") == []
    [commit] = log(repo, sha, count=1, author="Alice")
    assert commit.author.email == ALICE.email


def test_dates_that_git_could_misread_are_moved_into_the_years_that_it_reads(repo, line):
    def found(**asked):
        return len(log(repo, line[0], count=9, **asked))

    at = "2023-11-14T22:13:21+00:00"  # of all of them
    assert found(since=at) == found(until=at) == found(since="2023-11-15T00:13:21+02:00") == 5
    assert found(since="2023-11-14T22:13:22Z") == found(until="2023-11-14T22:13:20Z") == 0
    assert found(since="0001-01-01T00:00:00+14:00") == found(until="9999-12-31T23:59:59-12:00") == 5
    assert found(since="9999-12-31T23:59:59-12:00") == found(until="0001-01-01T00:00:00+14:00") == 0
    for text in ("yesterday", "2023-11-14T22:13:20", "--all"):
        with pytest.raises(ValueError, match=r"date|isoformat"):
            log(repo, line[0], count=1, since=text)


def test_nothing_but_full_names_reach_git(repo):
    before = run.spawned
    for sha, exclude in (("main", ""), ("--all", ""), ("1" * 40, "--output=x"), ("A" * 40, "")):
        with pytest.raises(ValueError, match="full object name"):
            log(repo, sha, count=1, exclude=exclude)
    assert run.spawned == before


def test_what_is_no_commit_has_none_and_what_is_missing_is_an_error(repo):
    blob = repo.store("blob", [b"x"], 1)
    assert log(repo, blob, count=1) == log(repo, repo.tree("100644", {"x": blob}), count=1) == []
    with pytest.raises(GitError, match="bad object"):
        log(repo, "1" * 40, count=1)


def test_messages_that_are_too_long_together_are_refused(repo):
    sha = hostile(repo, PLAIN, b"short")
    for _ in range(3):
        sha = hostile(repo, PLAIN, b"x" * 3 * 1024 * 1024, sha)
    assert len(log(repo, sha, count=2)) == 2
    with pytest.raises(GitTooLarge, match="wrote more"):
        log(repo, sha, count=3)
