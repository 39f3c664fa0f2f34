"""Processes that die during a request, simulated by exceptions: nothing runs after them but the
rollback of the database.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from django.db import connection, transaction

ROLLBACK = ("ROLLBACK", "RELEASE")


class Killed(BaseException):
    """Raised where the process dies."""


class Death:
    """Whether the process has died, and the number of statements before that or in all."""

    came = False
    statements = 0


@contextmanager
def dying_at(moment: int | str) -> Iterator[Death]:
    """Die before the statement with this number, from 1, or the first with this beginning."""
    death = Death()

    def execute_or_die(execute: Any, sql: str, *rest: Any) -> Any:
        if sql.startswith(ROLLBACK):
            return execute(sql, *rest)
        death.statements += not death.came
        now = moment == death.statements or (isinstance(moment, str) and sql.startswith(moment))
        if death.came or now:
            death.came = True
            raise Killed
        return execute(sql, *rest)

    with connection.execute_wrapper(execute_or_die):
        try:
            yield death
        except Killed:
            assert death.came
            # A statement outside the request's transactions failed in that of the test.
            if connection.in_atomic_block:
                transaction.set_rollback(False)


def deaths_until_done(work: Callable[[], object]) -> int:
    """Repeat work that dies one statement later each time, until it ends; returns the deaths."""
    for deaths in range(1000):
        with dying_at(deaths + 1) as death:
            work()
        if not death.came:
            return deaths
    raise AssertionError("the work has no end")
