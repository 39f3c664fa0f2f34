"""Reads the environment into checked values; every problem is named at once, one line each."""

from __future__ import annotations

import os
import re
import secrets
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from email.utils import formataddr, parseaddr
from pathlib import Path
from typing import Any, TypeVar
from urllib.parse import SplitResult, quote, unquote, urlsplit

import dj_database_url

Value = TypeVar("Value")
LOCAL_HOSTS = ["localhost", "127.0.0.1", "[::1]"]
USUAL_PORTS = {"http": 80, "https": 443}
SMTP = {"smtp": 25, "smtp+tls": 587, "smtps": 465}
"""Ways to send mail, and their usual ports: in the clear, with STARTTLS, inside TLS."""


@dataclass(frozen=True)
class Mail:
    """How mail leaves: printed (`console`), as files in a folder (`filebased`), or by `smtp`."""

    kind: str
    folder: str = ""
    host: str = ""
    port: int = 0
    user: str = ""
    password: str = field(default="", repr=False)
    starts_tls: bool = False
    inside_tls: bool = False


class Environment:
    """What the operator may set, with the defaults of the embedded mode."""

    def __init__(self, root: Path, variables: Mapping[str, str] = os.environ) -> None:
        """Read all variables; exits with one line per wrong one."""
        reader = _Reader(variables)
        self.data_dir = reader.get("DATA_DIR", str(root / "var"), _data_dir)
        self.base_url = reader.get("BASE_URL", "", _base_url)
        self.host = reader.get("HOST", "127.0.0.1", _host)
        self.port = reader.get("PORT", "8000", _port)
        hosts = _default_hosts(self.host, self.base_url)
        self.allowed_hosts = reader.get("ALLOWED_HOSTS", hosts, _hosts)
        inside = f"sqlite:///{quote(str(self.data_dir))}/guildhall.db"
        self.database = reader.get("DATABASE_URL", inside, _database)
        self.redis_url = reader.get("REDIS_URL", "", _redis_url)
        self.trusted_proxies = reader.get("TRUSTED_PROXIES", "0", _trusted_proxies)
        self.git_slots = reader.get("GIT_SLOTS", "64", _slots)
        self.git_slots_per_person = reader.get("GIT_SLOTS_PER_PERSON", "16", _slots)
        self.git_slots_per_address = reader.get("GIT_SLOTS_PER_ADDRESS", "16", _slots)
        self.upload_mib_per_day = reader.get("UPLOAD_MIB_PER_DAY", "1024", _mebibytes)
        self.repo_mib = reader.get("REPO_MIB", "20480", _disk_mebibytes)
        self.owner_mib = reader.get("OWNER_MIB", "204800", _disk_mebibytes)
        self.email = reader.get("EMAIL_URL", "", _email)
        self.email_from = reader.get("EMAIL_FROM", _default_sender(self.base_url), _sender)
        reader.stop_if_wrong()
        self.secret_key = variables.get("SECRET_KEY") or stored_key(self.data_dir)


class _Reader:
    """Collects what is wrong, so that the operator sees all of it in one go."""

    def __init__(self, variables: Mapping[str, str]) -> None:
        self.variables = variables
        self.problems: list[str] = []

    def get(self, name: str, default: str, read: Callable[[str], Value]) -> Value:
        """The checked value; the default's where the operator's is wrong, which is noted."""
        text = self.variables.get(name) or default
        try:
            return read(text)
        except ValueError as error:
            self.problems.append(f"{name}: {error}")
            if text == default:
                self.stop_if_wrong()
            return read(default)

    def stop_if_wrong(self) -> None:
        if self.problems:
            sys.exit("\n".join(self.problems))


def stored_key(data_dir: Path) -> str:
    """The secret key kept in the data folder; made on the first start, readable by its owner only.

    Of two first starts at once, the one that links its file first decides for both.
    """
    path = data_dir / "secret-key"
    if not path.exists():
        data_dir.mkdir(mode=0o700, parents=True, exist_ok=True)
        fresh = data_dir / f"secret-key.{secrets.token_hex(8)}"
        fresh.touch(mode=0o600)
        fresh.write_text(secrets.token_urlsafe(50))
        try:
            os.link(fresh, path)
        except FileExistsError:
            pass
        finally:
            fresh.unlink()
    return path.read_text()


def _data_dir(text: str) -> Path:
    path = Path(text).resolve()
    nearest = next(one for one in (path, *path.parents) if one.exists())
    if not nearest.is_dir() or not os.access(nearest, os.W_OK):
        raise ValueError(f"{nearest} is no folder that can be written to.")
    return path


def _parts(text: str) -> SplitResult:
    """An address in its parts. What is wrong is not repeated: it may be a piece of a password."""
    try:
        parts = urlsplit(text)
        usable = parts.port != 0
    except ValueError:
        usable = False
    if not usable:
        raise ValueError("is no address (a password in one is percent-encoded).")
    return parts


def _base_url(text: str) -> str:
    parts = _parts(text)
    web = parts.scheme in USUAL_PORTS and parts.hostname
    if text and (not web or parts.query or parts.fragment):
        raise ValueError('must be like "https://code.example.org".')
    return text.rstrip("/")


def origin_of(url: str) -> str:
    """Scheme, host and port of an address, as browsers name an origin."""
    parts = urlsplit(url)
    usual = parts.port in {None, USUAL_PORTS[parts.scheme]}
    return f"{parts.scheme}://{_bracketed(parts.hostname or '')}{'' if usual else f':{parts.port}'}"


def _bracketed(host: str) -> str:
    """A host as it stands in an address, where IPv6 has brackets."""
    return f"[{host}]" if ":" in host else host


def _host(text: str) -> str:
    if not re.fullmatch(r"[0-9A-Za-z.:_-]+", text):
        raise ValueError('must be an address to listen on, such as "127.0.0.1" or "0.0.0.0".')
    return text


def _port(text: str) -> int:
    if not re.fullmatch(r"[0-9]{1,5}", text) or int(text) > 65535:
        raise ValueError("must be a number from 0 to 65535.")
    return int(text)


def _default_hosts(host: str, base_url: str) -> str:
    if host in {"0.0.0.0", "::"}:  # noqa: S104 - read from the operator, not bound here
        return "*"
    named = urlsplit(base_url).hostname
    names = [_bracketed(name) for name in (host, named) if name]
    return ",".join(dict.fromkeys([*LOCAL_HOSTS, *names]))


def _hosts(text: str) -> list[str]:
    names = [name.strip() for name in text.split(",") if name.strip()]
    if not names or not all(re.fullmatch(r"[0-9A-Za-z.:_*\[\]-]+", name) for name in names):
        raise ValueError('must be host names with commas between, such as "code.example.org".')
    return names


def _database(text: str) -> dict[str, Any]:
    scheme = text.partition(":")[0]
    if scheme not in {"sqlite", "postgres", "postgresql"}:
        raise ValueError("must begin with sqlite:/// or postgres://.")
    _parts(text)
    database: dict[str, Any] = dict(dj_database_url.parse(text))
    if database["NAME"] in {"", ":memory:"}:
        raise ValueError("names no database.")
    ours = _SQLITE if scheme == "sqlite" else _POSTGRESQL
    given = database.get("OPTIONS", {})
    options = {**ours["OPTIONS"], **given}
    if scheme != "sqlite" and "options" in given:
        # The server takes the last of two settings of one name.
        options["options"] = f"{ours['OPTIONS']['options']} {given['options']}"
    return {**database, **ours, "OPTIONS": options}


def _redis_url(text: str) -> str:
    """What redis-py would take, read here so that a wrong one ends the start."""
    parts = _parts(text)
    network = parts.scheme in {"redis", "rediss"} and parts.hostname
    local = parts.scheme == "unix" and parts.path
    if text and not (network or local):
        raise ValueError('must be like "redis://localhost:6379/0".')
    if network and not re.fullmatch(r"(/[0-9]{0,5})?", parts.path):
        raise ValueError("names no database: a number follows the last slash.")
    if not re.fullmatch(r"(db=[0-9]{1,5})?", parts.query) or parts.fragment:
        raise ValueError("takes no options but db=, the number of the database.")
    return text


def _trusted_proxies(text: str) -> int:
    if not re.fullmatch(r"[0-9]{1,2}", text):
        raise ValueError("must be how many proxies of yours a request passes, from 0 to 99.")
    return int(text)


def _slots(text: str) -> int:
    if not re.fullmatch(r"[1-9][0-9]{0,4}", text):
        raise ValueError("must be how many git requests may be under way, from 1 to 99999.")
    return int(text)


def _mebibytes(text: str) -> int:
    if not re.fullmatch(r"[1-9][0-9]{0,6}", text):
        raise ValueError("must be how many MiB a person may upload in 24 hours, from 1 to 9999999.")
    return int(text)


def _disk_mebibytes(text: str) -> int:
    if not re.fullmatch(r"[1-9][0-9]{0,8}", text):
        raise ValueError("must be how many MiB repositories may take, from 1 to 999999999.")
    return int(text)


# `IMMEDIATE` makes every transaction a writer from its first statement, so that none fails half
# way; waiting is bounded by `timeout` seconds.
# A connection to SQLite is a file, which each thread keeps open.
_SQLITE: dict[str, Any] = {
    "CONN_MAX_AGE": None,
    "OPTIONS": {
        "transaction_mode": "IMMEDIATE",
        "timeout": 20,
        "init_command": "PRAGMA journal_mode=WAL; PRAGMA synchronous=FULL;",
    },
}
# PostgreSQL's come from a pool, which after a restart of the database would lend dead ones.
# Keepalives on both sides: a node that vanishes from the network must not keep its locks for as
# long as TCP would wait, which is hours. They say nothing while sent data is not acknowledged;
# `tcp_user_timeout` (milliseconds) bounds that. The server gives a node up after 25 s. A request
# waits no longer than 5 s for a server that is away: `timeout` and `connect_timeout` are for new
# connections, the client's `tcp_user_timeout` is for open ones. With a `reconnect_timeout` as
# short, the pool tries again with the next request, where it would pause for minutes.
# The first who finds it away wait so long: apps/core/postgresql/.
_POSTGRESQL: dict[str, Any] = {
    "ENGINE": "apps.core.postgresql",
    "CONN_MAX_AGE": 0,
    "CONN_HEALTH_CHECKS": True,
    "OPTIONS": {
        "options": "-c lock_timeout=20s -c tcp_keepalives_idle=10 -c tcp_keepalives_interval=5"
        " -c tcp_keepalives_count=3 -c tcp_user_timeout=25000",
        "keepalives": 1,
        "keepalives_idle": 10,
        "keepalives_interval": 5,
        "keepalives_count": 3,
        "tcp_user_timeout": 5000,
        "connect_timeout": 4,
        "pool": {"min_size": 1, "max_size": 20, "timeout": 4.0, "reconnect_timeout": 4.0},
    },
}


def _email(text: str) -> Mail:
    """Nothing said: messages are printed."""
    parts = _parts(text)
    if not text:
        return Mail("console")
    if parts.scheme == "file" and parts.path and not parts.netloc:
        return Mail("filebased", folder=unquote(parts.path))
    if parts.scheme not in SMTP or not parts.hostname or parts.path.strip("/"):
        raise ValueError('must be like "smtp+tls://user:password@mail.example.org:587".')
    return Mail(
        "smtp",
        host=parts.hostname,
        port=parts.port or SMTP[parts.scheme],
        user=unquote(parts.username or ""),
        password=unquote(parts.password or ""),
        starts_tls=parts.scheme == "smtp+tls",
        inside_tls=parts.scheme == "smtps",
    )


def _default_sender(base_url: str) -> str:
    host = urlsplit(base_url).hostname or "localhost"
    # Not every Python reads a mail address at an IPv6 address, and few servers take one.
    return f"Guildhall <guildhall@{'localhost' if ':' in host else host}>"


def _sender(text: str) -> str:
    name, address = parseaddr(text)
    if "@" not in address or "\n" in text:
        raise ValueError('must be like "Guildhall <guildhall@example.org>".')
    return formataddr((name, address))
