"""The transaction that carries an action out, and what a request stores in that very transaction.

An action may do slow work before, and have more than one transaction. The one that ends it is a
`final_transaction`. A caller who has to store something beside it, both or neither, holds its
commit back (`HeldCommit`) until that is written too.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from contextvars import ContextVar
from functools import wraps
from types import TracebackType
from typing import ParamSpec, Self, TypeVar

from django.db import transaction

Parameters = ParamSpec("Parameters")
Result = TypeVar("Result")


class HeldCommit:
    """`with HeldCommit(begin) as held:` holds the next final transaction open until the end.

    `begin` is called inside that transaction, before the action does anything in it. An exception
    rolls all of it back. One that leaves the final transaction itself does so at once: what
    follows, such as another try, has a transaction of its own.
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
        """Run inside the transaction that is held, which begins here if none has begun."""
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
"""What holds back commits of the request that this thread works on."""


def final_transaction(function: Callable[Parameters, Result]) -> Callable[Parameters, Result]:
    """As `transaction.atomic`, for the last transaction of an action: nothing fails after it.

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
