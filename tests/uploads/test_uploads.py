"""`POST …/repos/{repo_slug}/uploads`"""

from __future__ import annotations

import datetime as dt
import hashlib
import zipfile
from io import BytesIO

import pytest

from apps.core.body_limits import UPLOAD_LIMIT
from apps.core.errors import Conflict
from apps.core.parsers import JSON_LIMIT
from apps.repos.models import Repo
from apps.threads.actions import delete_thread
from apps.uploads.actions import create_upload
from apps.uploads.models import Upload
from apps.uploads.rules import EXTENSIONS, SIZE_MAX, TYPES
from tests.principals import access_of
from tests.server import ROOT
from tests.uploads.conftest import PNG, files

pytestmark = pytest.mark.once

SVG = b'<svg xmlns="http://www.w3.org/2000/svg"><script>alert(1)</script></svg>'


def zipped() -> bytes:
    made = BytesIO()
    with zipfile.ZipFile(made, "w") as archive:
        archive.writestr("a", "b")
    return made.getvalue()


def test_to_an_archived_repository_nothing_is_uploaded(upload, open_repo, alice, uploads_dir):
    open_repo.is_archived = True
    open_repo.save()
    upload(alice).fails(409, "repo_archived")
    assert not files(uploads_dir)


def test_a_repository_that_is_archived_meanwhile_takes_nothing(make, open_repo, alice, uploads_dir):
    by = access_of(alice, open_repo)
    Repo.objects.filter(pk=open_repo.pk).update(is_archived=True)
    with pytest.raises(Conflict):
        create_upload(access=by, filename="a.txt", content=b"a")
    assert not files(uploads_dir)


def test_any_reader_uploads_a_file(upload, carol, events, uploads_dir):
    with events():
        made = upload(carol, "Notes of today.txt", b"Slow.\n").gives(201)
    digest = hashlib.sha256(b"Slow.\n").hexdigest()
    assert {**made, "created_at": "", "uuid": ""} == {
        "uuid": "",
        "filename": "Notes of today.txt",
        "content_type": "text/plain",
        "size": 6,
        "sha256": digest,
        "url": f"http://testserver/api/v1/uploads/{made['uuid']}/content",
        "created_by_uuid": str(carol.uuid),
        "created_by_username": "carol",
        "created_at": "",
    }
    assert files(uploads_dir) == [digest]
    assert (uploads_dir / digest[:2] / digest[2:4] / digest).read_bytes() == b"Slow.\n"


def test_the_same_content_twice_is_one_file(upload, carol, alice, uploads_dir):
    uuids = {upload(who, name).gives(201)["uuid"] for who in (carol, alice) for name in "ab"}
    assert len(uuids) == 4
    assert len(files(uploads_dir)) == 1


@pytest.mark.parametrize(
    "name",
    [
        "",
        " ",
        ".",
        "..",
        "../a.txt",
        "a/b.txt",
        "..\\a.txt",
        "a\nb.txt",
        "a\r\nX-Evil: 1.txt",
        "a\x7f.txt",
        "a\u0085.txt",
        "a\u2028.txt",
        "txt.\u202eexe",
        "\u2066a.txt",
        "a" * 256,
        1,
        None,
    ],
)
def test_hostile_names_are_refused(upload, carol, name, uploads_dir):
    upload(carol, name).fails(422, "validation_failed")
    assert not files(uploads_dir)


def test_names_of_all_languages_are_kept_as_they_are(upload, carol):
    for name in (
        "a" * 251 + ".txt",
        "Größe 📎.txt",
        "rapport (fin).TXT",
        "Makefile",
        ".env",
        'a".md',
    ):
        assert upload(carol, name).gives(201)["filename"] == name


TAKEN = [
    ("a.png", PNG, "image/png"),
    ("a.JPEG", b"\xff\xd8\xff\xe0rest", "image/jpeg"),
    ("a.gif", b"GIF89a\x01\x00", "image/gif"),
    ("a.webp", b"RIFF\x01\x02\n\x04WEBPVP8 ", "image/webp"),
    ("a.pdf", b"%PDF-1.7\n", "application/pdf"),
    ("a.zip", zipped(), "application/zip"),
    ("a.docx", zipped(), "application/zip"),
    ("a.tar.gz", b"\x1f\x8b\x08\x00", "application/gzip"),
    ("a.svg", SVG, "text/plain"),
    ("a.html", b"<script>alert(1)</script>", "text/plain"),
    ("a.md", "naïve 📎".encode(), "text/plain"),
    ("Makefile", b"all:\n", "text/plain"),
    ("a.mp4", b"\0\0\0\x20ftypisom", "application/octet-stream"),
    ("a.bin", b"only text", "application/octet-stream"),
    # A file in two formats: the type of its first bytes is the only one that responses contain.
    ("a.gif", b"GIF89a/*\0*/=1;alert(1)//", "image/gif"),
    ("a.png", PNG + zipped(), "image/png"),
    ("a.jpg", b"\xff\xd8\xff\xe0<script>alert(1)</script>", "image/jpeg"),
]


@pytest.mark.parametrize(("name", "content", "kind"), TAKEN)
def test_a_type_is_told_by_name_and_content_together(upload, carol, name, content, kind):
    assert upload(carol, name, content).gives(201)["content_type"] == kind


REFUSED = [
    *(("a.png", b"<html>"), ("a.png", SVG), ("a.svg", PNG), ("a.html", b"GIF89a=1;alert(1)")),
    *(("a.txt", b"a\0b"), ("a.txt", b"\xff\xfea\0"), ("a.txt", "ü".encode("latin-1"))),
    *(("a.txt", b"a" * 65535 + "ü".encode()[:1]), ("a.md", zipped()), ("a.pdf", b" %PDF-1.7")),
    *(("a.jpg", PNG), ("a.bin", PNG), ("Makefile", PNG), ("a.exe", b"MZ\0"), ("a.", PNG)),
    *(("a.png ", PNG), ("a.webp", b"RIFF\0\0\0\0WAVE"), ("a.dll", b"text")),
]


@pytest.mark.parametrize(("name", "content"), REFUSED)
def test_what_is_not_what_its_name_says_is_refused(upload, carol, name, content, uploads_dir):
    upload(carol, name, content).fails(422, "unsupported_upload_type")
    assert not files(uploads_dir)


def test_the_page_about_uploads_lists_the_extensions_of_each_type():
    rows = (ROOT / "docs/uploads.md").read_text().splitlines()
    pictures = next(row for row in rows if row.startswith("| `image/png`"))
    for kind, extensions in EXTENSIONS.items():
        lines = [row for row in rows if row.startswith(f"| `{kind}`")] or [pictures]
        assert kind in lines[0]
        missing = [name for name in extensions.split() if f"`{name}`" not in lines[0].split("|")[2]]
        assert not missing
    listed = sum(row.split("|")[2].count("`") // 2 for row in rows if row.startswith("| `"))
    assert listed == len(TYPES)


def test_text_is_read_across_the_pieces(upload, carol):
    assert upload(carol, "a.txt", b"a" * 65535 + "ü".encode()).gives(201)


@pytest.mark.parametrize(
    "text", ["", "YQ", "YQ=", "YQ==\n", "Y Q=", "_-8=", "ü", "YQ==YQ==", 1, None]
)
def test_base64_is_read_strictly(api, open_repo, carol, text):
    path = f"{open_repo.api_path}/uploads"
    api(carol).post(path, filename="a.txt", content_base64=text).fails(422, "validation_failed")


def test_a_file_may_have_ten_mebibytes_and_its_request_fourteen(upload, api, open_repo, carol):
    upload(carol, "a.txt", b"a" * (SIZE_MAX + 1)).fails(413, "payload_too_large")
    path = f"{open_repo.api_path}/uploads"
    large = b'{"filename": "a.txt", "content_base64": "YQ=="%s}'
    api(carol).send("POST", path, large % (b" " * UPLOAD_LIMIT)).fails(413, "payload_too_large")
    threads = f"{open_repo.api_path}/threads"
    api(carol).send("POST", threads, large % (b" " * JSON_LIMIT)).fails(413, "payload_too_large")
    assert upload(carol, "a.txt", b"a" * SIZE_MAX).gives(201)["size"] == SIZE_MAX
    api(carol).send("POST", path, large % (b" " * JSON_LIMIT)).gives(201)


def test_a_person_uploads_only_so_much_in_a_day(upload, carol, alice, settings, uploads_dir):
    settings.UPLOAD_BYTES_PER_DAY = 10
    upload(carol, content=b"123456").gives(201)
    Upload.objects.update(created_at=Upload.objects.get().created_at.replace(microsecond=0))
    refused = upload(carol, content=b"12345")
    refused.fails(429, "upload_limit_reached")
    assert 86_390 <= int(refused.header("Retry-After")) <= 86_400
    assert len(files(uploads_dir)) == 1
    upload(alice, content=b"12345").gives(201)
    upload(carol, content=b"1234").gives(201)
    upload(carol, content=b"12345678901").fails(429, "upload_limit_reached")


def test_what_was_deleted_counts_until_it_is_a_day_old(upload, carol, make, open_repo, settings):
    settings.UPLOAD_BYTES_PER_DAY = 10
    made = upload(carol, content=b"123456").gives(201)
    thread = make.thread(open_repo, by=carol, body=made["url"])
    delete_thread(access=access_of(carol, open_repo), thread=thread)
    upload(carol, content=b"12345").fails(429, "upload_limit_reached")
    row = Upload.objects.get()
    Upload.objects.update(created_at=row.created_at - dt.timedelta(days=1))
    upload(carol, content=b"12345").gives(201)
