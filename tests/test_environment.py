"""Settings come from the environment alone, and an invalid value stops the start."""

import os
import stat
import subprocess
import sys
from pathlib import Path

import pytest
from redis import Redis

from config.environment import LOCAL_HOSTS, Environment, origin_of

pytestmark = pytest.mark.once

ROOT = Path(__file__).resolve().parent.parent


@pytest.fixture
def read(tmp_path):
    """`read(PORT="80")` with no other variable, in a tree of its own."""
    return lambda **variables: Environment(tmp_path / "tree", variables)


WRONG = {
    "DATA_DIR": ["/etc/hostname", "/etc/hostname/below", "a\0b"],
    "BASE_URL": [
        "code.example.org",
        "ftp://code.example.org",
        "https://",
        "https://code.example.org:port",
        "https://code.example.org/?a=b",
        "https://[::1",
    ],
    "HOST": ["http://localhost", "a b"],
    "PORT": ["http", "-1", "65536", "٣"],
    "ALLOWED_HOSTS": [",", "https://code.example.org"],
    "CORS_ORIGINS": [
        "app.example.org",
        "https://app.example.org/",
        "https://app.example.org/path",
        "https://*.example.org",
        "https://user@app.example.org",
        "https://app.example.org:99999",
        "ftp://app.example.org",
        "null",
        "*",
    ],
    "DATABASE_URL": [
        "mysql://localhost/guildhall",
        "sqlite://",
        "postgres://localhost",
        "postgres://localhost:port/guildhall",
    ],
    "EMAIL_URL": ["mail.example.org", "smtp://", "smtp://mail.example.org:port", "file://folder"],
    "EMAIL_FROM": ["Guildhall"],
    "REDIS_URL": [
        "localhost:6379",
        "http://localhost",
        "redis://",
        "redis://localhost:port",
        "redis://localhost/cache",
        "redis://localhost?socket_timeout=60",
        "unix://",
    ],
    "GIT_SLOTS": ["0"],
    "GIT_SLOTS_PER_PERSON": ["many"],
    "GIT_SLOTS_PER_ADDRESS": ["-1"],
    "UPLOADS_URL": [
        "/srv/uploads",
        "https://bucket/prefix",
        "s3://",
        "s3://key:secret@bucket",
        "s3://bucket?acl=public-read",
        "s3://bucket?endpoint_url=",
        "s3://bucket?endpoint_url=s3.example.org",
        "s3://bucket/prefix#part",
    ],
    "AUDIT_DAYS": ["-1", "a year"],
    "UPLOAD_MIB_PER_DAY": ["0", "1 GiB"],
    "REPO_MIB": ["0"],
    "OWNER_MIB": ["20 GiB"],
    "OIDC_ISSUER": [
        "sso.example.org",
        "http://sso.example.org",
        "https://",
        "https://me@sso.example.org",
        "https://sso.example.org/?realm=main",
        "https://sso.example.org/#main",
        "https://[::1",
    ],
    "OIDC_TEAM_GROUPS": ["developers", "developers=acme", "developers=acme:boss", "=acme:owner"],
    "OIDC_SIGNUPS": ["yes"],
    "LOCAL_PASSWORDS": ["false", "off"],
    "LOG_FORMAT": ["xml", "JSON"],
    "ACCESS_LOG": ["yes", "1"],
    "WEBHOOK_ALLOW_HTTP": ["yes"],
    "WEBHOOK_ALLOWED_NETS": ["10.0.0.1/8", "localhost", "::1/129"],
    "METRICS_ADDRESS": [
        "9180",
        "127.0.0.1",
        "127.0.0.1:65534",
        "http://127.0.0.1:9180",
        "::1:9180",
    ],
    "SENTRY_DSN": ["sentry.example.org", "https://sentry.example.org/1", "https://key@sentry/"],
    "OTEL_EXPORTER_OTLP_ENDPOINT": ["127.0.0.1:4318", "grpc://127.0.0.1:4317", "http://"],
    "TRUSTED_PROXIES": ["-1", "one", "٣", "100"],
}
WRONG_VALUES = [(name, value) for name, values in WRONG.items() for value in values]


@pytest.mark.parametrize(("name", "value"), WRONG_VALUES)
def test_a_wrong_value_is_one_line_that_begins_with_its_variable(read, name, value):
    with pytest.raises(SystemExit) as stop:
        read(**{name: value})
    assert str(stop.value).startswith(f"{name}: ")
    assert "\n" not in str(stop.value)


@pytest.mark.parametrize("name", ["EMAIL_URL", "REDIS_URL", "DATABASE_URL", "SENTRY_DSN"])
@pytest.mark.parametrize("mark", ["#", "?", "/", "["])
def test_a_password_with_a_bare_mark_is_not_repeated(read, name, mark):
    scheme = {"EMAIL_URL": "smtp", "REDIS_URL": "redis", "DATABASE_URL": "postgres"}.get(
        name, "https"
    )
    with pytest.raises(SystemExit) as stop:
        read(**{name: f"{scheme}://me:hush{mark}hush@server.example/0"})
    assert "hush" not in str(stop.value)


def test_all_wrong_values_are_named_at_once_and_end_any_command():
    wrong = {"PORT": "no", "DATABASE_URL": "no", "HOST": "no way"}
    ended = subprocess.run(
        [sys.executable, ROOT / "manage.py", "migrate"],
        env={**os.environ, **wrong},
        capture_output=True,
        text=True,
    )
    assert ended.returncode == 1 and ended.stdout == ""
    named = [line.split(":")[0] for line in ended.stderr.splitlines()]
    assert named == ["HOST", "PORT", "DATABASE_URL"]


def test_a_default_that_cannot_be_had_is_named_too(tmp_path):
    (tmp_path / "tree").touch()
    with pytest.raises(SystemExit, match=r"^DATA_DIR: .*tree is no folder"):
        Environment(tmp_path / "tree", {})


def test_without_variables_everything_is_embedded_and_local(read, tmp_path):
    found = read()
    assert found.data_dir == tmp_path / "tree" / "var"
    assert (found.host, found.port, found.base_url) == ("127.0.0.1", 8000, "")
    assert found.allowed_hosts == ["localhost", "127.0.0.1", "[::1]"]
    assert found.database["NAME"] == f"{found.data_dir}/guildhall.db"
    assert found.database["OPTIONS"]["transaction_mode"] == "IMMEDIATE"


@pytest.mark.parametrize(
    "url",
    [
        "redis://localhost",
        "redis://:secret@redis.example:6380/3",
        "rediss://redis.example/0",
        "unix:///run/redis.sock?db=2",
    ],
)
def test_what_is_counted_elsewhere_is_counted_in_redis(read, url):
    assert read().redis_url == "" and read().trusted_proxies == 0
    assert read(REDIS_URL=url).redis_url == url
    assert Redis.from_url(url).connection_pool is not None
    assert read(TRUSTED_PROXIES="2").trusted_proxies == 2


def test_origins_are_spelled_as_browsers_spell_them(read):
    assert read().cors_origins == []
    named = "https://App.example.org:443, http://localhost:5173,https://[2001:DB8::1],"
    origins = ["https://app.example.org", "http://localhost:5173", "https://[2001:db8::1]"]
    assert read(CORS_ORIGINS=named).cors_origins == origins


@pytest.mark.parametrize(
    ("text", "address"),
    [
        ("127.0.0.1:9180", ("127.0.0.1", 9180)),
        ("[::1]:0", ("::1", 0)),
        ("monitoring.example.org:9180", ("monitoring.example.org", 9180)),
    ],
)
def test_metrics_have_an_address_of_their_own(read, text, address):
    assert read().metrics_address is None
    assert read(METRICS_ADDRESS=text).metrics_address == address


def test_an_empty_variable_counts_as_not_set(read):
    assert read(PORT="", DATABASE_URL="").port == 8000


def test_a_data_folder_may_have_any_name(read, tmp_path):
    folder = tmp_path / "50% of #1?"
    assert read(DATA_DIR=str(folder)).database["NAME"] == f"{folder}/guildhall.db"


@pytest.mark.parametrize(
    ("variables", "hosts"),
    [
        ({"HOST": "0.0.0.0"}, {"*"}),  # noqa: S104 - read, not bound
        ({"HOST": "::"}, {"*"}),
        ({"HOST": "192.0.2.7"}, {"localhost", "127.0.0.1", "[::1]", "192.0.2.7"}),
        ({"HOST": "::1"}, {"localhost", "127.0.0.1", "[::1]"}),
        (
            {"BASE_URL": "https://code.example.org/"},
            {"localhost", "127.0.0.1", "[::1]", "code.example.org"},
        ),
        ({"BASE_URL": "http://[2001:DB8::7]:8000"}, {*LOCAL_HOSTS, "[2001:db8::7]"}),
        ({"HOST": "0.0.0.0", "ALLOWED_HOSTS": "a.example, b.example"}, {"a.example", "b.example"}),  # noqa: S104
    ],
)
def test_who_may_be_asked_for_follows_from_the_address(read, variables, hosts):
    assert set(read(**variables).allowed_hosts) == hosts


@pytest.mark.parametrize(
    ("url", "origin"),
    [
        ("https://Code.Example.org", "https://code.example.org"),
        ("https://code.example.org:443", "https://code.example.org"),
        ("http://code.example.org:80/hall", "http://code.example.org"),
        ("https://code.example.org:80", "https://code.example.org:80"),
        ("http://[2001:DB8::7]:8000", "http://[2001:db8::7]:8000"),
    ],
)
def test_an_origin_is_spelled_as_browsers_do(read, url, origin):
    """Else forms behind a proxy would be refused."""
    assert origin_of(read(BASE_URL=url).base_url) == origin


def test_options_in_a_database_url_are_kept_beside_ours(read):
    found = read(DATABASE_URL="postgres://db.example/guildhall?sslmode=require").database
    assert found["OPTIONS"]["sslmode"] == "require"
    assert "-c lock_timeout=20s" in found["OPTIONS"]["options"]


def test_a_database_url_may_name_a_standby(read):
    url = "postgres://ada@one.example,two.example/guildhall?target_session_attrs=read-write"
    database = read(DATABASE_URL=url).database
    assert database["HOST"] == "one.example,two.example"
    assert database["OPTIONS"]["target_session_attrs"] == "read-write"


def test_server_settings_in_a_database_url_are_added_to_ours_and_win(read):
    """PostgreSQL uses the last of two settings with the same name."""
    ours = read(DATABASE_URL="postgres://db.example/guildhall").database["OPTIONS"]["options"]
    url = "postgres://db.example/guildhall?options=-c%20lock_timeout%3D5s"
    assert read(DATABASE_URL=url).database["OPTIONS"]["options"] == f"{ours} -c lock_timeout=5s"


def test_client_options_in_a_database_url_win_over_ours(read):
    found = read(
        DATABASE_URL="postgres://db.example/guildhall?keepalives_idle=60&connect_timeout=9"
    )
    options = found.database["OPTIONS"]
    assert (options["keepalives_idle"], options["connect_timeout"]) == (60, 9)
    assert options["keepalives_interval"] == 5


def test_the_secret_key_is_made_once_and_is_its_owners_alone(read):
    first = read()
    kept = first.data_dir / "secret-key"
    assert stat.S_IMODE(first.data_dir.stat().st_mode) == 0o700
    assert stat.S_IMODE(kept.stat().st_mode) == 0o600
    assert len(first.secret_key) >= 50
    assert read().secret_key == first.secret_key
    assert [path.name for path in first.data_dir.iterdir()] == ["secret-key"]


def test_a_given_secret_key_leaves_no_file(read, tmp_path):
    assert read(SECRET_KEY="given").secret_key == "given"
    assert not (tmp_path / "tree").exists()


def test_the_data_folder_is_made_also_where_the_key_is_given(tmp_path):
    folder = tmp_path / "new" / "data"
    variables = {**os.environ, "SECRET_KEY": "given", "DATA_DIR": str(folder)}
    subprocess.run([sys.executable, "-c", "import config.settings"], env=variables, cwd=ROOT)
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700


@pytest.mark.parametrize(
    ("url", "domain"),
    [("https://code.example.org", "code.example.org"), ("http://[2001:db8::7]", "localhost")],
)
def test_mail_comes_from_where_guildhall_is(read, url, domain):
    assert read(BASE_URL=url).email_from == f"Guildhall <guildhall@{domain}>"


def test_mail_is_printed_unless_told_otherwise_and_its_password_is_not_shown(read):
    assert (read().email.kind, read().email_from) == ("console", "Guildhall <guildhall@localhost>")
    given = read(EMAIL_URL="smtp+tls://me:p%40ss@mail.example.org", EMAIL_FROM="hall@example.org")
    mail = given.email
    expected = ("mail.example.org", 587, "me", "p@ss")
    assert (mail.host, mail.port, mail.user, mail.password) == expected
    assert mail.starts_tls and not mail.inside_tls and given.email_from == "hall@example.org"
    assert "p@ss" not in repr(given.email)
    assert read(EMAIL_URL="smtps://mail.example.org").email.inside_tls
    assert read(EMAIL_URL="file:///var/mail").email.folder == "/var/mail"
    with pytest.raises(SystemExit) as stop:
        read(EMAIL_URL="imap://me:secret@mail.example.org")
    assert "secret" not in str(stop.value)


SIGN_IN = {"OIDC_ISSUER": "https://sso.example.org/", "OIDC_CLIENT_ID": "a"}


def test_single_sign_on_needs_an_issuer_with_a_client(read):
    with pytest.raises(SystemExit, match="OIDC_CLIENT_ID: "):
        read(**SIGN_IN)
    env = read(**SIGN_IN, OIDC_CLIENT_SECRET="b", LOCAL_PASSWORDS="off")
    assert (env.oidc.issuer, env.local_passwords) == ("https://sso.example.org/", False)
    assert env.oidc.groups_claim == "groups" and not env.oidc.signups_all
    local = read(OIDC_ISSUER="http://[::1]:8080", OIDC_CLIENT_ID="a", OIDC_CLIENT_SECRET="b")
    assert local.oidc.issuer == "http://[::1]:8080"
    off = read()
    assert (off.oidc.issuer, off.local_passwords, off.oidc.team_groups) == ("", True, {})


def test_groups_give_several_teams(read):
    text = "/devs=acme:member, /devs=labs:viewer,cn=leads a=acme:owner,"
    assert read(OIDC_TEAM_GROUPS=text).oidc.team_groups == {
        "/devs": (("acme", "member"), ("labs", "viewer")),
        "cn=leads a": (("acme", "owner"),),
    }
