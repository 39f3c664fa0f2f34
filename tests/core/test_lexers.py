"""Lexers run in a process that can be stopped: no code blocks the threads of a server."""

from __future__ import annotations

import os
import signal
import sys
import time
from contextlib import suppress
from select import POLLIN, poll
from threading import Thread

import pytest
from pygments.token import Text

from apps.core import lexers, markdown
from apps.core.lexers import LANGUAGES, Budget, LexerProcess, highlight, tokens_of
from apps.core.rendered import rendered

pytestmark = pytest.mark.once

LENGTH = 20_000
SLOW = "a" + (" " * 190 + "//\n") * 300
"""The lexer of C takes many seconds for it, unless it is stopped."""
ATOMS = [" ", "\n", "\t", " \n", "#", "/*", "\\", "\\\n", '"', "'", "(", "[", "{", "<", "`", "$"]
ATOMS += ["a ", "a::", "a(", "a,", "<a ", "0", "=", "-", "*", "@", "${", "#{", "<<a\n", "a\n", "\r"]
ATOMS += ["a" + " " * 190, "(" + "\n" * 190, "a" * 900 + "\n", " " * 199 + "/", "\\\n" + " " * 99]
PREFIXES = ["", "int a", "/*", '"', "#define a ", "class A ", "<a "]


@pytest.fixture
def process(monkeypatch):
    """A lexer process for this test alone."""
    own = LexerProcess()
    monkeypatch.setattr(lexers, "_process", own)
    yield own
    own.close()


def longest_pause(work) -> float:
    """The longest pause of other threads of this process while a thread called this function."""
    thread, last, longest = Thread(target=work), time.monotonic(), 0.0
    thread.start()
    while thread.is_alive():
        thread.join(0.01)
        now = time.monotonic()
        longest, last = max(longest, now - last), now
    return longest


@pytest.mark.parametrize("language", ["c", "cpp", "objective-c"])
def test_blanks_in_a_block_of_c_keep_no_other_thread_from_running(language):
    text = f"```{language}\nint a{(' ' * 900 + chr(10)) * 60};\n```"
    assert longest_pause(lambda: markdown.render(text)) < 10


def test_a_text_that_takes_a_lexer_too_long_stays_plain_and_the_next_one_is_coloured(process):
    text = SLOW
    budget = Budget(10)
    tokens_of("int a;", "c", budget, seconds=1)
    first = process.process
    assert tokens_of(text, "c", budget, seconds=0.2) == [(Text, text)]
    assert first.returncode == -signal.SIGPROF
    assert budget.seconds < 9.8 and not budget.is_busy
    assert highlight("int a;", "c", budget).startswith("<span")
    assert process.process.pid != first.pid


def test_a_text_that_ended_the_process_is_not_tried_again(process):
    tokens_of(SLOW, "c", Budget(10), seconds=0.2)
    assert process.process is None
    assert tokens_of(SLOW, "c", Budget(10), seconds=0.2) == [(Text, SLOW)]
    assert process.process is None


def test_code_stays_plain_for_now_while_others_have_the_lexers(process):
    body = "```c\nint a;\n```"
    with process.lock:
        assert rendered(body)["html_version"] == 0
    assert rendered(body)["html_version"] == markdown.VERSION
    assert '<span class="kt">int</span>' in rendered(body)["body_html"]


def test_a_process_that_somebody_ended_is_started_again(process):
    highlight("int a;", "c", Budget(1))
    process.process.kill()
    process.process.wait()
    assert "span" in highlight("int a;", "c", Budget(1))


def test_a_process_that_does_not_answer_is_ended_by_its_deadline(process, monkeypatch):
    highlight("int a;", "c", Budget(1))
    stopped = process.process
    os.kill(stopped.pid, signal.SIGSTOP)
    monkeypatch.setattr(lexers, "DEADLINE", 0.1)
    budget = Budget(1)
    assert "span" not in highlight("int b;", "c", budget) and budget.is_busy
    assert stopped.returncode == -signal.SIGKILL


def test_a_process_that_cannot_start_leaves_code_plain_for_now(process, monkeypatch):
    for program in (lexers.PROGRAM.with_name("absent.py"), lexers.PROGRAM):
        monkeypatch.setattr(lexers, "PROGRAM", program)
        budget = Budget(1)
        assert ("span" in highlight("int a;", "c", budget)) != budget.is_busy
    monkeypatch.setattr(sys, "executable", "/absent")
    process.close()
    budget = Budget(1)
    assert "span" not in highlight("int a;", "c", budget) and budget.is_busy


def pid_in_fork(end) -> int:
    """The lexer process of a fork of this process, which then calls `end`; 0 if it has none."""
    reads, writes = os.pipe()
    child = os.fork()
    if not child:
        highlight("int a;", "c", Budget(5))
        other = lexers._process.process
        os.write(writes, str(other.pid if other else 0).encode())
        end()
    os.waitpid(child, 0)
    return int(os.read(reads, 20))


def test_a_fork_of_the_server_starts_a_process_of_its_own(process):
    highlight("int a;", "c", Budget(1))
    before = process.process.pid

    def end() -> None:
        lexers._process.close()
        os._exit(0)

    assert pid_in_fork(end) not in {0, before}
    assert process.process.pid == before and "span" in highlight("int b;", "c", Budget(1))


def test_the_code_of_one_body_has_one_budget():
    budget = Budget(0)
    assert "span" not in markdown.render("```c\nint a;\n```", budget=budget)
    assert not budget.is_busy


def hostile_text(number: int, atom: str) -> str:
    """Lines of maximum length behind one of the prefixes."""
    text = (PREFIXES[number % len(PREFIXES)] + atom * LENGTH)[:LENGTH]
    if max(map(len, text.split("\n"))) > 1000:
        return "\n".join(text[at : at + 999] for at in range(0, LENGTH, 999))
    return text


def try_hostile(language: str, atoms: list[str]) -> None:
    for number, atom in enumerate(atoms):
        text, budget = hostile_text(number, atom), Budget(1)
        tokens = tokens_of(text, language, budget, seconds=0.05)
        assert "".join(token for _, token in tokens) == text
        assert budget.seconds > 0.5


@pytest.mark.parametrize("language", ["c", "cpp", "python", "html"])
def test_hostile_code_ends_within_its_limit(language):
    try_hostile(language, ATOMS[::4])


@pytest.mark.slow
@pytest.mark.parametrize("language", sorted(LANGUAGES))
def test_hostile_code_of_every_language_ends_within_its_limit(language):
    try_hostile(language, ATOMS)


def test_the_process_ends_with_a_server_that_is_killed(process):
    """It ends when its pipe is closed."""
    pid = pid_in_fork(lambda: os.kill(os.getpid(), signal.SIGKILL))
    assert pid
    with suppress(ProcessLookupError):
        handle = os.pidfd_open(pid)
        waiting = poll()
        waiting.register(handle, POLLIN)
        assert waiting.poll(60_000)
        os.close(handle)
