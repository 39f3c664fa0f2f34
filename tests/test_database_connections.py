"""Connections to PostgreSQL: a node or a server that vanishes is given up soon."""

from __future__ import annotations

import os
import socket

import psycopg
import pytest
from django.db import connection

from apps.events import wake
from config.environment import Environment

pytestmark = [
    pytest.mark.skipif(connection.vendor != "postgresql", reason="PostgreSQL's own"),
    pytest.mark.django_db(transaction=True),
]
SERVER_SIDE = {
    "tcp_keepalives_idle": "10",
    "tcp_keepalives_interval": "5",
    "tcp_keepalives_count": "3",
    "tcp_user_timeout": "25000",
    "lock_timeout": "20s",
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
    """A connection as requests have it, and as the one that listens for events is made."""
    if request.param == "pool":
        connected = of_pool()
    else:
        connected = psycopg.connect(**wake.connection_parameters())
        request.addfinalizer(connected.close)
    if not connected.info.hostaddr:
        pytest.skip("the tests' server is reached without TCP")
    return connected


def setting(raw: psycopg.Connection, name: str) -> str:
    row = raw.execute(f"SHOW {name}".encode()).fetchone()
    assert row is not None
    return str(row[0])


def test_the_server_gives_up_a_node_that_has_vanished(raw):
    assert {name: setting(raw, name) for name in SERVER_SIDE} == SERVER_SIDE


def test_a_node_gives_up_a_server_that_has_vanished(raw):
    with socket.socket(fileno=os.dup(raw.fileno())) as tcp:
        assert tcp.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE)
        ours = {name: tcp.getsockopt(socket.IPPROTO_TCP, name) for name in CLIENT_SIDE}
    assert ours == CLIENT_SIDE


def test_settings_of_the_operator_are_added_to_the_built_in_ones(tmp_path):
    url = "postgres://db.example/x?options=-c%20tcp_keepalives_idle%3D60%20-c%20work_mem%3D7MB"
    options = Environment(tmp_path, {"DATABASE_URL": url}).database["OPTIONS"]["options"]
    parameters = {**wake.connection_parameters(), "options": options}
    with psycopg.connect(**parameters) as raw:
        assert setting(raw, "lock_timeout") == "20s"
        assert setting(raw, "work_mem") == "7MB"
        assert not raw.info.hostaddr or setting(raw, "tcp_keepalives_idle") == "60"
