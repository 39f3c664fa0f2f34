"""Reads the environment into validated values, and reports all problems, one line each."""

from __future__ import annotations

import os
import re
import secrets
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from email.utils import formataddr, parseaddr
from importlib.util import find_spec
from ipaddress import IPv4Network, IPv6Network, ip_network
from pathlib import Path
from typing import Any, NamedTuple, TypeVar
from urllib.parse import SplitResult, parse_qsl, quote, unquote, urlsplit

import dj_database_url

Value = TypeVar("Value")
LOCAL_HOSTS = ["localhost", "127.0.0.1", "[::1]"]
LOCAL_NAMES = {"localhost", "127.0.0.1", "::1"}
USUAL_PORTS = {"http": 80, "https": 443}
ORIGIN = re.compile(r"https?://([0-9a-z.-]+|\[[0-9a-f:]+\])(:[0-9]{1,5})?", re.IGNORECASE)
SMTP = {"smtp": 25, "smtp+tls": 587, "smtps": 465}
"""Schemes for sending mail, with their default ports: without TLS, with STARTTLS, inside TLS."""


@dataclass(frozen=True)
class Mail:
    """The way to send mail: print it (`console`), write files (`filebased`), or `smtp`."""

    kind: str
    folder: str = ""
    host: str = ""
    port: int = 0
    user: str = ""
    password: str = field(default="", repr=False)
    starts_tls: bool = False
    inside_tls: bool = False


@dataclass(frozen=True)
class OpenId:
    """The OpenID provider, and the meaning of its groups. Without an issuer there is none."""

    issuer: str
    client_id: str
    client_secret: str = field(repr=False)
    name: str
    signups_all: bool
    groups_claim: str
    staff_group: str
    team_groups: dict[str, tuple[tuple[str, str], ...]]
    """Group -> slugs of teams, each with a role."""


class Address(NamedTuple):
    """An address to listen on."""

    host: str
    port: int


class Environment:
    """The settings of the operator, with the defaults of the embedded mode."""

    def __init__(self, root: Path, variables: Mapping[str, str] = os.environ) -> None:
        """Read all variables; if some are invalid, exit with one line for each."""
        reader = _Reader(variables)
        self.data_dir = reader.get("DATA_DIR", str(root / "var"), _data_dir)
        self.base_url = reader.get("BASE_URL", "", _base_url)
        self.host = reader.get("HOST", "127.0.0.1", _host)
        self.port = reader.get("PORT", "8000", _integer("a port", 0, 65535))
        workers = _integer("the number of processes of bin/serve", 1, 256)
        self.workers = reader.get("WEB_CONCURRENCY", str(len(os.sched_getaffinity(0))), workers)
        grace = _integer("the seconds that requests have to end", 1, 3600)
        self.graceful_timeout = reader.get("GRACEFUL_TIMEOUT", "150", grace)
        hosts = _default_hosts(self.host, self.base_url)
        self.allowed_hosts = reader.get("ALLOWED_HOSTS", hosts, _hosts)
        self.cors_origins = reader.get("CORS_ORIGINS", "", _origins)
        default_database = f"sqlite:///{quote(str(self.data_dir))}/guildhall.db"
        self.database = reader.get("DATABASE_URL", default_database, _database)
        self.redis_url = reader.get("REDIS_URL", "", _redis_url)
        proxies = _integer("the number of proxies before this server", 0, 99)
        self.trusted_proxies = reader.get("TRUSTED_PROXIES", "0", proxies)
        self._read_git(reader)
        self.uploads_bucket = reader.get("UPLOADS_URL", "", _bucket)
        uploads = _integer("the MiB that a person may upload in 24 hours", 1, 9_999_999)
        self.upload_mib_per_day = reader.get("UPLOAD_MIB_PER_DAY", "1024", uploads)
        disk = _integer("the MiB that repositories may take", 1, 999_999_999)
        self.repo_mib = reader.get("REPO_MIB", "20480", disk)
        self.owner_mib = reader.get("OWNER_MIB", "204800", disk)
        self.email = reader.get("EMAIL_URL", "", _email)
        self.email_from = reader.get("EMAIL_FROM", _default_sender(self.base_url), _sender)
        self._read_webhooks(reader)
        self._read_sign_in(reader)
        self._read_monitoring(reader)
        reader.exit_if_invalid()
        self.holds_database = _is_below(self.data_dir, self.database)
        self.secret_key = variables.get("SECRET_KEY") or stored_key(self.data_dir)
        if not self.secret_key and self.holds_database:
            self.secret_key = make_key(self.data_dir)

    def _read_git(self, reader: _Reader) -> None:
        slots = _integer("the number of git requests at the same time", 1, 99_999)
        self.git_slots = reader.get("GIT_SLOTS", "64", slots)
        self.git_slots_per_person = reader.get("GIT_SLOTS_PER_PERSON", "16", slots)
        self.git_slots_per_address = reader.get("GIT_SLOTS_PER_ADDRESS", "16", slots)
        self.ssh_address = reader.get("SSH_ADDRESS", "", _address)
        self.ssh_url = reader.get("SSH_URL", "", _ssh_url)

    def _read_webhooks(self, reader: _Reader) -> None:
        allow_http = reader.get("WEBHOOK_ALLOW_HTTP", "false", _one_of("false", "true"))
        self.webhook_allow_http = allow_http == "true"
        self.webhook_allowed_nets = reader.get("WEBHOOK_ALLOWED_NETS", "", _nets)

    def _read_sign_in(self, reader: _Reader) -> None:
        signups = reader.get("OIDC_SIGNUPS", "site", _one_of("site", "all"))
        self.oidc = OpenId(
            issuer=reader.get("OIDC_ISSUER", "", _issuer),
            client_id=reader.get("OIDC_CLIENT_ID", "", str),
            client_secret=reader.get("OIDC_CLIENT_SECRET", "", str),
            name=reader.get("OIDC_NAME", "single sign-on", str),
            signups_all=signups == "all",
            groups_claim=reader.get("OIDC_GROUPS_CLAIM", "groups", str),
            staff_group=reader.get("OIDC_STAFF_GROUP", "", str),
            team_groups=reader.get("OIDC_TEAM_GROUPS", "", _team_groups),
        )
        passwords = reader.get("LOCAL_PASSWORDS", "on", _one_of("on", "off"))
        self.local_passwords = passwords == "on"
        if self.oidc.issuer and not (self.oidc.client_id and self.oidc.client_secret):
            text = "OIDC_CLIENT_ID: is needed with OIDC_ISSUER, and so is OIDC_CLIENT_SECRET."
            reader.problems.append(text)
        if not self.oidc.issuer and not self.local_passwords:
            text = "LOCAL_PASSWORDS: off needs OIDC_ISSUER, or nobody could sign in."
            reader.problems.append(text)

    def _read_monitoring(self, reader: _Reader) -> None:
        self.log_format = reader.get("LOG_FORMAT", "text", _one_of("text", "json"))
        access_log = reader.get("ACCESS_LOG", "false", _one_of("false", "true"))
        self.access_log = access_log == "true"
        days = _integer("the days for which the audit log is kept, or 0 for none", 0, 36_500)
        self.audit_days = reader.get("AUDIT_DAYS", "400", days)
        self.metrics_address = reader.get("METRICS_ADDRESS", "", _address)
        self.sentry_dsn = reader.get("SENTRY_DSN", "", _sentry_dsn)
        self.sends_spans = reader.get("OTEL_EXPORTER_OTLP_ENDPOINT", "", _sends_spans)


class _Reader:
    """Collects problems, so that the operator sees all of them at once."""

    def __init__(self, variables: Mapping[str, str]) -> None:
        self.variables = variables
        self.problems: list[str] = []

    def get(self, name: str, default: str, read: Callable[[str], Value]) -> Value:
        """The validated value; the default if it is invalid, which is reported later."""
        text = self.variables.get(name) or default
        try:
            return read(text)
        except ValueError as error:
            self.problems.append(f"{name}: {error}")
            if text == default:
                self.exit_if_invalid()
            return read(default)

    def exit_if_invalid(self) -> None:
        if self.problems:
            sys.exit("\n".join(self.problems))


def _is_below(folder: Path, database: Mapping[str, Any]) -> bool:
    """Whether the database is a SQLite file in this folder."""
    is_file = database["ENGINE"].endswith("sqlite3")
    return is_file and Path(database["NAME"]).resolve().is_relative_to(folder)


def stored_key(data_dir: Path) -> str:
    """The secret key in the data folder, or "" if there is none.

    If the database is elsewhere, only `config.installation` can tell whether the installation is
    new or its folder is not mounted. Django refuses to work with an empty key.
    """
    path = data_dir / "secret-key"
    return path.read_text() if path.exists() else ""


def make_key(data_dir: Path) -> str:
    """The secret key in the data folder, created if it is missing, readable by its owner only.

    If two first starts run at once, both use the key of the one that links its file first.
    """
    path = data_dir / "secret-key"
    if not path.exists():
        data_dir.mkdir(mode=0o700, parents=True, exist_ok=True)
        new = data_dir / f"secret-key.{secrets.token_hex(8)}"
        write_new(new, secrets.token_urlsafe(50))
        try:
            os.link(new, path)
        except FileExistsError:
            pass
        finally:
            new.unlink()
    return path.read_text()


def write_new(path: Path, text: str) -> None:
    """Write a new file, which only its owner may read. A name that it is given later has the text
    also after a power failure.
    """
    path.touch(mode=0o600, exist_ok=False)
    with path.open("w") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())


def _data_dir(text: str) -> Path:
    path = Path(text).resolve()
    nearest = next(folder for folder in (path, *path.parents) if folder.exists())
    if not nearest.is_dir() or not os.access(nearest, os.W_OK):
        raise ValueError(f"{nearest} is no folder that can be written to.")
    return path


def _parts(text: str) -> SplitResult:
    """The parts of an address. The error does not repeat it: it may contain a password."""
    try:
        parts = urlsplit(text)
        is_valid = parts.port != 0
    except ValueError:
        is_valid = False
    if not is_valid:
        raise ValueError("is no address (a password in one is percent-encoded).")
    return parts


def _base_url(text: str) -> str:
    parts = _parts(text)
    is_web = parts.scheme in USUAL_PORTS and parts.hostname
    if text and (not is_web or parts.query or parts.fragment):
        raise ValueError('must be like "https://code.example.org".')
    return text.rstrip("/")


def origin_of(url: str) -> str:
    """Scheme, host and port of an address, in the form of browsers' origins."""
    parts = urlsplit(url)
    port = "" if parts.port in {None, USUAL_PORTS[parts.scheme]} else f":{parts.port}"
    return f"{parts.scheme}://{_bracketed(parts.hostname or '')}{port}"


def _bracketed(host: str) -> str:
    """A host in the form of addresses, with brackets for IPv6."""
    return f"[{host}]" if ":" in host else host


def _host(text: str) -> str:
    if not re.fullmatch(r"[0-9A-Za-z.:_-]+", text):
        raise ValueError('must be an address to listen on, such as "127.0.0.1" or "0.0.0.0".')
    return text


def _integer(meaning: str, least: int, most: int) -> Callable[[str], int]:
    """A function that reads an integer within bounds; its error contains the meaning."""

    def read(text: str) -> int:
        if not re.fullmatch(r"[0-9]{1,9}", text) or not least <= int(text) <= most:
            raise ValueError(f"must be {meaning}, from {least} to {most}.")
        return int(text)

    return read


def _issuer(text: str) -> str:
    """An issuer exactly as its provider spells it, with or without a slash at its end."""
    parts = _parts(text)
    is_local = parts.scheme == "http" and parts.hostname in LOCAL_NAMES
    is_web = (parts.scheme == "https" or is_local) and parts.hostname and text.isascii()
    if text and (not is_web or parts.username or parts.query or parts.fragment):
        raise ValueError('must be like "https://sso.example.org/realms/main".')
    return text


def _team_groups(text: str) -> dict[str, tuple[tuple[str, str], ...]]:
    """Groups with the teams and roles that they give, as pairs of slug and role."""
    groups: dict[str, tuple[tuple[str, str], ...]] = {}
    for entry in filter(None, (entry.strip() for entry in text.split(","))):
        match = re.fullmatch(r"(.+)=([a-z0-9._-]+):(owner|admin|member|viewer)", entry)
        if match is None:
            example = "developers=acme:member,leads=acme:owner"
            raise ValueError(f'must be groups with a team and a role, such as "{example}".')
        group, slug, role = match.groups()
        groups[group] = (*groups.get(group, ()), (slug, role))
    return groups


def _one_of(*words: str) -> Callable[[str], str]:
    def read(text: str) -> str:
        if text not in words:
            raise ValueError(f"must be one of: {', '.join(words)}.")
        return text

    return read


def _default_hosts(host: str, base_url: str) -> str:
    if host in {"0.0.0.0", "::"}:  # noqa: S104 - read from the operator, not bound here
        return "*"
    public_host = urlsplit(base_url).hostname
    names = [_bracketed(name) for name in (host, public_host) if name]
    return ",".join(dict.fromkeys([*LOCAL_HOSTS, *names]))


def _hosts(text: str) -> list[str]:
    names = [name.strip() for name in text.split(",") if name.strip()]
    if not names or not all(re.fullmatch(r"[0-9A-Za-z.:_*\[\]-]+", name) for name in names):
        raise ValueError('must be host names with commas between, such as "code.example.org".')
    return names


def _origins(text: str) -> list[str]:
    """Origins in the form in which browsers send them."""
    urls = [url.strip() for url in text.split(",") if url.strip()]
    if not all(ORIGIN.fullmatch(url) and _parts(url) for url in urls):
        example = "https://app.example.org,http://localhost:5173"
        raise ValueError(f'must be schemes and hosts without paths, such as "{example}".')
    return [origin_of(url) for url in urls]


def _nets(text: str) -> list[IPv4Network | IPv6Network]:
    try:
        return [ip_network(net.strip()) for net in text.split(",") if net.strip()]
    except ValueError:
        example = "10.0.0.0/8,fd00::/8"
        raise ValueError(f'must be networks with commas between, such as "{example}".') from None


def _address(text: str) -> Address | None:
    match = re.fullmatch(r"(\[[0-9A-Fa-f:]+\]|[0-9A-Za-z.-]+):([0-9]{1,5})", text)
    if text and not (match and int(match[2]) < 65534):
        raise ValueError('must be an address and a port below 65534, such as "127.0.0.1:9180".')
    return Address(match[1].strip("[]"), int(match[2])) if match else None


def _ssh_url(text: str) -> str:
    parts = _parts(text)
    is_ssh = parts.scheme == "ssh" and parts.username == "git" and parts.hostname
    if text and (not is_ssh or parts.password or parts.path.strip("/") or parts.query):
        raise ValueError('must be like "ssh://git@code.example.org:2222".')
    return text.rstrip("/")


def _sentry_dsn(text: str) -> str:
    parts = _parts(text)
    if text and not (parts.scheme in USUAL_PORTS and parts.username and parts.path.strip("/")):
        raise ValueError('must be like "https://key@sentry.example.org/1".')
    if text:
        _require("sentry_sdk", "sentry")
    return text


def _sends_spans(text: str) -> bool:
    parts = _parts(text)
    if text and not (parts.scheme in USUAL_PORTS and parts.hostname):
        raise ValueError('must be like "http://127.0.0.1:4318".')
    if text:
        _require("opentelemetry", "opentelemetry")
    return bool(text)


def _require(module: str, extra: str) -> None:
    if find_spec(module) is None:
        install = f".venv/bin/python -m pip install --require-hashes -r requirements-{extra}.txt"
        raise ValueError(f"needs packages that are not installed: {install}")


def _database(text: str) -> dict[str, Any]:
    scheme = text.partition(":")[0]
    if scheme not in {"sqlite", "postgres", "postgresql"}:
        raise ValueError("must begin with sqlite:/// or postgres://.")
    _parts(text)
    database: dict[str, Any] = dict(dj_database_url.parse(text))
    if database["NAME"] in {"", ":memory:"}:
        raise ValueError("names no database.")
    defaults = _SQLITE if scheme == "sqlite" else _POSTGRESQL
    given = database.get("OPTIONS", {})
    options = {**defaults["OPTIONS"], **given}
    if scheme != "sqlite" and "options" in given:
        # The server uses the last of two settings with the same name.
        options["options"] = f"{defaults['OPTIONS']['options']} {given['options']}"
    return {**database, **defaults, "OPTIONS": options}


def _redis_url(text: str) -> str:
    """An address for redis-py, validated here so that an invalid one ends the start."""
    parts = _parts(text)
    is_network = parts.scheme in {"redis", "rediss"} and parts.hostname
    is_socket = parts.scheme == "unix" and parts.path
    if text and not (is_network or is_socket):
        raise ValueError('must be like "redis://localhost:6379/0".')
    if is_network and not re.fullmatch(r"(/[0-9]{0,5})?", parts.path):
        raise ValueError("names no database: a number follows the last slash.")
    if not re.fullmatch(r"(db=[0-9]{1,5})?", parts.query) or parts.fragment:
        raise ValueError("takes no options but db=, the number of the database.")
    return text


def _bucket(text: str) -> dict[str, str]:
    """The options of django-storages for a bucket of S3; none for the folder in DATA_DIR.

    The credentials are in variables that boto3 reads itself, such as AWS_ACCESS_KEY_ID.
    """
    parts = _parts(text)
    if not text:
        return {}
    options = dict(parse_qsl(parts.query, keep_blank_values=True))
    endpoint = urlsplit(options.get("endpoint_url", "https://"))
    is_known = options.keys() <= {"endpoint_url", "region_name"} and all(options.values())
    is_bucket = re.fullmatch(r"[a-z0-9][a-z0-9.-]{1,61}[a-z0-9]", parts.netloc)
    is_web = endpoint.scheme in USUAL_PORTS and (endpoint.netloc or "endpoint_url" not in options)
    if parts.scheme != "s3" or not (is_bucket and is_known and is_web) or parts.fragment:
        raise ValueError(
            'must be like "s3://bucket/prefix?endpoint_url=https://s3.example.org&region_name=eu".'
        )
    if not find_spec("storages") or not find_spec("boto3"):
        raise ValueError('needs further packages: run "bin/setup --s3".')
    return {"bucket_name": parts.netloc, "location": parts.path.strip("/"), **options}


# With `IMMEDIATE` a transaction takes the write lock at its beginning and cannot fail half way. It
# waits for `timeout` seconds at most. A connection to SQLite is a file, and each thread keeps one.
_SQLITE: dict[str, Any] = {
    "ENGINE": "apps.core.sqlite3",
    "CONN_MAX_AGE": None,
    "OPTIONS": {
        "transaction_mode": "IMMEDIATE",
        "timeout": 20,
        "init_command": "PRAGMA journal_mode=WAL; PRAGMA synchronous=FULL;PRAGMA secure_delete=ON;",
    },
}
# Connections to PostgreSQL come from a pool; health checks find those that a restart has closed.
# Both sides send keepalives: a machine that vanishes from the network must not keep its locks for
# the hours that TCP would wait. No keepalives are sent while data is not acknowledged, a time that
# `tcp_user_timeout` (milliseconds) limits. The server gives up a machine after 25 s. A request
# waits at most 5 s for a server that is away: by `timeout` and `connect_timeout` for a new
# connection, by the client's `tcp_user_timeout` for an open one. With a short `reconnect_timeout`
# the pool tries again with the next request instead of pausing for minutes. The number of requests
# that wait is limited in apps/core/postgresql/base.py.
_POSTGRESQL: dict[str, Any] = {
    "ENGINE": "apps.core.postgresql",
    "CONN_MAX_AGE": 0,
    "OPTIONS": {
        "options": "-c lock_timeout=20s -c tcp_keepalives_idle=10 -c tcp_keepalives_interval=5"
        " -c tcp_keepalives_count=3 -c tcp_user_timeout=25000"
        # A list of pulls joins ten tables: with the default of 8, whole tables are read.
        " -c join_collapse_limit=12 -c from_collapse_limit=12",
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
    """An empty text prints messages."""
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
    # Some versions of Python cannot parse mail addresses with an IPv6 address.
    return f"Guildhall <guildhall@{'localhost' if ':' in host else host}>"


def _sender(text: str) -> str:
    name, address = parseaddr(text)
    if "@" not in address or "\n" in text:
        raise ValueError('must be like "Guildhall <guildhall@example.org>".')
    return formataddr((name, address))
