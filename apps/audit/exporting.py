"""The audit log as JSON lines."""

from __future__ import annotations

from contextlib import ExitStack
from tempfile import TemporaryFile
from typing import IO

from django.http import HttpRequest
from django.http.response import HttpResponseBase

from apps.accounts.principal import Principal
from apps.audit.serializers import audit_records
from apps.browse.downloads import text_response
from apps.browse.read_slots import heavy_slots
from apps.core import json
from apps.events.audit import AuditQuerySet
from apps.events.pagination import PAST_ALL
from apps.repos.http.transfer_slots import caller_of

JSON_LINES = "application/jsonl"
BATCH_SIZE = 500


def export_response(
    request: HttpRequest, principal: Principal, rows: AuditQuerySet
) -> HttpResponseBase:
    """These entries, oldest first, one record in each line. 503 without a slot for heavy reads, 429
    without one for transfers.

    The file is complete before the first byte is sent, so that no client gets a part.
    """
    with ExitStack() as opened:
        file = opened.enter_context(TemporaryFile())
        with heavy_slots.slot(caller_of(request, principal)):
            write_lines(rows, file)
        opened.pop_all()
    return text_response(request, principal, file, JSON_LINES)


def write_lines(rows: AuditQuerySet, file: IO[bytes]) -> None:
    """Write a line for each entry, oldest first; up to three queries for `BATCH_SIZE` of them."""
    last = 0
    while batch := rows.page(after=last, before=PAST_ALL, size=BATCH_SIZE, newest_first=False):
        file.writelines(json.dumps(record) + b"\n" for record in audit_records(batch))
        last = batch[-1].pk
