"""What may be uploaded: names, types, sizes, and how much of it in a day."""

from __future__ import annotations

import datetime as dt
import re

from django.conf import settings
from django.db.models import Sum
from django.utils import timezone

from apps.accounts.models import User
from apps.core.controls import CONTROLS, has_controls
from apps.core.errors import Invalid, PayloadTooLarge, TooMany
from apps.core.json import quoted
from apps.uploads.kinds import OTHER, TEXT, ending, type_of_content, type_of_name
from apps.uploads.models import Upload

SIZE_MAX = 10 * 1024 * 1024
"""Bytes of one file."""
DAY = dt.timedelta(days=1)
ELSEWHERE = re.compile(r"[/\\\u2028\u2029]")


def filename_problem(name: str) -> str | None:
    """Why a file cannot have this name; None when it can."""
    if has_controls(name) or ELSEWHERE.search(name):
        return f"A filename may not contain '/', '\\', line breaks or {CONTROLS}."
    return "This is the name of a folder." if name in {".", ".."} else None


def check_size(size: int) -> None:
    """Neither nothing, 422, nor more than `SIZE_MAX` bytes, 413 `payload_too_large`."""
    if not size:
        raise Invalid("validation_failed", "content_base64: The file is empty.")
    if size > SIZE_MAX:
        raise PayloadTooLarge("payload_too_large", f"The file is larger than {SIZE_MAX:,} bytes.")


def find_type(filename: str, content: bytes) -> str:
    """The type that the ending of the name and the content agree on.

    422 `unsupported_upload_type` where they do not, and for an ending that is not in the list.
    """
    promised, found = type_of_name(filename), type_of_content(content)
    if promised is None:
        end = quoted(f".{ending(filename)}")
        raise Invalid(
            "unsupported_upload_type", f"filename: {end} files are not accepted; zip the file."
        )
    if promised != found and (promised, found) != (OTHER, TEXT):
        text = f"content_base64: This is {found}, but the filename says {promised}."
        raise Invalid("unsupported_upload_type", text)
    return promised


def check_share(user: User, size: int) -> None:
    """429 `upload_limit_reached` where somebody would have uploaded too much in a day.

    `Retry-After` is when enough of it is a day old. The caller holds the lock of this question.
    """
    since = timezone.now() - DAY
    rows = Upload.objects.filter(created_by=user, created_at__gt=since)
    used = rows.aggregate(sum=Sum("size"))["sum"] or 0
    excess = used + size - settings.UPLOAD_BYTES_PER_DAY
    if excess <= 0:
        return
    wait = DAY
    for size_then, moment in rows.order_by("created_at").values_list("size", "created_at"):
        excess -= size_then
        if excess <= 0:
            wait = moment - since
            break
    raise TooMany(
        "upload_limit_reached",
        f"You may upload {settings.UPLOAD_BYTES_PER_DAY:,} bytes in 24 hours.",
        headers={"Retry-After": str(max(1, round(wait.total_seconds())))},
    )
