"""git over SSH with the real ssh, git and server."""

from __future__ import annotations

import asyncio
import os
import re
import subprocess
import tarfile
from io import BytesIO

import asyncssh
import pytest

from apps.git.protocol import FLUSH, Service, pkt
from tests.waiting import eventually

pytestmark = [pytest.mark.slow, pytest.mark.once]


@pytest.fixture
def ours(keys, path):
    """alice's work tree, with one commit pushed to `main`."""
    git = keys.work_tree(keys.add("alice"), path)
    git.commit()
    git("push", "--quiet", git.url, "main")
    return git


def kinds_of(server, path: str) -> list[str]:
    events = server.api("alice").get(f"/events?scope=repo:{path}").gives()["results"]
    return [event["kind"] for event in events]


def test_clones_and_pushes_of_all_sorts(ours, path, ssh_server):
    sha = ours("rev-parse", "HEAD")
    assert ours("push", ours.url, "main") == "Everything up-to-date"
    assert ours("ls-remote", ours.url, "main").split()[0] == sha
    for name, *options in (["all"], ["shallow", "--depth=1"], ["partial", "--filter=blob:none"]):
        ours("clone", "--quiet", *options, ours.url, name)
        assert (ours.folder / name / "a.txt").read_text() == (ours.folder / "a.txt").read_text()
    ours("-c", "protocol.version=0", "clone", "--quiet", ours.url, "old")
    ours("push", ours.url, "main:topic", "main:refs/tags/v1")
    assert "[deleted]" in ours("push", "--delete", ours.url, "topic")
    kinds = kinds_of(ssh_server, path)
    assert {"branch-created", "branch-deleted", "tag-created"} <= set(kinds)


def test_refusals_are_those_of_http_and_git_prints_them(ours, keys, path, ssh_server):
    alice, stranger = ssh_server.api("alice"), keys.add("carol")
    assert "You have no access" in keys.work_tree(stranger, path).fails("fetch", f"{ours.url}")
    missing = keys.work_tree(keys.add("alice"), "teams/acme/nothing")
    assert 'no repository "nothing"' in missing.fails("ls-remote", missing.url)
    alice.post(f"/{path.replace('/acme/', '/acme/repos/')}/protections", branch="main").gives(201)
    ours.commit()
    assert "protected branch" in ours.fails("push", ours.url, "main")
    ours("push", "--quiet", ours.url, "main:topic")
    alice.patch(f"/{path.replace('/acme/', '/acme/repos/')}", is_archived=True).gives()
    ours.commit()
    assert "is archived" in ours.fails("push", ours.url, "main:topic")


def test_nothing_but_git_is_served(ours, keys, path):
    key = keys.add("alice")
    for words, text in (
        ([], b"there is no shell"),
        (["ls"], b"git-receive-pack"),
        (["git-upload-pack", path, "x"], b"git-receive-pack"),
        (["git-shell", "-c", "ls"], b"git-receive-pack"),
        ([f"git-upload-pack '{path}'; id"], b"git-receive-pack"),
        (["git-upload-pack", "../../etc"], b"has no repository"),
        (["git-lfs-authenticate", path, "upload"], b"has no Git LFS"),
    ):
        done = keys.ssh(key, *words)
        assert done.returncode == 1 and text in done.stderr, (words, done)
    assert keys.ssh(key, "-s", "sftp").returncode != 0
    assert b"PTY allocation request failed" in keys.ssh(key, "-tt", "ls").stderr
    forwarding = keys.ssh(key, "-o", "ExitOnForwardFailure=yes", "-R", "0:127.0.0.1:1", "ls")
    assert b"remote port forwarding failed" in forwarding.stderr
    tunnel = keys.ssh(key, "-W", "127.0.0.1:22")
    assert tunnel.returncode != 0 and not tunnel.stdout
    stranger = keys.ssh(keys.make(), "git-upload-pack", path)
    assert stranger.returncode == 255 and b"Permission denied (publickey)" in stranger.stderr


def test_a_deploy_key_is_for_its_repository_alone(ours, keys, path, ssh_server):
    api_path = f"/{path.replace('/acme/', '/acme/repos/')}/keys"
    reading, writing = keys.add("alice", api_path), keys.add("alice", api_path, can_write=True)
    reader, writer = keys.work_tree(reading, path), keys.work_tree(writing, path)
    for git in (reader, writer):
        git("pull", "--quiet", git.url, "main")
        git.commit("b.txt")
    assert "only reads" in reader.fails("push", reader.url, "main")
    writer("push", "--quiet", writer.url, "main")
    ssh_server.api("alice").post(
        "/teams/acme/repos", name="Open", slug=f"open-{path[-6:]}", visibility="public"
    ).gives(201)
    other = keys.work_tree(writing, f"teams/acme/open-{path[-6:]}")
    assert "for another repository" in other.fails("ls-remote", other.url)


@pytest.mark.parametrize("service", [Service.UPLOAD_PACK, Service.RECEIVE_PACK])
def test_deleting_a_key_ends_what_it_runs(service, ours, keys, path, ssh_server):
    made = keys.add("alice")
    [uuid] = [
        one["uuid"]
        for one in ssh_server.api("alice").get("/users/self/keys").gives()["results"]
        if one["key"] in made.with_suffix(".pub").read_text()
    ]
    port = keys.url.rpartition(":")[2]
    command = [*keys.command(made).split(), "-p", port, "git@127.0.0.1", f"git-{service}", path]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as running:
        assert running.stdin and running.stdout and running.stderr
        assert re.match(rb"[0-9a-f]{4}", running.stdout.read(4))
        if service is Service.RECEIVE_PACK:
            line = f"{'0' * 40} {ours('rev-parse', 'HEAD')} refs/heads/cut\0report-status"
            running.stdin.write(pkt(line.encode()) + FLUSH + b"PACK\0\0\0\2\0\0\0\1")
            running.stdin.flush()
        ssh_server.api("alice").delete(f"/users/self/keys/{uuid}").gives(204)
        assert running.wait(60) in {1, 255}
        said = running.stdout.read() + running.stderr.read()
        assert b"This key was deleted" in said or b"key has ended" in said, said
    assert "cut" not in ours("ls-remote", ours.url)
    assert keys.ssh(made, "git-upload-pack", path).returncode == 255


def test_an_archive_is_that_of_the_api(ours):
    def archive(*arguments: str) -> subprocess.CompletedProcess[bytes]:
        return subprocess.run(
            ["git", "archive", f"--remote={ours.url}", *arguments],
            env={"PATH": os.environ["PATH"], "GIT_SSH_COMMAND": ours.command, "HOME": "/nowhere"},
            capture_output=True,
            check=False,
            cwd=ours.folder,
        )

    for form in ("tar", "tgz"):
        done = archive(f"--format={form}", "--prefix=x/", "main")
        with tarfile.open(fileobj=BytesIO(done.stdout)) as files:
            assert files.getnames()[-1:] == ["x/a.txt"], done.stderr
    assert archive("HEAD", "a.txt").returncode in {0, 128}
    refused = archive("--format=zip", "nothing")
    assert refused.returncode != 0 and b"nothing" in refused.stderr


def test_a_hundred_connections_at_once(ours, keys, path):
    """Each is open until all of them have the refs."""
    key, port = keys.add("alice"), int(keys.url.rpartition(":")[2])

    async def refs(barrier: asyncio.Barrier) -> bytes:
        options = {"username": "git", "client_keys": [str(key)], "known_hosts": None, "config": []}
        async with asyncssh.connect("127.0.0.1", port, login_timeout=60, **options) as connection:
            command = f"git-upload-pack '{path}'"
            async with connection.create_process(command, encoding=None) as process:
                head = await process.stdout.readexactly(4)
                listed = await process.stdout.readexactly(int(head, 16) - 4)
                await barrier.wait()
                process.stdin.write(FLUSH)
                await process.wait()
                assert process.exit_status == 0
                return bytes(listed)

    async def all_at_once() -> list[bytes]:
        barrier = asyncio.Barrier(100)
        return await asyncio.gather(*(refs(barrier) for _ in range(100)))

    listed = asyncio.run(all_at_once())
    assert len(listed) == 100
    assert len({line[:40] for line in listed}) == 1


def test_an_address_with_many_wrong_keys_has_to_wait(keys, path, ssh_server):
    """Last in this file, since it lowers the limit."""
    wrong, right, staff = keys.make(), keys.add("alice"), ssh_server.api("sam")
    [login] = [
        one for one in staff.get("/rate-limits").gives()["results"] if one["scope"] == "login"
    ]
    staff.put(f"/rate-limits/{login['uuid']}", max_requests=1, window_seconds=600).gives()

    def refused_at_once() -> bool:
        return b"Too many wrong keys" in keys.ssh(wrong, "git-upload-pack", path).stderr

    eventually(refused_at_once)
    assert keys.ssh(right, "ls").returncode == 1, "a valid key still signs in"
