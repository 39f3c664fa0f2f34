"""Parts of git over SSH without a connection."""

from __future__ import annotations

import subprocess
import sys

import pytest
from django.http import Http404

from apps.accounts.actions import deactivate_user
from apps.accounts.principal import Principal
from apps.core.access import Level
from apps.core.errors import ApiError, Forbidden, Invalid
from apps.git.protocol import FLUSH, FetchChecker, ProtocolError, pkt
from apps.repos.http.push import check_credential
from apps.site import limits
from apps.site.models import RateLimit
from apps.ssh.access import find_key, open_by_key, principal_of_key
from apps.ssh.addresses import clone_address
from apps.ssh.archives import parse_arguments, read_arguments
from apps.ssh.commands import GitCommand, RefusedCommand, parse_command
from apps.ssh.host_keys import fingerprint_of_file, host_keys
from apps.ssh.models import SshKey
from apps.ssh.queries import valid_keys
from apps.teams.models import Member
from config.environment import Address
from tests.server import ROOT
from tests.ssh_keys import ssh_key_of

LOADED = """
import sys, django
django.setup()
import config.asgi, config.wsgi, config.urls, config.management.commands.serve
from django.urls import get_resolver
get_resolver().url_patterns
print({"asyncssh", "apps.ssh.server", "apps.ssh.host_keys"} & set(sys.modules))
"""


def test_a_site_without_it_loads_none_of_it(tmp_path):
    done = subprocess.run(
        [sys.executable, "-c", LOADED],
        cwd=ROOT,
        env={"DATA_DIR": str(tmp_path), "DJANGO_SETTINGS_MODULE": "config.settings"},
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout == "set()\n"


@pytest.mark.parametrize(
    ("text", "owner", "slug"),
    [
        ("git-upload-pack '/teams/acme/api.git'", "teams/acme", "api"),
        ("git-upload-pack teams/acme/api", "teams/acme", "api"),
        ("git upload-pack 'users/Ada.B/x.y.git/'", "users/ada.b", "x.y"),
    ],
)
def test_a_command_names_a_repository(text, owner, slug):
    request = parse_command(text)
    assert (request.command, request.owner, request.slug) == (GitCommand.UPLOAD_PACK, owner, slug)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "'",
        "git",
        "git-upload-pack",
        "git-upload-pack ''",
        "git-upload-pack --help teams/acme/api",
        "git-upload-pack /etc/passwd",
        "git-upload-pack teams/acme/../api",
        "git-upload-pack 'teams/acme/api\n'",
        f"git-upload-pack {'x' * 2000}",
        "git-receive-pack -x",
        "git-daemon teams/acme/api",
    ],
)
def test_other_commands_are_refused(text):
    with pytest.raises(RefusedCommand):
        parse_command(text)


def test_a_fetch_is_checked_as_it_arrives(monkeypatch):
    whole = pkt(b"command=fetch") + pkt(b"filter sparse:oid=main") + FLUSH
    checker = FetchChecker()
    with pytest.raises(ProtocolError, match="no sparse"):
        for byte in whole:
            checker.feed(bytes([byte]))
    many = FetchChecker()
    with pytest.raises(ProtocolError, match="at most"):
        for _ in range(1002):
            many.feed(pkt(b"thin-pack"))


def test_host_keys_are_made_once_and_are_private(tmp_path):
    paths = host_keys(tmp_path)
    before = [path.read_bytes() for path in paths]
    assert [path.read_bytes() for path in host_keys(tmp_path)] == before
    assert {path.stat().st_mode & 0o777 for path in paths} == {0o600}
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        "ssh_host_ed25519_key",
        "ssh_host_rsa_key",
    ]
    listing = subprocess.run(["ssh-keygen", "-lf", paths[0]], capture_output=True, text=True)
    assert listing.stdout.split()[1] == fingerprint_of_file(paths[0])


def test_the_address_is_that_of_the_settings(settings):
    assert clone_address("teams/acme/api") == ""
    settings.BASE_URL, settings.SSH_ADDRESS = "https://code.example.org", Address("127.0.0.1", 2222)
    assert clone_address("teams/acme/api") == "ssh://git@code.example.org:2222/teams/acme/api.git"
    settings.SSH_ADDRESS = Address("::", 22)
    assert clone_address("x") == "ssh://git@code.example.org/x.git"
    settings.SSH_URL = "ssh://git@git.example.org"
    assert clone_address("x") == "ssh://git@git.example.org/x.git"


def test_a_key_may_do_what_its_person_may(team_repo, alice, bob, carol, make):
    own = {person: ssh_key_of(person, user=person) for person in (alice, bob, carol)}
    with pytest.raises(Forbidden):
        open_by_key(own[carol], "teams/acme", "api", writing=False)
    assert open_by_key(own[bob], "teams/acme", "api", writing=True).level >= Level.WRITE
    with pytest.raises(Http404):
        open_by_key(own[bob], "teams/acme", "nothing", writing=False)
    Member.objects.filter(user=bob).update(role="viewer")
    with pytest.raises(Forbidden, match="write access"):
        open_by_key(own[bob], "teams/acme", "api", writing=True)


def test_a_key_ends_with_its_row_and_with_the_account(bob, alice, sam, team_repo):
    key = ssh_key_of(bob, user=bob)
    deploy = ssh_key_of(bob, repo=team_repo, can_write=True)
    both = {key.pk, deploy.pk}
    check_credential(principal_of_key(key))
    assert valid_keys(both) == both
    deactivate_user(principal=Principal(sam), user=bob)
    assert find_key(key.fingerprint) is None and valid_keys(both) == {deploy.pk}
    with pytest.raises(ApiError, match="ended"):
        check_credential(principal_of_key(key))
    # A deploy key belongs to the repository: its creator is only the actor.
    row = find_key(deploy.fingerprint)
    assert row is not None
    access = open_by_key(row, "teams/acme", "api", writing=True)
    assert access.user == bob and access.renewed().level is Level.WRITE
    check_credential(access.principal)
    SshKey.objects.filter(pk=deploy.pk).delete()
    assert access.renewed().level is Level.NONE
    with pytest.raises(Forbidden):
        access.renewed().require_change(Level.WRITE)
    with pytest.raises(ApiError, match="ended"):
        check_credential(access.principal)


def test_a_deploy_key_opens_its_repository_alone(make, acme, alice, team_repo):
    other = make.repo(acme, by=alice, visibility="public")
    key = ssh_key_of(alice, repo=team_repo)
    row = find_key(key.fingerprint)
    assert row is not None
    with pytest.raises(Forbidden, match="another repository"):
        open_by_key(row, "teams/acme", other.slug, writing=False)
    with pytest.raises(Forbidden, match="only reads"):
        open_by_key(row, "teams/acme", "api", writing=True)
    assert open_by_key(row, "teams/acme", "api", writing=False).level is Level.READ
    team_repo.is_archived = True
    team_repo.save()
    SshKey.objects.update(can_write=True)
    row = find_key(key.fingerprint)
    assert row is not None
    with pytest.raises(ApiError, match="archived"):
        open_by_key(row, "teams/acme", "api", writing=True)


def test_a_command_counts_for_its_person_and_wrong_keys_for_their_address(alice, db):
    # A row of a migration, if a test with transactions has not removed it.
    RateLimit.objects.filter(scope="login").delete()
    RateLimit.objects.create(scope="login", max_requests=20, window_seconds=86_400)
    RateLimit.objects.create(scope="git", max_requests=1, window_seconds=86_400)
    limits.changed()
    limits.throttle_ssh(alice, str(alice.pk))
    with pytest.raises(ApiError, match="used up"):
        limits.throttle_ssh(alice, str(alice.pk))
    limits.throttle_ssh(None, "key-1")
    waits = [limits.wait_after_wrong_keys("192.0.2.1") for _ in range(21)]
    assert waits[:20] == [0] * 20 and waits[20] > 0
    assert limits.wait_after_wrong_keys("192.0.2.2") == 0


def test_the_arguments_of_an_archive():
    sent = pkt(b"argument --format=tgz\n") + pkt(b"argument --prefix=a/\n")
    sent += pkt(b"argument v1\n") + pkt(b"argument --\n") + pkt(b"argument docs/\n") + FLUSH
    arguments = parse_arguments(read_arguments([sent[:9], sent[9:]]))
    assert (arguments.form, arguments.prefix, arguments.ref, arguments.path) == (
        "tar.gz",
        "a/",
        "v1",
        b"docs",
    )
    for refused in ([b"argument x\n"], [b"zzzz"], [b"0003"]):
        with pytest.raises(Invalid):
            read_arguments(refused)
    for words in ([], ["--remote=x", "v1"], ["--exec=sh", "v1"], ["a", "b", "c"]):
        with pytest.raises(Invalid):
            parse_arguments(words)
