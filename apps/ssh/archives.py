"""`git archive --remote`: the archives of the API, in the protocol of `git upload-archive`."""

from __future__ import annotations

import re
import zlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from apps.browse.downloads import GZIP, LEVEL, find_archive
from apps.browse.names import revision
from apps.browse.read_slots import archive_slots
from apps.core.errors import Invalid, as_api_error
from apps.core.locks import give_back_connection
from apps.git import exports
from apps.git.protocol import FLUSH, MAX_PAYLOAD, pkt
from apps.repos.http import streams
from apps.ssh.channels import ChannelBody, ChannelOutput
from apps.ssh.work import Work

MOST = 64 * 1024
"""Most bytes of the arguments."""
FORMATS = {"tar": "tar", "tgz": "tar.gz", "tar.gz": "tar.gz", "zip": "zip"}
PREFIX = re.compile(r"[^\x00\n]{0,255}")


@dataclass(frozen=True)
class Wanted:
    """The arguments of an archive: its format, the prefix of its paths, a revision, and a path."""

    form: str
    prefix: str
    ref: str | None
    path: bytes


def send_archive(work: Work, body: ChannelBody, output: ChannelOutput) -> None:
    """Read the arguments, and send the archive. Refusals are sent as git expects them."""
    access = work.open()
    try:
        arguments = parse_arguments(read_arguments(body))
        work.held.enter_context(archive_slots.slot(work.throttle_key))
        rev = revision(access.repo, arguments.ref)
        archive = find_archive(access.repo, rev, arguments.path, work.throttle_key)
    except Exception as error:
        refusal = as_api_error(error)
        if refusal is None:
            raise
        work.outcome = refusal.code
        output.write(pkt(f"NACK {refusal.detail}\n".encode()[:MAX_PAYLOAD]) + FLUSH)
        return
    give_back_connection()
    git_format = "zip" if arguments.form == "zip" else "tar"
    process = exports.stream_archive(
        access.repo.git, archive.commit, git_format, arguments.prefix, archive.path
    )
    packed = arguments.form == "tar.gz"
    packer = zlib.compressobj(LEVEL, wbits=GZIP) if packed else None
    pieces = streams.Output(process, b"", streams.Bounded(packer, exports.WRITTEN_MAX))
    try:
        output.write(pkt(b"ACK\n") + FLUSH)
        output.write_all(in_band(pieces))
    finally:
        pieces.close()


def in_band(pieces: Iterable[bytes]) -> Iterator[bytes]:
    """The pieces in band 1 of a multiplexed stream, and its end."""
    for piece in pieces:
        for start in range(0, len(piece), MAX_PAYLOAD - 1):
            yield pkt(b"\x01" + piece[start : start + MAX_PAYLOAD - 1])
    yield FLUSH


def read_arguments(body: Iterable[bytes]) -> list[str]:
    """The arguments that the client sends, one a packet. 422."""
    buffer = b""
    for piece in body:
        buffer += piece
        arguments, at = list[str](), 0
        while len(buffer) - at >= 4:
            size = _size(buffer[at : at + 4])
            if size == 0:
                return arguments
            if at + size > len(buffer):
                break
            line = buffer[at + 4 : at + size].decode("utf-8", "replace").removesuffix("\n")
            arguments.append(line.removeprefix("argument "))
            at += size
        if len(buffer) > MOST:
            break
    raise refused("The arguments are incomplete or too long.")


def _size(header: bytes) -> int:
    try:
        size = int(header, 16)
    except ValueError:
        size = -1
    if size not in range(5, MAX_PAYLOAD + 5) and size != 0:
        raise refused("The arguments are malformed.")
    return size


def parse_arguments(arguments: list[str]) -> Wanted:
    """The archive that these arguments of `git archive` ask for. 422."""
    form, prefix, words = "tar", "", list[str]()
    for at, argument in enumerate(arguments):
        name, _, value = argument.partition("=")
        if argument == "--":
            words += arguments[at + 1 :]
            break
        if name == "--format" and value in FORMATS:
            form = FORMATS[value]
        elif name == "--prefix" and PREFIX.fullmatch(value):
            prefix = value
        elif re.fullmatch(r"-[0-9]|--verbose|-v", argument):
            continue
        elif argument.startswith("-"):
            raise refused(f"The option {argument[:50]} is not supported.")
        else:
            words.append(argument)
    if not 1 <= len(words) <= 2:
        raise refused("Name one branch, tag or commit, and at most one path.")
    ref = None if words[0] == "HEAD" else words[0]
    path = words[1].rstrip("/").encode() if len(words) == 2 else b""
    return Wanted(form, prefix, ref, path)


def refused(text: str) -> Invalid:
    return Invalid("validation_failed", text)
