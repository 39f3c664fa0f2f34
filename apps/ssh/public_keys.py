"""Public SSH keys as text: `type base64 comment`, the format of `~/.ssh/id_ed25519.pub`."""

from __future__ import annotations

import base64
import binascii
import hashlib
from dataclasses import dataclass

RSA = "ssh-rsa"
TYPES = (
    "ssh-ed25519",
    "sk-ssh-ed25519@openssh.com",
    "ecdsa-sha2-nistp256",
    "ecdsa-sha2-nistp384",
    "ecdsa-sha2-nistp521",
    "sk-ecdsa-sha2-nistp256@openssh.com",
    RSA,
)
"""The types of keys that may sign in. `sk-` keys are on a security key."""
RSA_BITS = (2048, 16384)
"""Fewest and most bits of an RSA key."""
EXAMPLE = "It looks like “ssh-ed25519 AAAA… you@laptop”, in a file whose name ends in .pub."


class InvalidKey(ValueError):
    """The text is no key that may be used. The message is for the person who sent it."""


@dataclass(frozen=True)
class PublicKey:
    """A public key: its type, its bytes as on the wire, and its comment."""

    kind: str
    blob: bytes
    comment: str

    @property
    def text(self) -> str:
        """The type and the base64 of its bytes, without the comment."""
        return f"{self.kind} {base64.b64encode(self.blob).decode()}"

    @property
    def fingerprint(self) -> str:
        return fingerprint_of(self.blob)


def fingerprint_of(blob: bytes) -> str:
    """`SHA256:…`, as `ssh-keygen -l` prints it."""
    digest = base64.b64encode(hashlib.sha256(blob).digest()).decode()
    return f"SHA256:{digest.rstrip('=')}"


def parse_key(text: str) -> PublicKey:
    """The key that this text contains; `InvalidKey` if it may not be used."""
    if "PRIVATE KEY" in text:
        raise InvalidKey("This is a private key. Never send it; send the file that ends in .pub.")
    lines = [line for line in text.splitlines() if line.strip()]
    if len(lines) != 1:
        raise InvalidKey(f"Send one public key, on one line. {EXAMPLE}")
    kind, encoded, comment = [*lines[0].split(maxsplit=2), "", "", ""][:3]
    _check_type(kind)
    try:
        blob = base64.b64decode(encoded, validate=True)
    except (binascii.Error, ValueError):
        raise InvalidKey(f"This is not a whole public key. {EXAMPLE}") from None
    key = PublicKey(kind, blob, comment.strip())
    _check_parameters(key)
    return key


def _check_type(kind: str) -> None:
    if kind == "ssh-dss":
        raise InvalidKey("DSA keys are no longer safe. Make a key with: ssh-keygen -t ed25519")
    if "-cert-" in kind:
        raise InvalidKey("This is a certificate. Send the public key itself.")
    if kind not in TYPES:
        raise InvalidKey(f"This is not a public key of a supported type. {EXAMPLE}")


def _check_parameters(key: PublicKey) -> None:
    """Refuse keys that are cut off or too weak."""
    from cryptography.exceptions import UnsupportedAlgorithm
    from cryptography.hazmat.primitives.asymmetric.rsa import RSAPublicKey
    from cryptography.hazmat.primitives.serialization import load_ssh_public_key

    try:
        loaded = load_ssh_public_key(key.text.encode())
    except (ValueError, UnsupportedAlgorithm):
        raise InvalidKey(f"This is not a whole public key. {EXAMPLE}") from None
    if isinstance(loaded, RSAPublicKey):
        least, most = RSA_BITS
        if loaded.key_size < least:
            text = f"RSA keys of {loaded.key_size} bits are too weak."
            raise InvalidKey(f"{text} Use at least 3072, or ssh-keygen -t ed25519")
        if loaded.key_size > most:
            raise InvalidKey(f"RSA keys may have at most {most} bits.")
