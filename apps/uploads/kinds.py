"""The types of uploads, by their first bytes and by the extension of their name."""

from __future__ import annotations

import re

from apps.core.content_types import PICTURES, is_text

TEXT, OTHER = "text/plain", "application/octet-stream"
IMAGES = frozenset({"image/png", "image/jpeg", "image/gif", "image/webp"})
"""Types that a browser may display; all others are attachments."""
SIGNATURES = (
    *((kind, PICTURES[kind]) for kind in sorted(IMAGES)),
    ("application/pdf", re.compile(rb"%PDF-")),
    ("application/zip", re.compile(rb"PK(?:\x03\x04|\x05\x06)")),
    ("application/gzip", re.compile(rb"\x1f\x8b\x08")),
)
ENDINGS = {
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
TYPES = {ending: kind for kind, endings in ENDINGS.items() for ending in endings.split()}


def ending(filename: str) -> str:
    """The extension: `gz` of `logs.tar.GZ`, "" of `Makefile` and of `.gitignore`."""
    stem, _, end = filename.rpartition(".")
    return end.lower() if stem else ""


def type_of_name(filename: str) -> str | None:
    """The type for a name's extension, text without one; None for an extension not in `ENDINGS`."""
    end = ending(filename)
    return TYPES.get(end) if end else TEXT


def type_of_content(content: bytes) -> str:
    """The type for the first bytes, else text for UTF-8 without NUL, else `OTHER`."""
    for kind, signature in SIGNATURES:
        if signature.match(content):
            return kind
    return TEXT if is_text(content) else OTHER
