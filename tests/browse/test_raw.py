"""`GET` and `HEAD …/raw/{path}`"""

from __future__ import annotations

from contextlib import closing

import pytest

from apps.browse.downloads import LOOKED_AT, OTHER, TEXT, kind_of
from apps.browse.trees import INLINE_MAX
from apps.core.slugs import PREFIX
from apps.git import run
from apps.repos.http.transfer_slots import process_slots
from tests.browse.code import LINK, SUBMODULE, code_of, push
from tests.gitclient import Git
from tests.processes import git_processes, memory
from tests.uploads.conftest import PNG
from tests.waiting import eventually

pytestmark = pytest.mark.once
MAIN = "refs/heads/main"
MIB = 1024 * 1024
POLICY = "default-src 'none'; sandbox"
FILES = {
    b"page.html": b"<script>alert(1)</script>",
    b"empty.svg": b"",
    b"picture.html": PNG,
    b"paper.pdf": b"%PDF-1.7\n\xff",
    b"text.pdf": b"%PDF-1.7\n",
    b"nul.js": b"alert(1)\0",
    b"link": (LINK, b"../caf\xe9"),
    b"lib": (SUBMODULE, b"1" * 40),
    b"d/x": b"",
    b"large.txt": "ö".encode() * INLINE_MAX,
    b'sl"ow\r\n\xc3\xa9.bin': b"\0",
}


@pytest.fixture
def get(api, repo, alice):
    """`get("README", method="HEAD")` returns the response to alice."""
    person = api(alice)

    def ask(end, method="GET", **headers):
        path = f"{PREFIX}{repo.api_path}/raw/{end}"
        return person.client.generic(method, path, headers={**person.headers, **headers})

    return ask


def test_what_has_no_bytes_is_refused(api, repo, commit, alice):
    def fails(end, status, code):
        api(alice).get(f"{repo.api_path}/raw/{end}").fails(status, code)

    fails("d", 422, "is_directory")
    fails("lib", 422, "not_a_file")
    fails("nothing", 404, "not_found")
    fails("page.html?ref=nothing", 404, "not_found")
    fails("d//x", 422, "invalid_path")


@pytest.mark.parametrize(
    ("name", "kind", "is_attachment"),
    [
        ("page.html", TEXT, False),
        ("empty.svg", TEXT, False),
        ("picture.html", "image/png", False),
        ("paper.pdf", OTHER, True),
        ("text.pdf", TEXT, False),
        ("nul.js", OTHER, True),
        ("large.txt", TEXT, False),
    ],
)
def test_bytes_come_as_nothing_that_a_browser_runs(get, code, commit, name, kind, is_attachment):
    content = FILES[name.encode()]
    answer = get(name)
    assert answer.status_code == 200
    assert (b"".join(answer) if answer.streaming else answer.content) == content
    headers = {field: answer.headers[field] for field in answer.headers}
    blob = code.store("blob", [content], len(content))
    assert headers["Content-Type"] == kind
    assert headers["Content-Disposition"].startswith("attachment" if is_attachment else "inline")
    assert headers["Content-Security-Policy"] == POLICY
    assert headers["X-Content-Type-Options"] == "nosniff"
    assert headers["Cache-Control"] == "private, no-cache"
    assert (headers["ETag"], headers["Content-Length"]) == (f'"{blob}"', str(len(content)))
    head = get(name, "HEAD")
    assert (head.status_code, head.content) == (200, b"")
    same = ("Content-Type", "Content-Length", "ETag", "Content-Disposition")
    assert [head.headers[field] for field in same] == [headers[field] for field in same]


def test_a_link_is_where_it_leads_and_a_name_breaks_no_header(get, commit):
    link = get("link")
    assert (link.content, link.headers["Content-Type"]) == (b"../caf\xe9", OTHER)
    odd = get("sl%22ow%0D%0A%C3%A9.bin")
    assert odd.content == b"\0"
    assert "sl%22ow__%C3%A9.bin" in odd.headers["Content-Disposition"]


@pytest.mark.parametrize(
    ("start", "kind"),
    [
        ("ö".encode()[:1], OTHER),
        (b"a" * LOOKED_AT + b"\0", TEXT),
        (b"a" * (LOOKED_AT - 1) + b"\0", OTHER),
        (b"a" * (LOOKED_AT - 1) + "ö".encode(), TEXT),  # the character is cut in the middle
        (b"\xff\xd8\xff\xe0", "image/jpeg"),
        (b"GIF89a\0\xff", "image/gif"),
        (b"RIFF\0\0\0\0WEBPVP8 ", "image/webp"),
        (b"\0\0\0\x20ftypavif\0", "image/avif"),
        (b"\0\0\0\x20ftypheic\0", OTHER),
        (b"\x00<svg", OTHER),
    ],
)
def test_the_first_bytes_say_what_a_file_is(start, kind):
    assert kind_of(start, is_whole=True) == kind


def test_304_runs_no_git(get, repo, code, commit, alice):
    tag = {"If-None-Match": get("page.html").headers["ETag"]}
    before = run.spawned
    answer = get("page.html", **tag)
    assert (answer.status_code, answer.content, answer.headers["ETag"]) == (304, b"", *tag.values())
    assert get("page.html", "HEAD", **tag).status_code == 304
    assert run.spawned == before
    push(repo, MAIN, code.commit_with({**FILES, b"new": b""}, commit), by=alice)
    assert get("page.html", **tag).status_code == 304  # the same blob in another commit
    assert get("text.pdf", **tag).status_code == 200
    assert get("nothing", **tag).status_code == 404


def test_a_file_of_more_than_512_mib_is_left_to_git(api, team_repo, alice):
    repo, code = team_repo, code_of(team_repo)
    sha = code.commit_of(code.tree("100644", {"fit": code.zeros(512), "zeros": code.zeros(513)}))
    push(repo, MAIN, sha, by=alice)
    record = api(alice).get(f"{repo.api_path}/contents/zeros").gives()
    assert (record["size"], record["content"], record["is_binary"]) == (513 * MIB, None, True)
    text = api(alice).get(f"{repo.api_path}/raw/zeros").fails(422, "file_too_large")
    assert str(513 * MIB) in text
    head = api(alice).client.head(f"{PREFIX}{repo.api_path}/raw/fit", headers=api(alice).headers)
    assert head.headers["Content-Length"] == str(512 * MIB)


def test_a_large_file_takes_a_transfer_slot_until_it_is_sent(get, commit, settings):
    settings.GIT_SLOTS_PER_PERSON = 1
    answer = get("large.txt")
    assert process_slots.held
    refused = get("large.txt")
    assert (refused.status_code, refused.headers["Retry-After"]) == (429, "10")
    assert get("page.html").status_code == 200  # small files need no slot
    assert b"".join(answer) == FILES[b"large.txt"]
    assert not process_slots.held
    assert b"".join(get("large.txt")) == FILES[b"large.txt"]


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["serve", "gunicorn", "gunicorn-asgi"])
def test_a_real_server_sends_a_large_file_in_little_memory_and_ends_git_with_the_client(
    new_server, tmp_path, kind
):
    with new_server(tmp_path, kind) as server:
        path, headers = with_zeros(server, tmp_path / "work", 150)
        before = memory(*server.pids)
        with closing(server.connect()) as connection:
            connection.request("GET", path, headers=headers)
            answer, size = connection.getresponse(), 0
            assert answer.headers["Content-Length"] == str(150 * MIB)
            while piece := answer.read(MIB):
                size += len(piece)
        assert size == 150 * MIB
        assert memory(*server.pids) - before < 64 * MIB
        with closing(server.connect()) as leaving:
            leaving.request("GET", path, headers=headers)
            assert leaving.getresponse().status == 200
            eventually(lambda: git_processes(*server.pids))
        eventually(lambda: not git_processes(*server.pids))


def with_zeros(server, folder, mebibytes):
    """Push a large file; return the path of its raw bytes, and headers of a reader."""
    server.api("alice").post("/users/alice/repos", name="Big", slug="big").gives(201)
    git = Git(folder, f"{server.url}/users/alice/big.git", server.token("alice"))
    with (folder / "zeros").open("wb") as file:
        file.truncate(mebibytes * MIB)
    git("add", "zeros")
    git("commit", "--quiet", "--message", "Zeros")
    git("push", "--quiet", git.url, "main")
    headers = {"Authorization": f"Bearer {server.token('alice')}"}
    return f"{PREFIX}/users/alice/repos/big/raw/zeros", headers
