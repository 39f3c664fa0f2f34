"""The final transaction of an action, to which its caller may add rows before the commit, and the
transaction of a long read.

An action may do slow work first, and have several transactions. The last is a `final_transaction`.
A caller that must store something together with it delays its commit by `HeldCommit`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from contextvars import ContextVar
from functools import wraps
from types import TracebackType
from typing import Any, ParamSpec, Self, TypeVar

from django.db import connection, transaction

Parameters = ParamSpec("Parameters")
Result = TypeVar("Result")


class HeldCommit:
    """`with HeldCommit(begin) as held:` keeps the next final transaction open until its end.

    `begin` is called in that transaction before the action. An exception rolls all of it back. If
    it leaves the final transaction itself, the rollback is immediate, and another try of the action
    has a new transaction.
    """

    def __init__(self, begin: Callable[[], None]) -> None:
        self._begin = begin
        self._open = ExitStack()
        self._is_open = False

    def __enter__(self) -> Self:
        self._before = HELD.set(self)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> bool | None:
        HELD.reset(self._before)
        return self._open.__exit__(kind, error, trace)

    @contextmanager
    def transaction(self) -> Iterator[None]:
        """Run inside the held transaction, which begins here if it has not begun yet."""
        if self._is_open:
            yield
            return
        with ExitStack() as opened:
            opened.enter_context(transaction.atomic())
            self._is_open = True
            try:
                self._begin()
                yield
            except BaseException:
                self._is_open = False
                raise
            self._open = opened.pop_all()


HELD: ContextVar[HeldCommit | None] = ContextVar("held_commit", default=None)
"""The `HeldCommit` of the current request."""


def final_transaction(function: Callable[Parameters, Result]) -> Callable[Parameters, Result]:
    """As `transaction.atomic`, for the last transaction of an action, after which nothing may fail.

    Every action that answers a POST has one.
    """

    @wraps(function)
    def run(*args: Parameters.args, **options: Parameters.kwargs) -> Result:
        held = HELD.get()
        if held is None:
            with transaction.atomic():
                return function(*args, **options)
        with held.transaction(), transaction.atomic():
            return function(*args, **options)

    return run


@contextmanager
def snapshot() -> Iterator[None]:
    """A transaction that only reads, and sees the database as it is at its first query, however
    long it takes. It locks nothing. In another transaction, it is part of that one.
    """
    if connection.in_atomic_block:
        yield
    elif connection.vendor == "sqlite":
        connection.ensure_connection()  # it sets the mode
        sqlite: Any = connection
        mode, sqlite.transaction_mode = sqlite.transaction_mode, "DEFERRED"
        try:
            with transaction.atomic():
                yield
        finally:
            sqlite.transaction_mode = mode
    else:
        with transaction.atomic(), connection.cursor() as cursor:
            cursor.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ READ ONLY")
            cursor.execute("SET LOCAL idle_in_transaction_session_timeout = 0")
            yield
