"""Listening for events on PostgreSQL."""

from __future__ import annotations

import asyncio

import pytest
from django.db import connection

from apps.events import wake
from apps.events.hub import in_thread
from tests.waiting import eventually_in_loop

pytestmark = [
    pytest.mark.skipif(connection.vendor != "postgresql", reason="PostgreSQL's own"),
    pytest.mark.django_db(transaction=True),
]


def listening() -> int:
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT count(*) FROM pg_stat_activity"
            " WHERE application_name = 'guildhall-stream' AND datname = current_database()"
        )
        return int(cursor.fetchone()[0])


def test_its_connection_is_closed_when_its_task_is_forgotten():
    """The garbage collector closes the coroutine of a task whose loop is gone. The coroutine cannot
    await anything then, such as a rollback.
    """

    async def story() -> None:
        woken: list[bool] = []
        async with wake.watching(lambda _: woken.append(True)):
            (task,) = asyncio.all_tasks() - {asyncio.current_task()}
            await eventually_in_loop(lambda: bool(woken))
            task.get_coro().close()
            assert await in_thread(listening) == 0

    asyncio.run(story())
