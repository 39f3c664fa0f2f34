"""Processes that die while they work on a request, as exceptions: nothing comes after the moment of
death but the rollback that the database would do by itself.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from django.db import connection, transaction

ROLLBACK = ("ROLLBACK", "RELEASE")


class Killed(BaseException):
    """The process has died here."""


class Death:
    """Whether it has come, and how many statements there were until then or until the end."""

    def __init__(self) -> None:
        self.came = False
        self.statements = 0


@contextmanager
def dying_at(moment: int | str) -> Iterator[Death]:
    """Die before the statement of this number, from 1, or the first that begins with this text."""
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
            # A statement outside every transaction of the request failed in that of the test.
            if connection.in_atomic_block:
                transaction.set_rollback(False)
