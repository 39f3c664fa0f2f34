"""git over SSH, by asyncssh. The only module that starts it.

One event loop has all connections. What needs the database runs in threads (`work.py`), and so does
a push or an archive from its beginning to its end.
"""

from __future__ import annotations

import asyncio
import logging
import socket
from collections import Counter
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import partial
from pathlib import Path
from time import monotonic, perf_counter
from typing import Any, Final, TypeVar

import asyncssh
from django.conf import settings

from apps.core.locks import give_back_connection
from apps.core.requests import UNKNOWN, network
from apps.git.run import GitProcess
from apps.repos.http.streams import end
from apps.site import limits
from apps.ssh.access import find_key
from apps.ssh.archives import send_archive
from apps.ssh.channels import (
    ChannelBody,
    ChannelOutput,
    FetchRefused,
    stream_fetch,
)
from apps.ssh.commands import GitCommand, RefusedCommand, parse_command
from apps.ssh.models import SshKey
from apps.ssh.public_keys import RSA, fingerprint_of
from apps.ssh.queries import valid_keys
from apps.ssh.session import GitSession
from apps.ssh.work import ENDED, Work, in_thread, report_error

KEX: Final = (
    "mlkem768x25519-sha256",
    "sntrup761x25519-sha512",
    "sntrup761x25519-sha512@openssh.com",
    "curve25519-sha256",
    "curve25519-sha256@libssh.org",
    "ecdh-sha2-nistp256",
    "diffie-hellman-group16-sha512",
)
CIPHERS: Final = (
    "aes128-gcm@openssh.com",
    "aes256-gcm@openssh.com",
    "chacha20-poly1305@openssh.com",
    "aes256-ctr",
    "aes128-ctr",
)
MACS: Final = ("hmac-sha2-256-etm@openssh.com", "hmac-sha2-512-etm@openssh.com")
SIGNATURES: Final = (
    "ssh-ed25519",
    "sk-ssh-ed25519@openssh.com",
    "ecdsa-sha2-nistp256",
    "ecdsa-sha2-nistp384",
    "ecdsa-sha2-nistp521",
    "sk-ecdsa-sha2-nistp256@openssh.com",
    "rsa-sha2-512",
    "rsa-sha2-256",
)
LOGIN_SECONDS: Final = 30
"""Seconds in which a connection has to sign in."""
MOST_KEYS: Final = 10
"""Most keys that a connection may offer."""
MOST_CONNECTIONS: Final = 1000
MOST_OF_ADDRESS: Final = 200
"""Most connections of one address, signed in or not."""
CHECK_SECONDS: Final = 1.0
"""Seconds between two checks of the keys of all connections."""
LAST_SECONDS: Final = 5.0
"""Seconds in which commands end whose connection the server has closed."""
SHORT_THREADS: Final = 8
"""Threads for work that only needs the database."""
Result = TypeVar("Result")

logger = logging.getLogger(__name__)
access_log = logging.getLogger("apps.ssh.log")


class GitServer:
    """The state of the server: its connections, its threads, and addresses with wrong keys."""

    def __init__(self) -> None:
        self.loop = asyncio.get_running_loop()
        self.connections: set[Connection] = set()
        self.of_address = Counter[str]()
        self.waits: dict[str, float] = {}
        """The time until which an address may offer no unknown key."""
        self.short = ThreadPoolExecutor(SHORT_THREADS, "ssh")
        # A command that has a slot has a thread, too.
        self.long = ThreadPoolExecutor(settings.GIT_SLOTS + SHORT_THREADS, "ssh-git")
        self.tasks: set[asyncio.Task[None]] = set()
        """The commands that run."""

    async def in_short(self, function: Callable[..., Result], *args: Any) -> Result:
        """Call a function that needs the database."""
        return await self.loop.run_in_executor(self.short, _with_database, function, *args)

    async def check_keys(self) -> None:
        """End the connections whose key was deleted, or whose person was deactivated, for ever."""
        while True:
            await asyncio.sleep(CHECK_SECONDS)
            signed_in = [one for one in self.connections if one.key is not None]
            if not signed_in:
                continue
            try:
                pks = {one.key.pk for one in signed_in if one.key}
                valid = await self.in_short(valid_keys, pks)
            except Exception:  # without the database, nobody can be told to go
                logger.exception("The keys of %s connections could not be checked", len(signed_in))
                continue
            for connection in signed_in:
                if connection.key and connection.key.pk not in valid:
                    connection.end(ENDED)

    def must_wait(self, address: str) -> bool:
        """Whether this address has offered too many wrong keys."""
        now = monotonic()
        if len(self.waits) > MOST_CONNECTIONS:
            self.waits = {one: until for one, until in self.waits.items() if until > now}
        return self.waits.get(address, 0.0) > now

    async def note_wrong_keys(self, address: str) -> None:
        if wait := await self.in_short(limits.wait_after_wrong_keys, address):
            self.waits[address] = monotonic() + wait

    async def close(self, grace: float) -> None:
        """Let running commands end for `grace` seconds, and close all connections."""
        await self.wait_for_commands(grace)
        for connection in [*self.connections]:
            connection.end("The server stops.")
        await self.wait_for_commands(LAST_SECONDS)
        self.short.shutdown(wait=False, cancel_futures=True)
        self.long.shutdown(wait=False, cancel_futures=True)

    async def wait_for_commands(self, seconds: float) -> None:
        """Wait until no command runs, for so many seconds at most."""
        ends = monotonic() + seconds
        while self.tasks and monotonic() < ends:
            await asyncio.sleep(0.1)


def _with_database(function: Callable[..., Result], *args: Any) -> Result:
    try:
        return function(*args)
    finally:
        give_back_connection()


class Connection(asyncssh.SSHServer):
    """One connection: it signs in by a key, and then runs commands of git."""

    def __init__(self, server: GitServer) -> None:
        self.server = server
        self.address = UNKNOWN
        self.offered = 0
        """The number of unknown keys."""
        self.tried: SshKey | None = None
        self.key: SshKey | None = None
        self.sessions: set[GitSession] = set()

    def connection_made(self, conn: asyncssh.SSHServerConnection) -> None:
        self.conn = conn
        peer = conn.get_extra_info("peername")
        self.address = (network(str(peer[0])) if peer else None) or UNKNOWN
        server = self.server
        server.of_address[self.address] += 1
        server.connections.add(self)
        if (
            len(server.connections) > MOST_CONNECTIONS
            or server.of_address[self.address] > MOST_OF_ADDRESS
        ):
            conn.abort()

    def connection_lost(self, exc: Exception | None) -> None:
        server = self.server
        server.connections.discard(self)
        server.of_address[self.address] -= 1
        if not server.of_address[self.address]:
            del server.of_address[self.address]
        if self.offered and self.key is None:
            task = server.loop.create_task(server.note_wrong_keys(self.address))
            task.add_done_callback(_log_failure)

    def begin_auth(self, username: str) -> bool:
        return True

    def public_key_auth_supported(self) -> bool:
        return True

    def password_auth_supported(self) -> bool:
        return False

    def kbdint_auth_supported(self) -> bool:
        return False

    async def validate_public_key(self, username: str, key: asyncssh.SSHKey) -> bool:
        """Whether this is the key of somebody. The last one that is valid signs in: asyncssh checks
        its signature next.
        """
        self.tried = None
        if key.algorithm == RSA.encode():
            # asyncssh would accept a signature by SHA-1.
            key.all_sig_algorithms = {b"rsa-sha2-256", b"rsa-sha2-512"}
        if username == "git":
            fingerprint = fingerprint_of(key.public_data)
            self.tried = await self.server.in_short(find_key, fingerprint)
        if self.tried is not None:
            return True
        self.offered += 1
        if self.offered >= MOST_KEYS or self.server.must_wait(self.address):
            text = "Too many wrong keys. Offer the right one alone, or try again later."
            self.conn.disconnect(asyncssh.DISC_NO_MORE_AUTH_METHODS_AVAILABLE, text)
        return False

    def auth_completed(self) -> None:
        self.key = self.tried

    def session_requested(self) -> GitSession:
        return GitSession(self.begin)

    def begin(self, session: GitSession) -> None:
        """Run the command of a session, which its client has named."""
        task = self.server.loop.create_task(self.run(session))
        self.server.tasks.add(task)
        task.add_done_callback(self.server.tasks.discard)

    async def run(self, session: GitSession) -> None:
        self.sessions.add(session)
        try:
            await Command(self, session).run()
        except Exception:  # the other commands of the connection go on
            logger.exception("A command of SSH failed")
            session.channel.abort()
        finally:
            self.sessions.discard(session)

    def end(self, text: str) -> None:
        """Close the connection, and tell people who wait for a command why."""
        for session in [*self.sessions]:
            with suppress(OSError, asyncssh.Error):
                session.write_error(text)
        self.conn.disconnect(asyncssh.DISC_BY_APPLICATION, text)


def _log_failure(task: asyncio.Task[None]) -> None:
    if not task.cancelled() and task.exception() is not None:
        logger.error("Wrong keys could not be counted", exc_info=task.exception())


class Command:
    """One command of a connection, from its first byte to its exit status."""

    def __init__(self, connection: Connection, session: GitSession) -> None:
        self.connection, self.session = connection, session
        self.server = connection.server

    async def run(self) -> None:
        """Carry it out. All errors are told to the client."""
        try:
            request = parse_command(self.session.command)
        except RefusedCommand as refused:
            self.session.write_error(str(refused))
            self.exit(1)
            return
        key = self.connection.key
        if key is None:
            raise RuntimeError("a command without a key")
        work, begun = Work(key, self.connection.address, request), perf_counter()
        status = await self.carry_out(work)
        self.exit(status)
        access_log.info(
            '%s %s "%s %s" %s %d ms',
            key.person if key.repo_id is None else f"deploy-key:{key.uuid}",
            work.address,
            request.command.value,
            request.path,
            work.outcome,
            (perf_counter() - begun) * 1000,
        )

    async def carry_out(self, work: Work) -> int:
        """Run the command; return its exit status."""
        try:
            if work.request.command is GitCommand.UPLOAD_PACK:
                await self.fetch(work)
            else:
                await self.in_thread(work)
        except (asyncssh.Error, ConnectionError, TimeoutError) as error:  # the client has gone
            work.outcome = type(error).__name__
            self.session.channel.abort()
            return 1
        except FetchRefused as refused:
            work.outcome = "refused"
            self.session.write_error(str(refused))
            return 1
        except Exception as error:  # the client is told, and defects are logged
            report = await self.server.in_short(report_error, work, error)
            with suppress(OSError, asyncssh.Error):
                await self.session.write(report)
            return 1
        finally:
            await self.server.in_short(work.held.close)
        return 0

    async def fetch(self, work: Work) -> None:
        protocol = self.session.environment.get("GIT_PROTOCOL", "")
        start = partial(_start, work, protocol)
        git: GitProcess = await self.server.in_short(start)
        try:
            await stream_fetch(self.session, git)
        finally:
            await self.server.in_short(end, git)

    async def in_thread(self, work: Work) -> None:
        """Carry out a push or an archive."""
        body = ChannelBody(self.session, self.server.loop)
        output = ChannelOutput(self.session, self.server.loop)
        await self.server.loop.run_in_executor(self.server.long, _carry_out, work, body, output)

    def exit(self, status: int) -> None:
        with suppress(OSError, asyncssh.Error):
            self.session.channel.exit(status)


def _start(work: Work, protocol: str) -> GitProcess:
    with in_thread(work):
        return work.start_fetch(protocol)


def _carry_out(work: Work, body: ChannelBody, output: ChannelOutput) -> None:
    with in_thread(work):
        try:
            if work.is_push:
                work.carry_out_push(body, output)
            else:
                send_archive(work, body, output)
        finally:
            body.finish()


async def serve(
    listening: Sequence[socket.socket],
    keys: Sequence[Path],
    *,
    stopping: asyncio.Event,
    grace: float,
) -> None:
    """Serve at these sockets with these host keys until `stopping` is set."""
    server = GitServer()

    acceptors = [await asyncssh.listen(sock=sock, **options(server, keys)) for sock in listening]
    checks = asyncio.create_task(server.check_keys())
    await stopping.wait()
    for acceptor in acceptors:
        acceptor.close()
    checks.cancel()
    await server.close(grace)


def options(server: GitServer, keys: Sequence[Path]) -> dict[str, Any]:
    """asyncssh's options: public keys alone, and no shell, terminal, forwarding, agent or files."""
    return {
        "server_factory": partial(Connection, server),
        "server_host_keys": [str(path) for path in keys],
        "encoding": None,
        "line_editor": False,
        "allow_pty": False,
        "agent_forwarding": False,
        "x11_forwarding": False,
        "sftp_factory": None,
        "allow_scp": False,
        "gss_host": None,
        "host_based_auth": False,
        "password_auth": False,
        "kbdint_auth": False,
        "kex_algs": _available(KEX),
        "encryption_algs": CIPHERS,
        "mac_algs": MACS,
        "signature_algs": SIGNATURES,
        "compression_algs": None,
        "login_timeout": LOGIN_SECONDS,
        "keepalive_interval": 30,
        "keepalive_count_max": 3,
        "server_version": "Guildhall",
        "config": [],
    }


def _available(names: Sequence[str]) -> list[str]:
    """The key exchanges that this machine's libraries have: asyncssh refuses others."""
    from asyncssh.kex import get_kex_algs

    present = {name.decode() for name in get_kex_algs()}
    return [name for name in names if name in present]
