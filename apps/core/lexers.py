"""Tokens of code, from Pygments' lexers in a process of their own (`lexer_process.py`).

Some lexers try regular expressions for minutes on a few kilobytes of hostile text, and `re` keeps
all threads of a process from running meanwhile. The other process has a limit of processor time
for each text; when it ends there, the text stays plain and the next request starts another one.
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
from subprocess import DEVNULL, PIPE, Popen
from threading import Lock
from typing import IO, Any, cast

from pygments import format
from pygments.formatters import HtmlFormatter
from pygments.token import STANDARD_TYPES, Text, string_to_tokentype

from apps.core.lexer_process import GRACE

Token = tuple[Any, str]

SPACE_MAX = 200
"""Characters of white space in a row; code with more stays plain: lexers of C and its like take
the square or the cube of them.
"""
SPACE = re.compile(r"\s+")
TOKENS_MAX = 200_000
WAIT = 0.5
"""Seconds that a text waits for the process while other texts have it; then it stays plain."""
DEADLINE = 5.0
"""Seconds within which the process answers, however busy the machine is."""
REMEMBERED = 1000
"""Texts that ended the process, which are not tried again."""
PROGRAM = Path(__file__).with_name("lexer_process.py")
PASSED_ON = ("LD_LIBRARY_PATH", "PATH", "PYTHONPATH")
"""Variables of the environment that the process gets: none is a secret."""


@dataclass
class Budget:
    """Limits the processor time for the code of one page or body."""

    seconds: float
    is_busy: bool = False
    """Whether code stayed plain for a reason that passes. Such a rendering is not to be stored."""


def tokens_of(
    text: str, language: str, budget: Budget, *, seconds: float, most: int = TOKENS_MAX
) -> list[Token]:
    """Kinds and texts of tokens, together all of `text`: the rest is plain where there are more
    than `most`, or they take longer than `seconds` or what is left of the budget.
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
    """The process has not answered by its deadline."""


class LexerProcess:
    """The process of this server process: started by its first text, and again after it ended."""

    def __init__(self) -> None:
        self.lock = Lock()
        self.process: Popen[bytes] | None = None
        self.hostile: dict[bytes, None] = {}

    def ask(
        self, text: str, language: str, budget: Budget, seconds: float, most: int
    ) -> list[tuple[str, int]]:
        """Pairs of kind and length; none where the text was too slow, or the process is busy."""
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
        """End the process. Not `kill`: only let go of it, in a fork of the server."""
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
        """The process has ended by itself: by a signal where the text was to blame."""
        process = cast(Popen[bytes], self.process)
        is_hostile = process.wait() < 0
        self.close()
        if not is_hostile:
            budget.is_busy = True
            return
        budget.seconds -= seconds
        self.hostile[key] = None
        while len(self.hostile) > REMEMBERED:
            del self.hostile[next(iter(self.hostile))]

    def _exchange(self, request: bytes) -> dict[str, Any]:
        if self.process is not None and self.process.poll() is not None:
            self.close()  # somebody ended it between two requests
        if self.process is None:
            self.process = _start()
        ends = time.monotonic() + DEADLINE
        _write(self.process, len(request).to_bytes(4, "big") + request, ends)
        length = int.from_bytes(_read(self.process, 4, ends), "big")
        answer: dict[str, Any] = json.loads(_read(self.process, length, ends))
        return answer


def _start() -> Popen[bytes]:
    # `-P`: the folder of the program has modules named like those of the standard library.
    process = Popen(
        [sys.executable, "-P", str(PROGRAM)],
        stdin=PIPE,
        stdout=PIPE,
        stderr=DEVNULL,
        env={name: os.environ[name] for name in PASSED_ON if name in os.environ},
        start_new_session=True,
    )
    os.set_blocking(cast(IO[bytes], process.stdin).fileno(), False)
    return process


def _write(process: Popen[bytes], rest: bytes, ends: float) -> None:
    pipe = cast(IO[bytes], process.stdin).fileno()
    view = memoryview(rest)
    while view:
        _wait(pipe, POLLOUT, ends)
        try:
            view = view[os.write(pipe, view) :]
        except BrokenPipeError:
            raise EOFError from None


def _read(process: Popen[bytes], length: int, ends: float) -> bytes:
    pipe, answer = cast(IO[bytes], process.stdout).fileno(), bytearray()
    while len(answer) < length:
        _wait(pipe, POLLIN, ends)
        piece = os.read(pipe, length - len(answer))
        if not piece:
            raise EOFError
        answer += piece
    return bytes(answer)


def _wait(pipe: int, event: int, ends: float) -> None:
    waiting = poll()
    waiting.register(pipe, event)
    if not waiting.poll(max(0.0, ends - time.monotonic()) * 1000):
        raise _Late


_process = LexerProcess()
atexit.register(lambda: _process.close())


def _begin_again() -> None:
    """In a fork of the server: the process belongs to the other one, and so may its lock."""
    global _process
    _process.close(kill=False)
    _process = LexerProcess()


os.register_at_fork(after_in_child=_begin_again)


NAMES = """
    bash c c# c++ clojure cmake console cpp cs csharp css diff docker dockerfile elixir elm
    erlang fortran fsharp go golang graphql groovy haskell hcl hs html http ini java javascript
    jinja js json jsx julia kotlin latex less lisp lua make makefile nginx nix
    objective-c ocaml perl php pl powershell properties proto protobuf ps1 py pycon python r rb
    rst ruby rs rust sass scala scheme scss sh shell sql swift tcl terraform tex tf toml ts tsx
    typescript vim vue xml yaml yml zig zsh
"""
LANGUAGES = frozenset(NAMES.split())
"""What a fence may name: Pygments knows 500 more, whose modules would fill the memory, and among
which some take minutes for hostile text."""
CLASSES = frozenset(filter(None, STANDARD_TYPES.values()))
"""All classes that coloured code can have."""
CODE_MAX = 64 * 1024
"""Characters; longer code stays plain."""
LINE_MAX = 1000
"""Characters; code with a longer line stays plain: in such lines lexers may try without end."""
BLOCK_TOKENS_MAX = 10_000
"""Words, signs and strings of one code that are coloured; what follows stays plain."""
BLOCK_SECONDS_MAX = 0.25
"""Limits the processor time that colouring one code block may take; the rest stays plain."""


FORMATTER: Any = HtmlFormatter(nowrap=True)


def highlight(code: str, language: str, budget: Budget) -> str:
    """The code as HTML with classes; empty where it is no code to be coloured."""
    if language.lower() not in LANGUAGES or len(code) > CODE_MAX:
        return ""
    if max(map(len, code.split("\n"))) > LINE_MAX:
        return ""
    tokens = tokens_of(
        code, language.lower(), budget, seconds=BLOCK_SECONDS_MAX, most=BLOCK_TOKENS_MAX
    )
    html: str = format(tokens, FORMATTER)
    return html
