"""Runs Pygments' lexers for `apps/core/lexers.py`: a program of its own, which can be stopped.

A request is four bytes of length and JSON: `language`, `text`, `seconds` and `tokens`. The answer
has the same form: `tokens`, as pairs of a kind and a length, and the `seconds` that they took. A
text that takes much longer than its `seconds` ends this process. It imports nothing else of ours.
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
"""Seconds of processor time beyond those of a request, after which the kernel ends this process."""
MEMORY_MAX = 512 * 1024 * 1024


def main() -> None:
    """Answer requests until the other side closes the pipe."""
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.SIG_IGN)  # the server ends first, and closes the pipe
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
    # `re` holds the GIL, so no Python code could stop it: SIGPROF has its default action, which
    # ends the process.
    signal.setitimer(signal.ITIMER_PROF, request["seconds"] + GRACE)
    with suppress(Exception):  # of a lexer: the text stays plain from there on
        _collect(lexer, request, begin + request["seconds"], tokens)
    signal.setitimer(signal.ITIMER_PROF, 0)
    return {"tokens": tokens, "seconds": time.process_time() - begin}


def _collect(
    lexer: Any, request: dict[str, Any], until: float, tokens: list[tuple[str, int]]
) -> None:
    """Append the tokens, until there are too many or they take too long."""
    end = 0
    for start, kind, text in lexer.get_tokens_unprocessed(request["text"]):
        if start != end or len(tokens) >= request["tokens"] or time.process_time() > until:
            break
        tokens.append((".".join(kind), len(text)))
        end += len(text)


if __name__ == "__main__":
    main()
