"""Connections to PostgreSQL: a vanished machine or server is given up soon."""

from __future__ import annotations

import os
import socket
from collections.abc import Iterator
from typing import cast

import psycopg
import pytest
from django.db import OperationalError, connection
from django.db.backends.base.base import BaseDatabaseWrapper
from django.db.utils import ConnectionHandler

from apps.core.postgresql.base import DatabaseWrapper, Outage, outage
from apps.events import wake
from config.environment import Environment
from tests.test_database_away import Gateway

pytestmark = [
    pytest.mark.skipif(connection.vendor != "postgresql", reason="PostgreSQL's own"),
    pytest.mark.django_db(transaction=True),
]
SERVER_SIDE = {
    "tcp_keepalives_idle": "10",
    "tcp_keepalives_interval": "5",
    "tcp_keepalives_count": "3",
    "tcp_user_timeout": "25000",
    "lock_timeout": "20000",
}
CLIENT_PARAMETERS = {
    "keepalives": "1",
    "keepalives_idle": "10",
    "keepalives_interval": "5",
    "keepalives_count": "3",
    "tcp_user_timeout": "5000",
    "connect_timeout": "4",
}
CLIENT_SIDE = {
    socket.TCP_KEEPIDLE: 10,
    socket.TCP_KEEPINTVL: 5,
    socket.TCP_KEEPCNT: 3,
    socket.TCP_USER_TIMEOUT: 5000,
}


def of_pool() -> psycopg.Connection:
    connection.ensure_connection()
    raw: psycopg.Connection = connection.connection
    return raw


@pytest.fixture(params=["pool", "stream"])
def raw(request) -> psycopg.Connection:
    """A connection of a request, and one that listens for events."""
    if request.param == "pool":
        connected = of_pool()
    else:
        connected = psycopg.connect(**wake.connection_parameters())
        request.addfinalizer(connected.close)
    return connected


def setting(raw: psycopg.Connection, name: str) -> str:
    """The value at the beginning of the session, in the unit of the setting. `SHOW` returns 0 for
    settings of TCP over a Unix socket.
    """
    row = raw.execute("SELECT reset_val FROM pg_settings WHERE name = %s", [name]).fetchone()
    assert row is not None
    return str(row[0])


@pytest.fixture
def connections() -> Iterator[list[BaseDatabaseWrapper]]:
    """Two requests for a pool with one connection."""
    pool = {"min_size": 1, "max_size": 1, "timeout": 1.0, "reconnect_timeout": 1.0}
    options = {**connection.settings_dict["OPTIONS"], "pool": pool}
    small = {**connection.settings_dict, "OPTIONS": options, "CONN_MAX_AGE": 0}
    handler = ConnectionHandler({"default": small, "small": small})
    both = [handler.create_connection("small") for _ in range(2)]
    yield both
    for wrapper in both:
        wrapper.close()
    cast("DatabaseWrapper", both[0]).close_pool()


def test_a_pool_that_is_used_up_is_no_outage(connections):
    busy, other = connections
    busy.ensure_connection()
    with pytest.raises(OperationalError, match="couldn't get a connection"):
        other.ensure_connection()
    busy.close()
    other.ensure_connection()


def test_a_connection_that_the_server_has_closed_is_replaced_at_once(connections):
    """Although it was in use a moment ago, and is therefore not tested by a query."""
    wrapper = connections[0]
    wrapper.ensure_connection()
    closed = wrapper.connection.info.backend_pid
    wrapper.close()
    connection.cursor().execute("SELECT pg_terminate_backend(%s, 60000)", [closed])
    with wrapper.cursor() as cursor:
        cursor.execute("SELECT pg_backend_pid()")
        assert cursor.fetchone() != (closed,)


def test_a_full_pool_whose_server_goes_away_is_an_outage(monkeypatch):
    """The pool counts its lost connections for as long as it tries to replace them."""
    monkeypatch.setattr(outage, "paused_until", None)
    pool = {"min_size": 1, "max_size": 1, "timeout": 1.0, "reconnect_timeout": 60.0}
    with Gateway(server_url()) as gateway:
        port = gateway.listening.getsockname()[1]
        through = {"HOST": "127.0.0.1", "PORT": port, "CONN_MAX_AGE": 0}
        options = {**connection.settings_dict["OPTIONS"], "pool": pool}
        behind = {**connection.settings_dict, **through, "OPTIONS": options}
        wrapper = ConnectionHandler({"default": behind}).create_connection("default")
        wrapper.ensure_connection()
    wrapper.close()
    with pytest.raises(OperationalError):
        wrapper.ensure_connection()
    assert outage.paused_until is not None
    cast("DatabaseWrapper", wrapper).close_pool()


def server_url() -> str:
    """The address of the database server of these tests."""
    host, port = (connection.settings_dict[name] for name in ("HOST", "PORT"))
    return f"postgres://x@{host or '127.0.0.1'}:{port or 5432}/x"


def test_of_an_outage_one_thread_at_a_time_finds_the_end(monkeypatch):
    outage = Outage()
    with outage.one_at_a_time(), outage.one_at_a_time():
        outage.begin()
    with pytest.raises(OperationalError), outage.one_at_a_time():
        pass
    monkeypatch.setattr(outage, "paused_until", 0.0)
    with outage.one_at_a_time(), pytest.raises(OperationalError), outage.one_at_a_time():
        pass
    with outage.one_at_a_time(), outage.one_at_a_time():
        pass


def test_the_server_gives_up_a_node_that_has_vanished(raw):
    assert {name: setting(raw, name) for name in SERVER_SIDE} == SERVER_SIDE


def test_a_node_gives_up_a_server_that_has_vanished(raw):
    parameters = raw.info.get_parameters()
    assert {name: parameters.get(name) for name in CLIENT_PARAMETERS} == CLIENT_PARAMETERS
    if not raw.info.hostaddr:  # a Unix socket has no options of TCP
        return
    with socket.socket(fileno=os.dup(raw.fileno())) as tcp:
        assert tcp.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE)
        ours = {name: tcp.getsockopt(socket.IPPROTO_TCP, name) for name in CLIENT_SIDE}
    assert ours == CLIENT_SIDE


def test_settings_of_the_operator_are_added_to_the_built_in_ones(tmp_path):
    url = "postgres://db.example/x?options=-c%20tcp_keepalives_idle%3D60%20-c%20work_mem%3D7MB"
    options = Environment(tmp_path, {"DATABASE_URL": url}).database["OPTIONS"]["options"]
    parameters = {**wake.connection_parameters(), "options": options}
    with psycopg.connect(**parameters) as raw:
        assert setting(raw, "lock_timeout") == "20000"
        assert setting(raw, "work_mem") == "7168"
        assert setting(raw, "tcp_keepalives_idle") == "60"
