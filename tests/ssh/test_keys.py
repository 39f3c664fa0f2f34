"""/users/self/keys, …/repos/{repo_slug}/keys, and their pages."""

from __future__ import annotations

import base64
import subprocess

import pytest

from apps.core.access import Level
from apps.repos.access import access_to
from apps.ssh import actions
from apps.ssh.models import SshKey
from apps.ssh.public_keys import InvalidKey, PublicKey, parse_key
from tests.principals import principal_of
from tests.ssh_keys import new_key
from tests.web.page_client import PageClient

KEY = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIJ0yl3dwM7hQnM2Vq3r0yqk1G7q1aH7uXv3Jc0r9bKpQ"
KEYS = "/users/self/keys"
DEPLOY = "/teams/acme/repos/api/keys"


def rsa_key(bits: int) -> str:
    fields = [b"ssh-rsa", b"\1\0\1", b"\0" + (2 ** (bits - 1) + 1).to_bytes(bits // 8)]
    blob = b"".join(len(one).to_bytes(4) + one for one in fields)
    return f"ssh-rsa {base64.b64encode(blob).decode()} old@laptop"


@pytest.mark.parametrize("kind", ["ed25519", "ecdsa", "rsa"])
def test_a_key_of_ssh_keygen_has_the_same_fingerprint(kind, tmp_path):
    path = tmp_path / "key"
    subprocess.run(
        ["ssh-keygen", "-q", "-t", kind, "-N", "", "-C", "you@laptop", "-f", path], check=True
    )
    listing = subprocess.run(
        ["ssh-keygen", "-lf", path], check=True, capture_output=True, text=True
    )
    key = parse_key(path.with_suffix(".pub").read_text())
    assert key.fingerprint == listing.stdout.split()[1]
    assert key.comment == "you@laptop"
    with pytest.raises(InvalidKey, match="private key"):
        parse_key(path.read_text())


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("hello", "supported type"),
        ("ssh-dss AAAA", "DSA"),
        ("ssh-ed25519-cert-v01@openssh.com AAAA", "certificate"),
        ("ssh-ed25519", "whole"),
        ("ssh-ed25519 AAAA", "whole"),
        ("ssh-ed25519 %%%%", "whole"),
        (KEY.replace("ssh-ed25519", "ssh-rsa", 1), "whole"),
        (f'command="sh" {KEY}', "supported type"),
        (f"{KEY}\n{KEY}", "on one line"),
        (rsa_key(1024), "1024 bits are too weak"),
        (PublicKey("ssh-rsa", b"", "").text, "whole"),
    ],
)
def test_a_text_that_is_no_safe_key_is_refused_with_the_reason(text, reason):
    with pytest.raises(InvalidKey, match=reason):
        parse_key(text)


def test_a_person_adds_and_deletes_a_key(api, alice, bob, events):
    key = new_key()
    with events():
        assert "private key" in api(alice).post(
            KEYS, key="-----BEGIN OPENSSH PRIVATE KEY-----"
        ).fails(422, "validation_failed")
    with events("ssh-key-created") as recorded:
        made = api(alice).post(KEYS, key=f"{key.text} me@laptop\n").gives(201)
    assert (made["title"], made["key"], made["fingerprint"]) == (
        "me@laptop",
        key.text,
        key.fingerprint,
    )
    [event] = recorded
    assert event.private_to == alice.pk and event.data == {"name": "me@laptop"}
    assert api(alice).get(KEYS).gives()["results"] == [made]
    assert api(bob).get(KEYS).gives()["results"] == []
    one = f"{KEYS}/{made['uuid']}"
    assert api(alice).get(one).gives() == made
    api(bob).delete(one).fails(404, "not_found")
    with events("ssh-key-deleted"):
        api(alice).delete(one).gives(204)
    api(alice).get(one).fails(404, "not_found")
    api(alice).post(KEYS, key=key.text, title="again").gives(201)


def test_a_key_belongs_to_one_person_or_one_repository(api, alice, bob, team_repo):
    key = new_key()
    api(bob).post(DEPLOY, key=key.text).fails(403, "role_required")
    made = api(alice).post(DEPLOY, key=key.text, title="ci").gives(201)
    assert (made["can_write"], made["created_by_username"]) == (False, "alice")
    assert api(alice).get(DEPLOY).gives()["results"] == [made]
    for person, path in ((bob, KEYS), (alice, DEPLOY)):
        api(person).post(path, key=key.text).fails(409, "key_in_use")
    api(alice).delete(f"{DEPLOY}/{made['uuid']}").gives(204)
    assert api(alice).post(DEPLOY, key=key.text, can_write=True).gives(201)["can_write"]


def test_there_are_at_most_50_keys(api, alice, monkeypatch):
    monkeypatch.setattr(actions, "MOST_KEYS", 1)
    api(alice).post(KEYS, key=new_key().text).gives(201)
    api(alice).post(KEYS, key=new_key().text).fails(409, "key_limit")


def test_the_deploy_keys_of_an_archived_repository_stay(api, alice, team_repo):
    one = api(alice).post(DEPLOY, key=new_key().text).gives(201)
    api(alice).patch("/teams/acme/repos/api", is_archived=True).gives()
    api(alice).post(DEPLOY, key=new_key().text).fails(409, "repo_archived")
    api(alice).delete(f"{DEPLOY}/{one['uuid']}").fails(409, "repo_archived")
    page = PageClient(alice).post(f"/teams/acme/api/settings/keys/{one['uuid']}/delete")
    assert page.status == 409 and "archived" in page.text
    assert SshKey.objects.count() == 1


def test_a_deploy_key_is_deleted_only_through_its_own_repository(make, alice, acme, team_repo):
    other = make.repo(acme, by=alice)
    access, principal = access_to(principal_of(alice), team_repo), principal_of(alice)
    assert access.level >= Level.ADMIN
    row = actions.create_deploy_key(access=access, key=new_key().text)
    with pytest.raises(ValueError, match="is not in"):
        actions.delete_deploy_key(access=access_to(principal, other), ssh_key=row)
    with pytest.raises(ValueError, match="is not a key of"):
        actions.delete_key(principal=principal, ssh_key=row)
    assert SshKey.objects.filter(pk=row.pk).exists()


def test_the_pages_add_and_delete_keys(alice, team_repo, settings):
    client, key = PageClient(alice), new_key()
    settings.SSH_ADDRESS = ("127.0.0.1", 2222)
    for home in ("/settings/keys", "/teams/acme/api/settings/keys"):
        assert "whole public key" in client.post(home, title="", key="ssh-ed25519 AAAA").text
        assert client.post(home, title="", key=f"{key.text} here").status == 303
        assert key.fingerprint in client.get(home).text
        row = SshKey.objects.get()
        assert "Delete here?" in client.get(f"{home}/{row.uuid}/delete").text.replace(
            "the key ", ""
        )
        assert client.post(f"{home}/{row.uuid}/delete").status == 303
    assert "SSH keys" in client.get("/settings").text
    settings.SSH_ADDRESS = None
    assert "SSH keys" not in client.get("/settings").text
    assert "does not serve git over SSH" in client.get("/settings/keys").text
