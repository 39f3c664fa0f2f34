"""SSH keys for tests."""

from __future__ import annotations

import secrets
from typing import Any

from apps.accounts.models import User
from apps.ssh.models import SshKey
from apps.ssh.public_keys import PublicKey

ED25519 = "ssh-ed25519"


def new_key() -> PublicKey:
    """A public key that nobody has the private key of."""
    fields = (ED25519.encode(), secrets.token_bytes(32))
    return PublicKey(ED25519, b"".join(len(one).to_bytes(4) + one for one in fields), "laptop")


def ssh_key_of(by: User, **values: Any) -> SshKey:
    """A stored key, of `user` or of `repo`, that this person has added."""
    key = new_key()
    values = {"title": "laptop", **values, "key": key.text, "fingerprint": key.fingerprint}
    return SshKey.objects.create(created_by=by, **values)
