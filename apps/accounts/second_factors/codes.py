"""The codes of authenticator apps and the recovery codes. Libraries are imported when used, so that
a site without second factors does not load them.
"""

from __future__ import annotations

import base64
import secrets
import time
from hashlib import sha256
from urllib.parse import quote, urlencode, urlsplit

from apps.accounts.models import User
from apps.core.views import site_url

KEY_BYTES = 20
TOLERANCE = 1
"""Time steps by which the clock of an app may differ, of 30 seconds each."""
CODES = 10
"""Recovery codes of a person."""
CODE_MAX = 32
"""Characters of the longest code, with spaces and dashes."""


def new_key() -> str:
    """A new key of an authenticator app, in hex."""
    return secrets.token_hex(KEY_BYTES)


def key_text(key: str) -> str:
    """The key in base32, as people type it into an app, in groups of four."""
    text = base64.b32encode(bytes.fromhex(key)).decode()
    return " ".join(text[start : start + 4] for start in range(0, len(text), 4))


def app_link(user: User, key: str) -> str:
    """The `otpauth:` link that apps read from a QR code. Its issuer is the host of the site, but no
    port: a colon ends the issuer in the label.
    """
    host = urlsplit(site_url()).hostname or ""
    label = quote(f"{host}:{user.username}", safe="")
    query = urlencode({"secret": key_text(key).replace(" ", ""), "issuer": host})
    return f"otpauth://totp/{label}?{query}"


def qr_code(text: str) -> str:
    """A `data:` address of an SVG with the QR code of a text, dark on light in both themes."""
    import segno

    return str(segno.make(text, error="m", micro=False).svg_data_uri(scale=4, light="#fff"))


def matching_step(key: str, code: str, *, after: int) -> int | None:
    """The time step of this code, if it is later than `after` and near now; else None."""
    from django_otp.oath import TOTP

    if not (len(code) == 6 and code.isascii() and code.isdigit()):
        return None
    app = TOTP(bytes.fromhex(key))
    app.time = time.time()  # the same for all steps
    return app.t() if app.verify(int(code), tolerance=TOLERANCE, min_t=after + 1) else None


def new_recovery_codes() -> list[str]:
    """New recovery codes of 80 random bits each, such as `mfrg-gzdf-mztw-q2lk`."""
    return ["-".join(_groups(secrets.token_bytes(10))) for _ in range(CODES)]


def _groups(random: bytes) -> list[str]:
    text = base64.b32encode(random).decode().lower()
    return [text[start : start + 4] for start in range(0, len(text), 4)]


def plain_code(code: str) -> str:
    """A typed code without spaces and dashes, in lower case."""
    return "".join(code.split()).replace("-", "").lower()


def recovery_digest(code: str) -> str:
    """The digest that is stored in place of a recovery code."""
    return sha256(plain_code(code).encode()).hexdigest()
