"""Transfers in which no byte moves."""

from __future__ import annotations

import socket

import pytest

from config.server import end_silent


@pytest.fixture
def pair():
    """Both ends of a connection to a socket that ends silent ones after a second: ours, theirs."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        end_silent(listening, 1)
        with socket.create_connection(listening.getsockname()) as theirs:
            ours, _ = listening.accept()
            with ours:
                yield ours, theirs


def test_a_client_that_takes_nothing_is_cut_off(pair):
    ours, _ = pair
    with pytest.raises(TimeoutError):
        ours.sendall(bytes(64 * 1024 * 1024))


def test_a_thread_waits_for_bytes_no_longer_than_that(pair):
    ours, _ = pair
    with pytest.raises(BlockingIOError):
        ours.recv(1)
