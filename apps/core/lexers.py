"""Colours for code: Pygments' lexers, in a process of their own (`lexer_process.py`).

On a few kilobytes of hostile text some lexers run for minutes inside `re`, which blocks all threads
of a process. The other process has a limit of processor time for each text. If it ends there, the
text stays plain, and the next text starts a new process.
"""

from __future__ import annotations

import atexit
import hashlib
import json
import os
import re
import sys
import time
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from select import POLLIN, POLLOUT, poll
from subprocess import DEVNULL, Popen
from threading import Lock
from typing import IO, Any, cast

from pygments import format
from pygments.formatters import HtmlFormatter
from pygments.token import STANDARD_TYPES, Text, string_to_tokentype

from apps.core.lexer_process import GRACE
from apps.git.run import open_process

Token = tuple[Any, str]

SPACE_MAX = 200
"""Maximum characters of white space in a row; code with more stays plain. Lexers of C and similar
languages need quadratic or cubic time for them.
"""
SPACE = re.compile(r"\s+")
TOKENS_MAX = 200_000
WAIT = 0.5
"""Seconds to wait for the process while it is busy with other texts; then the text stays plain."""
DEADLINE = 5.0
"""Seconds in which the process must answer, even on a busy machine."""
HOSTILE_MAX = 1000
"""Number of remembered texts that ended the process and are not tried again."""
PROGRAM = Path(__file__).with_name("lexer_process.py")
ENVIRONMENT = ("LD_LIBRARY_PATH", "PATH", "PYTHONPATH")
"""Environment variables that the process gets: none is a secret."""


@dataclass
class Budget:
    """Limits the processor time for the code of one page or body."""

    seconds: float
    is_busy: bool = False
    """Whether code stayed plain for a temporary reason. Such a rendering is not stored."""


def tokens_of(
    text: str, language: str, budget: Budget, *, seconds: float, most: int = TOKENS_MAX
) -> list[Token]:
    """Pairs of kind and text that make up all of `text`. The rest is one plain token if there are
    more than `most`, or they take longer than `seconds` or the rest of the budget.
    """
    seconds = min(seconds, budget.seconds)
    if seconds <= 0 or budget.is_busy or max(map(len, SPACE.findall(text)), default=0) > SPACE_MAX:
        return [(Text, text)]
    pairs, tokens, end = _process.ask(text, language, budget, seconds, most), list[Token](), 0
    for kind, length in pairs:
        tokens.append((string_to_tokentype(kind), text[end : end + length]))
        end += length
    return [*tokens, (Text, text[end:])] if end < len(text) else tokens


class _Late(Exception):
    """The process did not answer before its deadline."""


class LexerProcess:
    """The lexer process of this server process, started for the first text and after each end."""

    def __init__(self) -> None:
        self.lock = Lock()
        self.process: Popen[bytes] | None = None
        self.hostile: dict[bytes, None] = {}

    def ask(
        self, text: str, language: str, budget: Budget, seconds: float, most: int
    ) -> list[tuple[str, int]]:
        """Pairs of kind and length; none if the text was too slow, or the process is busy."""
        request = {"language": language, "text": text, "seconds": seconds, "tokens": most}
        key = hashlib.sha256(f"{language} {text}".encode("utf-8", "backslashreplace")).digest()
        if key in self.hostile:
            return []
        if not self.lock.acquire(timeout=WAIT):
            budget.is_busy = True
            return []
        try:
            answer = self._exchange(json.dumps(request).encode())
        except (OSError, _Late):
            self.close()
            budget.is_busy = True
            return []
        except EOFError:
            self._note_end(key, budget, seconds + GRACE)
            return []
        finally:
            self.lock.release()
        budget.seconds -= answer["seconds"]
        return cast(list[tuple[str, int]], answer["tokens"])

    def close(self, *, kill: bool = True) -> None:
        """End the process. Without `kill`, only close the pipes to it, in a fork of the server."""
        process, self.process = self.process, None
        if process is None:
            return
        for pipe in (process.stdin, process.stdout):
            with suppress(OSError):
                cast(IO[bytes], pipe).close()
        if kill:
            process.kill()
            process.wait()

    def _note_end(self, key: bytes, budget: Budget, seconds: float) -> None:
        """The process ended by itself; the text is to blame if a signal ended it."""
        process = cast(Popen[bytes], self.process)
        is_hostile = process.wait() < 0
        self.close()
        if not is_hostile:
            budget.is_busy = True
            return
        budget.seconds -= seconds
        self.hostile[key] = None
        while len(self.hostile) > HOSTILE_MAX:
            del self.hostile[next(iter(self.hostile))]

    def _exchange(self, request: bytes) -> dict[str, Any]:
        if self.process is not None and self.process.poll() is not None:
            self.close()  # it was killed between two requests
        if self.process is None:
            self.process = _start()
        deadline = time.monotonic() + DEADLINE
        _write(self.process, len(request).to_bytes(4, "big") + request, deadline)
        length = int.from_bytes(_read(self.process, 4, deadline), "big")
        answer: dict[str, Any] = json.loads(_read(self.process, length, deadline))
        return answer


def _start() -> Popen[bytes]:
    # `-P`: the program's folder has modules with names of the standard library.
    process = open_process(
        [sys.executable, "-P", str(PROGRAM)],
        stderr=DEVNULL,
        env={name: os.environ[name] for name in ENVIRONMENT if name in os.environ},
    )
    os.set_blocking(cast(IO[bytes], process.stdin).fileno(), False)
    return process


def _write(process: Popen[bytes], rest: bytes, deadline: float) -> None:
    pipe = cast(IO[bytes], process.stdin).fileno()
    view = memoryview(rest)
    while view:
        _wait(pipe, POLLOUT, deadline)
        try:
            view = view[os.write(pipe, view) :]
        except BrokenPipeError:
            raise EOFError from None


def _read(process: Popen[bytes], length: int, deadline: float) -> bytes:
    pipe, answer = cast(IO[bytes], process.stdout).fileno(), bytearray()
    while len(answer) < length:
        _wait(pipe, POLLIN, deadline)
        piece = os.read(pipe, length - len(answer))
        if not piece:
            raise EOFError
        answer += piece
    return bytes(answer)


def _wait(pipe: int, event: int, deadline: float) -> None:
    poller = poll()
    poller.register(pipe, event)
    if not poller.poll(max(0.0, deadline - time.monotonic()) * 1000):
        raise _Late


_process = LexerProcess()
atexit.register(lambda: _process.close())


def _reset_in_fork() -> None:
    """In a fork of the server the process belongs to the parent, which may hold its lock."""
    global _process
    _process.close(kill=False)
    _process = LexerProcess()


os.register_at_fork(after_in_child=_reset_in_fork)


NAMES = """
    bash c c# c++ clojure cmake console cpp cs csharp css diff docker dockerfile elixir elm
    erlang fortran fsharp go golang graphql groovy haskell hcl hs html http ini java javascript
    jinja js json jsx julia kotlin latex less lisp lua make makefile nginx nix
    objective-c ocaml perl php pl powershell properties proto protobuf ps1 py pycon python r rb
    rst ruby rs rust sass scala scheme scss sh shell sql swift tcl terraform tex tf toml ts tsx
    typescript vim vue xml yaml yml zig zsh
"""
LANGUAGES = frozenset(NAMES.split())
"""Languages of fenced code. Pygments has 500 more, whose modules would take much memory; some
lexers of those run for minutes on hostile text.
"""
CLASSES = frozenset(filter(None, STANDARD_TYPES.values()))
"""All CSS classes in coloured code."""
CODE_MAX = 64 * 1024
"""Maximum characters; longer code stays plain."""
LINE_MAX = 1000
"""Maximum characters of a line; code with a longer one stays plain: lexers may be slow on it."""
BLOCK_TOKENS_MAX = 10_000
"""Maximum tokens of a code block that are coloured; the rest stays plain."""
BLOCK_SECONDS_MAX = 0.25
"""Maximum processor time for colouring one code block; the rest stays plain."""


FORMATTER: Any = HtmlFormatter(nowrap=True)


def highlight(code: str, language: str, budget: Budget) -> str:
    """The code as HTML with CSS classes of Pygments; empty if it stays plain."""
    if language.lower() not in LANGUAGES or len(code) > CODE_MAX:
        return ""
    if max(map(len, code.split("\n"))) > LINE_MAX:
        return ""
    tokens = tokens_of(
        code, language.lower(), budget, seconds=BLOCK_SECONDS_MAX, most=BLOCK_TOKENS_MAX
    )
    html: str = format(tokens, FORMATTER)
    return html
