"""Runs Pygments' lexers for `apps/core/lexers.py`, as a process that can be stopped.

A request is its length in four bytes, and JSON: `language`, `text`, `seconds` and `tokens`. The
answer has the same form: `tokens`, as pairs of a kind and a length, and the `seconds` used. A text
that takes much longer than its `seconds` ends this process. It imports no module of this project.
"""

import json
import resource
import signal
import sys
import time
from contextlib import suppress
from typing import Any

from pygments.lexers import get_lexer_by_name

GRACE = 0.25
"""Seconds of processor time above those of a request, after which the kernel ends this process."""
MEMORY_MAX = 512 * 1024 * 1024


def main() -> None:
    """Answer requests until the server closes the pipe."""
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.SIG_IGN)  # the server ends first and closes the pipe
    resource.setrlimit(resource.RLIMIT_DATA, (MEMORY_MAX, MEMORY_MAX))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    while header := sys.stdin.buffer.read(4):
        request = json.loads(sys.stdin.buffer.read(int.from_bytes(header, "big")))
        answer = json.dumps(_answer(request)).encode()
        sys.stdout.buffer.write(len(answer).to_bytes(4, "big") + answer)
        sys.stdout.buffer.flush()


def _answer(request: dict[str, Any]) -> dict[str, Any]:
    lexer = get_lexer_by_name(request["language"])
    begin, tokens = time.process_time(), list[tuple[str, int]]()
    # `re` holds the GIL, and no Python code could stop it. The default action of SIGPROF ends the
    # process.
    signal.setitimer(signal.ITIMER_PROF, request["seconds"] + GRACE)
    with suppress(Exception):  # an error of a lexer: the rest of the text stays plain
        _collect(lexer, request, begin + request["seconds"], tokens)
    signal.setitimer(signal.ITIMER_PROF, 0)
    return {"tokens": tokens, "seconds": time.process_time() - begin}


def _collect(
    lexer: Any, request: dict[str, Any], until: float, tokens: list[tuple[str, int]]
) -> None:
    """Append tokens until there are too many or they take too long."""
    end = 0
    for start, kind, text in lexer.get_tokens_unprocessed(request["text"]):
        if start != end or len(tokens) >= request["tokens"] or time.process_time() > until:
            break
        tokens.append((".".join(kind), len(text)))
        end += len(text)


if __name__ == "__main__":
    main()
