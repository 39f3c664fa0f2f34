"""Rules about uploads: names, types, sizes, and the daily limit."""

from __future__ import annotations

import datetime as dt
import re

from django.conf import settings
from django.db.models import Sum
from django.utils import timezone

from apps.accounts.models import User
from apps.core.controls import CONTROLS, has_controls
from apps.core.errors import Invalid, PayloadTooLarge, TooMany
from apps.core.files import PICTURES, is_text
from apps.core.json import quoted
from apps.uploads.models import Upload

SIZE_MAX = 10 * 1024 * 1024
"""Most bytes of one file."""
DAY = dt.timedelta(days=1)
NOT_IN_FILENAMES = re.compile(r"[/\\]")
TEXT, OTHER = "text/plain", "application/octet-stream"
IMAGES = frozenset({"image/png", "image/jpeg", "image/gif", "image/webp"})
"""Types that a browser may display; all others are attachments."""
SIGNATURES = (
    *((kind, PICTURES[kind]) for kind in sorted(IMAGES)),
    ("application/pdf", re.compile(rb"%PDF-")),
    ("application/zip", re.compile(rb"PK(?:\x03\x04|\x05\x06)")),
    ("application/gzip", re.compile(rb"\x1f\x8b\x08")),
)
EXTENSIONS = {
    "image/png": "png",
    "image/jpeg": "jpg jpeg",
    "image/gif": "gif",
    "image/webp": "webp",
    "application/pdf": "pdf",
    "application/zip": "zip docx xlsx pptx odt ods odp jar whl",
    "application/gzip": "gz tgz",
    TEXT: "txt text log md markdown rst adoc tex csv tsv json jsonl ipynb xml svg html htm css js "
    "mjs ts jsx tsx py rb go rs c h cc cpp hpp cs java kt swift php pl lua r sh bash ps1 bat sql "
    "diff patch yaml yml toml ini cfg conf eml asc pem",
    OTHER: "bin bz2 xz zst 7z tar mp4 mov webm mp3 ogg wav pcap heic avif bmp tif tiff psd",
}
"""The extensions of each type. Markup is plain text: it is never displayed as a page."""
TYPES = {extension: kind for kind, text in EXTENSIONS.items() for extension in text.split()}


def filename_problem(name: str) -> str | None:
    """The reason why a file cannot have this name; None if it can."""
    if has_controls(name) or NOT_IN_FILENAMES.search(name):
        return f"A filename may not contain '/', '\\', line breaks or {CONTROLS}."
    return "This is the name of a folder." if name in {".", ".."} else None


def check_size(size: int) -> None:
    """422 for an empty file, 413 `payload_too_large` for more than `SIZE_MAX` bytes."""
    if not size:
        raise Invalid("validation_failed", "content_base64: The file is empty.")
    if size > SIZE_MAX:
        raise PayloadTooLarge("payload_too_large", f"The file is larger than {SIZE_MAX:,} bytes.")


def find_type(filename: str, content: bytes) -> str:
    """The type for the name's extension, if the content has the same type.

    422 `unsupported_upload_type` if it has another, or for an extension that is not allowed.
    """
    stem, _, extension = filename.lower().rpartition(".")
    by_name = TYPES.get(extension) if stem and extension else TEXT  # also for `.gitignore`
    by_content = type_of_content(content)
    if by_name is None:
        end = quoted(f".{extension}")
        text = f"filename: {end} files are not accepted; zip the file."
        raise Invalid("unsupported_upload_type", text)
    if by_name != by_content and (by_name, by_content) != (OTHER, TEXT):
        text = f"content_base64: This is {by_content}, but the filename says {by_name}."
        raise Invalid("unsupported_upload_type", text)
    return by_name


def type_of_content(content: bytes) -> str:
    """The type for the first bytes, else text for UTF-8 without NUL, else `OTHER`."""
    for kind, signature in SIGNATURES:
        if signature.match(content):
            return kind
    return TEXT if is_text(content) else OTHER


def check_daily_limit(user: User, size: int) -> None:
    """429 `upload_limit_reached` if this upload would exceed the user's daily limit.

    `Retry-After` tells when enough of the user's uploads are a day old. The caller holds the lock
    of the user's uploads.
    """
    since = timezone.now() - DAY
    rows = Upload.objects.filter(created_by=user, created_at__gt=since)
    used = rows.aggregate(sum=Sum("size"))["sum"] or 0
    excess = used + size - settings.UPLOAD_BYTES_PER_DAY
    if excess <= 0:
        return
    wait = DAY
    for earlier_size, moment in rows.order_by("created_at").values_list("size", "created_at"):
        excess -= earlier_size
        if excess <= 0:
            wait = moment - since
            break
    raise TooMany(
        "upload_limit_reached",
        f"You may upload {settings.UPLOAD_BYTES_PER_DAY:,} bytes in 24 hours.",
        headers={"Retry-After": str(max(1, round(wait.total_seconds())))},
    )
