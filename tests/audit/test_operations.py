"""Each operation on accounts, tokens, members, protections and settings leaves an entry in the
audit log, with the address and the program of its request.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import pytest

from apps.events.audit import AuditEntry
from apps.events.kinds import AUDITED
from tests.permission_cases import CELLS, PEOPLE, Cell, PermissionCase
from tests.sample_data import SampleData
from tests.test_permissions import undone

pytestmark = pytest.mark.once
CONTENT = re.compile(
    r"/(threads|pulls|uploads|statuses|forks|pings|deliveries)\b|/webhooks/{webhook_uuid}/ping"
)
"""Operations on code and conversations, and attempts of webhooks: they change no setting."""


def successes() -> Iterator[Any]:
    """The first cell of each operation that changes something and succeeds."""
    first: dict[str, Cell] = {}
    for cell in CELLS:
        is_change = not cell.operation.startswith("GET ") and cell.owner == "team"
        if is_change and cell.status < 400 and not CONTENT.search(cell.operation):
            first.setdefault(cell.operation, cell)
    for operation, cell in first.items():
        yield pytest.param(cell, id=operation)


@pytest.mark.parametrize("cell", list(successes()))
def test_each_operation_leaves_an_entry_with_its_origin(
    cell: Cell, sample: SampleData, db: None, tmp_path_factory: Any
) -> None:
    with undone():
        method, path = PermissionCase(cell, sample, tmp_path_factory).request()
        api = sample.api(PEOPLE[cell.who])
        api.headers |= {"User-Agent": "robot/1.0"}
        before = AuditEntry.objects.count()
        answer = api.send(method, path, cell.body)
        assert answer.status == cell.status, answer.json
        entry = AuditEntry.objects.latest("id")
        assert AuditEntry.objects.count() > before
    assert (entry.address, entry.program) == ("127.0.0.1", "robot/1.0")
    assert entry.actor == sample.people[str(PEOPLE[cell.who])]
    assert entry.token_name and entry.token_uuid
    assert entry.kind in AUDITED
    if "{team_slug}" in cell.operation or "{owner}" in cell.operation:
        assert entry.team_id == sample.acme.pk
