"""`GET /uploads/{uuid}` and `/uploads/{uuid}/content`"""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any
from uuid import uuid4

import pytest
from django.contrib.auth import login
from django.contrib.auth.models import AnonymousUser
from django.contrib.sessions.backends.db import SessionStore
from rest_framework.request import Request

from apps.accounts.actions import deactivate_user
from apps.accounts.authentication import SameOriginSession
from apps.core.slugs import PREFIX
from apps.repos.models import Repo, Visibility
from apps.uploads import files as store
from apps.uploads.models import Upload
from tests.api import plain_client
from tests.principals import principal_of
from tests.uploads.conftest import PNG


@pytest.fixture
def read(make: Any) -> Any:
    """`read(carol, upload)`: the response with the content, read to its end."""

    def get(person: Any, upload: Any, **headers: str) -> Any:
        credential = {"Authorization": f"Bearer {make.token(person)}"} if person else {}
        path = f"{PREFIX}/uploads/{upload.uuid}/content"
        answer: Any = plain_client().get(path, headers={**credential, **headers})
        body = answer.getvalue() if answer.streaming else answer.content
        return SimpleNamespace(status=answer.status_code, headers=answer.headers, body=body)

    return get


def test_an_unknown_upload_is_404(api, carol):
    api(carol).get(f"/uploads/{uuid4()}").fails(404, "not_found")
    api(carol).get(f"/uploads/{uuid4()}/content").fails(404, "not_found")


def test_nobody_reads_it_once_the_repository_is_private(api, read, make, open_repo, carol, bob):
    made = make.upload(open_repo, by=carol)
    assert api(carol).get(f"/uploads/{made.uuid}").gives()["filename"] == "notes.txt"
    etag = read(carol, made).headers["ETag"]
    open_repo.visibility = Visibility.PRIVATE
    open_repo.save()
    api(carol).get(f"/uploads/{made.uuid}").fails(403, "forbidden")
    assert read(carol, made).status == 403
    assert read(carol, made, **{"If-None-Match": etag}).status == 403
    assert read(None, made).status == 401
    assert read(bob, made).body == b"Slow.\n"


def test_those_of_an_inactive_team_are_closed_to_strangers(
    api, read, make, open_repo, acme, carol, bob
):
    made = make.upload(open_repo, by=carol)
    acme.is_active = False
    acme.save()
    api(carol).get(f"/uploads/{made.uuid}").fails(403, "team_inactive")
    assert read(carol, made).status == 403
    assert read(bob, made).status == 200


@pytest.mark.parametrize("site", [None, "cross-site", "same-site", "none", "same-origin, none"])
def test_the_session_reads_nothing_where_no_page_of_this_site_asks(make, open_repo, carol, site):
    made = make.upload(open_repo, by=carol)
    client = plain_client()
    client.force_login(carol)
    headers = {} if site is None else {"Sec-Fetch-Site": site}
    path = f"{PREFIX}/uploads/{made.uuid}/content"
    assert client.get(path, headers=headers).status_code == 401


def test_pages_of_this_site_show_what_who_is_signed_in_may_read(make, open_repo, carol, bob, sam):
    made = make.upload(open_repo, by=carol)
    client, ours = plain_client(), {"Sec-Fetch-Site": "same-origin"}

    def status(path: str, method: str = "GET", **more: str) -> int:
        headers = ours | more
        answer: Any = client.generic(method, f"{PREFIX}{path}", headers=headers)
        assert not answer.streaming or answer.getvalue() == b"Slow.\n" or method == "HEAD"
        return int(answer.status_code)

    path = f"/uploads/{made.uuid}/content"
    assert status(path) == 401
    client.force_login(carol)
    assert (status(path), status(path, "HEAD")) == (200, 200)
    assert status(path, Authorization="Bearer x") == 401
    assert status(f"/uploads/{made.uuid}") == status("/pings") == status("/users/self") == 401
    assert status(f"{open_repo.api_path}/uploads", "POST") == 401
    Repo.objects.filter(pk=open_repo.pk).update(visibility=Visibility.PRIVATE)
    assert status(path) == 403
    client.force_login(bob)
    assert status(path) == 200
    deactivate_user(principal=principal_of(sam), user=bob)
    assert status(path) == 401
    client.force_login(sam)
    make.thread(open_repo, by=sam)
    Upload.objects.update(deleted_at=made.created_at)
    assert status(path) == 404


@pytest.mark.parametrize(
    ("name", "content", "kind", "disposition"),
    [
        ("a.png", PNG, "image/png", 'inline; filename="a.png"'),
        ("a.svg", b"<svg/>", "text/plain; charset=utf-8", 'attachment; filename="a.svg"'),
        ("a.html", b"<b>", "text/plain; charset=utf-8", 'attachment; filename="a.html"'),
        ("a.pdf", b"%PDF-1", "application/pdf", 'attachment; filename="a.pdf"'),
        ("a.bin", b"\0", "application/octet-stream", 'attachment; filename="a.bin"'),
        ('"a;b".md', b"x", "text/plain; charset=utf-8", r'attachment; filename="\"a;b\".md"'),
        (
            "ü 📎.md",
            b"x",
            "text/plain; charset=utf-8",
            "attachment; filename*=utf-8''%C3%BC%20%F0%9F%93%8E.md",
        ),
    ],
)
def test_only_pictures_are_shown_and_nothing_runs(
    read, make, open_repo, carol, name, content, kind, disposition
):
    made = make.upload(open_repo, by=carol, filename=name, content=content)
    answer = read(carol, made)
    wanted = {
        "Content-Type": kind,
        "Content-Length": str(len(content)),
        "Content-Disposition": disposition,
        "Content-Security-Policy": "default-src 'none'; sandbox",
        "X-Content-Type-Options": "nosniff",
        "X-Frame-Options": "DENY",
        "Cache-Control": "private, no-cache, no-transform",
        "ETag": f'"{made.sha256}"',
    }
    assert {name: answer.headers.get(name) for name in wanted} == wanted
    assert answer.body == content


def test_who_has_it_already_gets_304(read, make, open_repo, carol):
    made = make.upload(open_repo, by=carol)
    for tag in (f'"{made.sha256}"', f'W/"{made.sha256}"', f'"x", "{made.sha256}"', "*"):
        answer = read(carol, made, **{"If-None-Match": tag})
        assert (answer.status, answer.body) == (304, b"")
        assert answer.headers["Cache-Control"] == "private, no-cache, no-transform"
    assert read(carol, made, **{"If-None-Match": '"x"'}).status == 200


def test_head_says_the_same_without_the_bytes(make, open_repo, carol, read):
    made = make.upload(open_repo, by=carol)
    credential = {"Authorization": f"Bearer {make.token(carol)}"}
    path = f"{PREFIX}/uploads/{made.uuid}/content"
    answer = plain_client().head(path, headers=credential)
    assert answer.content == b""
    of_each = answer.headers["X-Request-Id"]
    assert answer.headers.items() == {**read(carol, made).headers, "X-Request-Id": of_each}.items()


def test_a_file_that_is_missing_is_404_and_logged(read, make, open_repo, carol, caplog):
    made = make.upload(open_repo, by=carol)
    store.remove(made.sha256)
    assert read(carol, made).status == 404
    assert str(made.uuid) in caplog.text


def test_those_of_a_deleted_repository_are_gone(api, make, open_repo, carol):
    made = make.upload(open_repo, by=carol)
    open_repo.delete()
    api(carol).get(f"/uploads/{made.uuid}").fails(404, "not_found")
    assert not Upload.objects.exists()


@pytest.mark.parametrize("method", ["POST", "PUT", "PATCH", "DELETE"])
def test_the_session_stands_for_nobody_who_writes(rf, carol, method):
    """The session must not authenticate a write, even if a later operation accepts it."""
    request = rf.generic(method, "/", headers={"Sec-Fetch-Site": "same-origin"})
    request.session = SessionStore()
    request.user = AnonymousUser()
    login(request, carol)
    assert SameOriginSession().authenticate(Request(request)) is None
    request.method = "GET"
    pair = SameOriginSession().authenticate(Request(request))
    assert pair is not None and pair[0] == carol
