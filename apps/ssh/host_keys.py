"""The keys by which clients recognize this server, in `DATA_DIR`.

All machines of a site share them with the folder, and backups have them. Knows no asyncssh.
"""

from __future__ import annotations

import base64
import os
import secrets
from pathlib import Path

from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ed25519, rsa

from apps.ssh.public_keys import fingerprint_of

FILES = {"ed25519": "ssh_host_ed25519_key", "rsa": "ssh_host_rsa_key"}
"""Ed25519, and RSA for clients without it. Both are in the format of OpenSSH."""
RSA_BITS = 3072


def host_keys(folder: Path) -> list[Path]:
    """The files of the host keys. Those that are missing are made, readable by their owner alone.

    If two first starts run at once, both use the key of the one that links its file first.
    """
    paths = {kind: folder / name for kind, name in FILES.items()}
    for kind, path in paths.items():
        if not path.exists():
            _make(kind, path)
    return [*paths.values()]


def _make(kind: str, path: Path) -> None:
    key = (
        ed25519.Ed25519PrivateKey.generate()
        if kind == "ed25519"
        else rsa.generate_private_key(public_exponent=65537, key_size=RSA_BITS)
    )
    text = key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.OpenSSH,
        serialization.NoEncryption(),
    )
    new = path.with_name(f"{path.name}.{secrets.token_hex(8)}")
    try:
        with open(os.open(new, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        os.link(new, path)
    except FileExistsError:
        pass
    finally:
        new.unlink(missing_ok=True)


def public_key_of(path: Path) -> str:
    """The public half of a host key as `type base64`."""
    private = serialization.load_ssh_private_key(path.read_bytes(), password=None)
    encoded = private.public_key().public_bytes(
        serialization.Encoding.OpenSSH, serialization.PublicFormat.OpenSSH
    )
    return encoded.decode()


def fingerprint_of_file(path: Path) -> str:
    """`SHA256:…` of a host key."""
    return fingerprint_of(base64.b64decode(public_key_of(path).split()[1]))
