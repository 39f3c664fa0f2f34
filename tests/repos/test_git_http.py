"""Clone, fetch and push with the real git, under `bin/serve` and gunicorn, for both owners."""

import gzip
import os
from pathlib import Path
from uuid import uuid4

import pytest

from apps.git.protocol import FLUSH, pkt

pytestmark = pytest.mark.one_server


def api_path(path):
    owner, name, slug = path.split("/")
    return f"/{owner}/{name}/repos/{slug}"


def renamed():
    """A slug that no repository of this owner has had."""
    return f"renamed-{uuid4().hex[:8]}"


def events_of(server, path):
    rows = server.api("alice").get(f"/events?scope=repo:{path}").gives()["results"]
    return [(event["kind"], event["target"].get("name")) for event in reversed(rows)]


def test_a_push_is_there_for_the_next_clone_and_in_rows_and_events(server, path, git):
    ours = git()
    sha = ours.commit()
    ours("tag", "v1")
    ours("push", "--quiet", ours.url, "main", "v1")
    theirs = git()
    theirs("pull", "--quiet", theirs.url, "main")
    assert theirs("rev-parse", "HEAD") == sha
    assert events_of(server, path)[1:] == [("branch-created", "main"), ("tag-created", "v1")]
    repo = server.api("alice").get(api_path(path)).gives()
    assert (repo["is_empty"], repo["default_branch"]) == (False, "main")


def test_the_first_branch_becomes_the_default_one(server, path, git):
    ours = git()
    ours.commit()
    ours("push", "--quiet", ours.url, "main:trunk")
    assert server.api("alice").get(api_path(path)).gives()["default_branch"] == "trunk"
    assert "ref: refs/heads/trunk" in ours("ls-remote", "--symref", ours.url, "HEAD")


def test_moving_forcing_and_deleting_are_told_apart(server, path, ours):
    first = ours("rev-parse", "HEAD")
    ours("push", "--quiet", ours.url, "main:topic")
    second = ours.commit()
    ours("push", "--quiet", ours.url, "main:topic")
    ours("push", "--quiet", "--force", ours.url, f"{first}:refs/heads/topic")
    ours("push", "--quiet", ours.url, ":topic")
    page = server.api("alice").get(f"/events?scope=repo:{path}&kind=branch-pushed").gives()
    forced, moved = (event["data"] for event in page["results"])
    assert moved == {"before": first, "after": second, "forced": False, "commit_count": 1}
    assert forced == {"before": second, "after": first, "forced": True, "commit_count": 0}
    assert events_of(server, path)[-1] == ("branch-deleted", "topic")


def test_git_follows_a_rename_for_those_who_may_read(server, path, ours, git):
    """A push begins with the same GET as a fetch, and is redirected to the current path too."""
    server.api("alice").put(api_path(path), name="Api", slug=renamed()).gives()
    head = ours.commit()
    ours("push", "--quiet", ours.url, "main")
    output = ours("ls-remote", ours.url, "refs/heads/main")
    assert "redirecting to" in output and head in output
    stranger = git("carol")
    assert "403" in stranger.fails("ls-remote", stranger.url)
    assert "renamed" not in stranger.fails("ls-remote", stranger.url)


def test_a_push_that_has_begun_arrives_though_the_repository_is_renamed(server, path, git):
    """git sends its objects to the same URL as its first request."""
    moves = pkt(f"{'0' * 40} {'1' * 40} refs/notes/x\0report-status".encode()) + FLUSH
    assert post(server, f"{path}-unknown", "receive-pack", moves) == 404
    server.api("alice").put(api_path(path), name="Api", slug=renamed()).gives()
    assert post(server, path, "receive-pack", moves) == 200
    assert post(server, path, "upload-pack", FLUSH) == 200


def test_every_protocol_version_fetches(git):
    ours, theirs = git(), git()
    for version in "012":
        sha = ours.commit()
        ours("push", "--quiet", ours.url, "main")
        theirs("-c", f"protocol.version={version}", "fetch", "--quiet", theirs.url, "main")
        assert theirs("rev-parse", "FETCH_HEAD") == sha


def test_shallow_and_partial_clones_work(git):
    ours, theirs = git(), git()
    for _ in range(3):
        ours.commit()
    ours("push", "--quiet", ours.url, "main")
    theirs("clone", "--quiet", "--depth=1", theirs.url, "shallow")
    assert theirs("-C", "shallow", "rev-list", "--count", "HEAD") == "1"
    theirs("clone", "--quiet", "--filter=blob:none", "--no-checkout", theirs.url, "partial")
    assert "?" in theirs("-C", "partial", "rev-list", "--objects", "--missing=print", "HEAD")


@pytest.mark.slow
def test_a_large_push_arrives_chunked_and_a_long_fetch_request_gzipped(git):
    ours, theirs = git(), git()
    for number in range(60):
        theirs.commit(f"theirs{number}")
    (ours.folder / "noise").write_bytes(os.urandom(3_000_000))
    ours.commit()
    ours("-c", "http.postBuffer=100000", "push", "--quiet", ours.url, "main")
    # the request names sixty commits that the server lacks, and git compresses it
    theirs("-c", "protocol.version=0", "fetch", "--quiet", theirs.url, "main")
    assert ours("rev-parse", "HEAD") == theirs("rev-parse", "FETCH_HEAD")


def test_strangers_and_viewers_do_not_push_and_members_do(server, path, ours, git):
    carol = git("carol")
    carol.commit()
    assert "You have no access" in carol.fails("fetch", carol.url, "main")
    assert "You have no access" in carol.fails("push", carol.url, "HEAD:x")
    if path.startswith("users/"):
        return
    alice, members = server.api("alice"), f"/teams/{path.split('/')[1]}/members"
    alice.post(members, username="carol", role="viewer").gives(201)
    carol("fetch", "--quiet", carol.url, "main")
    assert "write access" in carol.fails("push", carol.url, "main:x")
    alice.put(f"{members}/carol", role="member").gives()
    carol("push", "--quiet", carol.url, "main:x")
    alice.delete(f"{members}/carol").gives(204)  # other tests use the team too


def test_anonymous_people_fetch_what_is_public_and_are_asked_to_sign_in_otherwise(
    server, path, git
):
    ours, nobody = git(), git(None)
    ours.commit()
    ours("push", "--quiet", ours.url, "main")
    assert "could not read Username" in nobody.fails("fetch", nobody.url, "main")
    unknown = nobody.url.replace(".git", "-unknown.git")
    assert "could not read Username" in nobody.fails("fetch", unknown, "main")
    body = {"name": "Open", "slug": path.split("/")[2], "visibility": "public"}
    server.api("alice").put(api_path(path), **body).gives()
    nobody("fetch", "--quiet", nobody.url, "main")
    assert "could not read Username" in nobody.fails("push", nobody.url, "FETCH_HEAD:x")


def test_a_revoked_token_stops_at_the_next_request(server, git):
    made = server.api("alice").post("/api-tokens", name="laptop").gives(201)
    ours = git()
    ours.commit()
    url = ours.url.replace(server.token("alice"), made["token"])
    ours("push", "--quiet", url, "main")
    server.api("alice").put(f"/api-tokens/{made['uuid']}/revoke").gives()
    assert "Authentication failed" in ours.fails("push", url, "main:other")


def test_only_branches_and_tags_are_pushed_and_the_reason_stands_beside_the_ref(server, path, git):
    ours = git()
    ours.commit()
    for ref in ("refs/pull/1/head", "refs/notes/x", "refs/secret"):
        output = ours.fails("push", ours.url, f"HEAD:{ref}")
        assert f"{ref} (only branches and tags can be pushed)" in output
    assert events_of(server, path) == [("repo-created", None)]


def test_one_bad_ref_lets_the_others_in_unless_the_push_is_atomic(server, path, git):
    ours = git()
    ours.commit()
    refs = ("HEAD:refs/heads/good", "HEAD:refs/notes/bad")
    assert "atomic" in ours.fails("push", "--atomic", ours.url, *refs)
    assert events_of(server, path) == [("repo-created", None)]
    ours.fails("push", ours.url, *refs)
    assert events_of(server, path)[1:] == [("branch-created", "good")]


def test_a_deletion_has_to_say_what_is_there(server, path, ours):
    """git deletes a ref of any value if it does not have the old object."""
    tip = ours("rev-parse", "HEAD")
    ours("push", "--quiet", ours.url, "main:topic")
    before = events_of(server, path)
    body = pkt(f"{'1' * 40} {'0' * 40} refs/heads/topic\0report-status".encode()) + FLUSH
    assert post(server, path, "receive-pack", body) == 200
    assert ours("ls-remote", ours.url, "refs/heads/topic").split()[0] == tip
    assert events_of(server, path) == before
    ours("push", "--quiet", ours.url, ":topic")
    assert events_of(server, path)[-1] == ("branch-deleted", "topic")


def test_a_client_that_goes_away_leaves_no_process_and_no_ref(server, path, git):
    connection = server.connect()
    connection.putrequest("POST", f"/{path}.git/git-receive-pack")
    connection.putheader("Authorization", f"Bearer {server.token('alice')}")
    connection.putheader("Content-Type", "application/x-git-receive-pack-request")
    connection.putheader("Content-Length", "1000000")
    connection.endheaders(COMMAND + b"PACK")
    connection.close()
    # The next request to the same repository is answered without any effect of it.
    assert git()("ls-remote", git().url) == ""
    assert events_of(server, path) == [("repo-created", None)]


def test_a_refused_push_of_a_client_that_reads_no_report_is_403(server, path):
    body = pkt(f"{'0' * 40} {'1' * 40} refs/notes/x\0ofs-delta".encode()) + FLUSH
    assert post(server, path, "receive-pack", body) == 403


COMMAND = pkt(f"{'0' * 40} {'1' * 40} refs/heads/x\0report-status".encode()) + FLUSH
# Two commands. The first is refused, so that the second must carry the capabilities.
FIRST = f"{'0' * 40} {'1' * 40} refs/x\0".encode()
OTHER = pkt(f"{'0' * 40} {'1' * 40} refs/heads/x".encode()) + FLUSH
HOSTILE = {
    "no push": (b"garbage", {}),
    "endless list": (pkt(b"x" * 1000) * 2000, {}),
    "no flush": (COMMAND.removesuffix(FLUSH), {}),
    "long capabilities": (pkt(FIRST + b"x" * 65_425) + OTHER, {}),
    "odd capabilities": (pkt(FIRST + b"\xff" * 30_000) + OTHER, {}),
    "zero length": (b"0001" + FLUSH, {}),
    "broken gzip": (b"\x1f\x8bnonsense", {"Content-Encoding": "gzip"}),
    "cut gzip": (gzip.compress(COMMAND + os.urandom(999))[:-9], {"Content-Encoding": "gzip"}),
}


def test_hostile_bodies_are_refused_and_harm_nothing(server, path):
    for case, (body, headers) in HOSTILE.items():
        assert post(server, path, "receive-pack", body, **headers) == 400, case
        assert post(server, path, "upload-pack", body, **headers) < 500, case
    assert events_of(server, path) == [("repo-created", None)]


def post(server, path, service, body, **headers):
    connection = server.connect()
    sent = {
        "Authorization": f"Bearer {server.token('alice')}",
        "Content-Type": f"application/x-git-{service}-request",
        **headers,
    }
    connection.request("POST", f"/{path}.git/git-{service}", body, sent)
    response = connection.getresponse()
    response.read()
    connection.close()
    return response.status


ADDRESSES = [
    ("GET", ".git/info/refs", 403),
    ("GET", ".git/info/refs?service=git-upload-archive", 403),
    ("GET", ".git/git-upload-pack", 405),
    ("POST", ".git/info/refs?service=git-upload-pack", 405),
    ("GET", ".git/HEAD", 404),
    ("GET", ".git/config", 404),
    ("GET", "%2f..%2f..%2fx.git/info/refs?service=git-upload-pack", 404),
    ("GET", "%00.git/info/refs?service=git-upload-pack", 404),
    ("GET", "/../../x.git/info/refs?service=git-upload-pack", 404),
    ("GET", "-unknown.git/info/refs?service=git-upload-pack", 404),
    ("POST", ".git/git-upload-pack", 415),
]


def test_other_addresses_and_methods_are_refused(server, path):
    sent = {"Authorization": f"Bearer {server.token('alice')}"}
    for method, tail, status in ADDRESSES:
        connection = server.connect()
        connection.request(method, f"/{path}{tail}", headers=sent)
        assert connection.getresponse().status == status, tail
        connection.close()


def test_a_signed_commit_keeps_every_byte(git):
    ours, theirs = git(), git()
    ours.commit()
    raw = ours("cat-file", "commit", "HEAD")
    head, _, message = raw.partition("\n\n")
    signature = "gpgsig -----BEGIN PGP SIGNATURE-----\n \n abc=\n -----END PGP SIGNATURE-----"
    (ours.folder / "signed").write_text(f"{head}\n{signature}\n\n{message}\n")
    sha = ours("hash-object", "-t", "commit", "-w", "signed")
    ours("push", "--quiet", ours.url, f"{sha}:refs/heads/signed")
    theirs("fetch", "--quiet", theirs.url, "signed")
    assert theirs("rev-parse", "FETCH_HEAD") == sha


def test_a_push_beyond_the_size_limit_is_told_so_and_leaves_nothing(server, path, ours):
    """The limit is git's `receive.maxInputSize`, 2 GiB, here lowered to a size that can be sent."""
    first = ours("rev-parse", "HEAD")
    uuid = server.api("alice").get(api_path(path)).gives()["uuid"]
    store = Path(server.environment["DATA_DIR"]) / "repositories" / uuid[:2] / uuid[2:4]
    config = store / f"{uuid}.git" / "config"
    config.write_text(config.read_text().replace("maxInputSize = 2g", "maxInputSize = 64k"))
    ours.commit("large", os.urandom(200_000).hex())
    output = ours.fails("push", ours.url, "main")
    assert "pack exceeds maximum allowed size" in output
    assert ours("ls-remote", ours.url, "main").split()[0] == first
    assert not list(config.parent.rglob("tmp_*"))
