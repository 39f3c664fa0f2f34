"""The work for one command that needs the database, in a thread.

Refusals, slots, rate limits and the journal are those of git over HTTP.
"""

from __future__ import annotations

import logging
import secrets
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field

from apps.accounts.principal import Principal
from apps.core.errors import as_api_error, plain_error
from apps.core.locks import give_back_connection
from apps.core.request_ids import CurrentRequest, current, with_request_id
from apps.git.protocol import Service, error_packet
from apps.git.run import GitProcess
from apps.repos.access import RepoAccess
from apps.repos.http import push, streams
from apps.repos.http.transfer_slots import PERSON, hold_slot
from apps.repos.http.views import refusal_logged
from apps.site import limits
from apps.site.models import DailyCount
from apps.ssh.access import open_by_key, principal_of_key
from apps.ssh.channels import ChannelBody, ChannelOutput
from apps.ssh.commands import GitCommand, Request
from apps.ssh.models import SshKey

ENDED = "This key was deleted, or the account is deactivated. The connection ends."
logger = logging.getLogger(__name__)


@dataclass
class Work:
    """One command of one key. `held` has its slot, and what else ends with it."""

    key: SshKey
    address: str
    request: Request
    held: ExitStack = field(default_factory=ExitStack)
    id: str = field(default_factory=lambda: secrets.token_hex(4))
    outcome: str = "ok"
    """For the log: `ok`, or the code of the refusal."""

    @property
    def throttle_key(self) -> str:
        """The key under which slots and memory are counted. A deploy key has its own, because the
        person who added it need not be the one who uses it.
        """
        if self.key.repo_id is not None:
            return f"{PERSON}key-{self.key.pk}"
        return f"{PERSON}{self.key.person.pk}"

    def open(self) -> RepoAccess:
        """Check access and take a slot. Errors: those of `open_by_key`, 429."""
        principal, writing = principal_of_key(self.key), self.is_push
        self.key.touch()
        if writing:
            self.held.enter_context(refusal_logged(self.request.path, principal))
        self.throttle(principal)
        access = open_by_key(self.key, self.request.owner, self.request.slug, writing=writing)
        give_back_connection()
        self.held.enter_context(hold_slot(self.throttle_key))
        return access

    @property
    def is_push(self) -> bool:
        return self.request.command is GitCommand.RECEIVE_PACK

    def throttle(self, principal: Principal) -> None:
        is_person = self.key.repo_id is None
        caller = str(self.key.person.pk) if is_person else f"key-{self.key.pk}"
        limits.throttle_ssh(principal.user if is_person else None, caller)

    def start_fetch(self, protocol: str) -> GitProcess:
        """Start the git that serves a whole fetch. Errors: those of `open`."""
        git = self.open().repo.git
        return git.serve(Service.UPLOAD_PACK, stateless=False, protocol=protocol)

    def carry_out_push(self, body: ChannelBody, output: ChannelOutput) -> None:
        """Advertise the refs, receive the push, and report. Errors: those of `open`, `receive`."""
        access = self.open()
        process = access.repo.git.serve(Service.RECEIVE_PACK, advertise=True)
        advertised = streams.Output(process, b"")
        try:
            output.write_all(iter(advertised))
        finally:
            advertised.close()
        first = next(body, b"")
        if not first:  # the client has nothing to push
            return
        body.begin_with(first)
        output.write(push.receive(access=access, body=body))


def report_error(work: Work, error: Exception) -> bytes:
    """A refusal, as the packet that git prints as `fatal: remote error`. Defects are logged."""
    refusal = as_api_error(error)
    if refusal is None:
        logger.error("Defect in %s", work.request.path, exc_info=error)
        DailyCount.add("server_errors")
        refusal = plain_error(500)
    work.outcome = refusal.code
    if refusal.status == 401:  # the key was valid when the command began
        return error_packet(ENDED)
    detail = refusal.detail if refusal.status < 500 else with_request_id(refusal.detail)
    return error_packet(detail)


@contextmanager
def in_thread(work: Work) -> Iterator[None]:
    """The context of a thread that does a part of this work: its request id, and its connection to
    the database, which it gives back.
    """
    meta = {"REMOTE_ADDR": work.address, "HTTP_USER_AGENT": "git over SSH"}
    running = CurrentRequest(work.id, meta, username=work.key.person.username)
    token = current.set(running)
    try:
        yield
    finally:
        current.reset(token)
        give_back_connection()
