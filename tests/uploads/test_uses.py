"""An upload is kept while a text of its repository refers to it."""

from __future__ import annotations

import datetime as dt
from typing import Any

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from apps.pulls import actions as pulls
from apps.threads import actions as threads
from apps.uploads import files, jobs
from apps.uploads.models import Upload
from tests.principals import access_of
from tests.uploads.conftest import IN_BOTH

DAY = dt.timedelta(days=1)


@pytest.fixture
def swept(db: None) -> Any:
    """`swept(upload)`: whether the worker removes it when it is a day old."""

    def sweep(upload: Upload) -> bool:
        for row in Upload.objects.all():
            row.created_at -= DAY
            row.save()
        jobs.sweep_uploads(lambda _: None)
        gone = not Upload.objects.filter(pk=upload.pk).exists()
        assert (upload.sha256 in files.stored()) is not gone
        return gone

    return sweep


@pytest.fixture
def upload(make, open_repo, carol):
    return make.upload(open_repo, by=carol)


@pytest.fixture
def by(open_repo, alice):
    return access_of(alice, open_repo)


@pytest.fixture
def thread(make, open_repo, alice, upload):
    """alice's thread, which refers to carol's upload."""
    return make.thread(open_repo, by=alice, body=address(upload))


@pytest.fixture
def readable(api, upload, carol):
    return lambda: api(carol).get(f"/uploads/{upload.uuid}").status == 200


def address(upload: Upload) -> str:
    return f"See ![it](http://testserver/api/v1/uploads/{str(upload.uuid).upper()}/content)."


@IN_BOTH
def test_what_no_text_refers_to_goes_after_a_day(upload, swept, readable, make, open_repo, alice):
    make.thread(open_repo, by=alice, body=str(upload.uuid))
    jobs.sweep_uploads(lambda _: None)
    assert readable()
    assert swept(upload)
    assert not readable()


@IN_BOTH
def test_a_thread_keeps_it_until_it_is_deleted(upload, swept, readable, thread, by):
    assert not swept(upload)
    threads.update_thread(access=by, thread=thread, body="Never mind.")
    assert not swept(upload)  # the first version still refers to it
    threads.delete_thread(access=by, thread=thread)
    assert not readable()
    assert swept(upload)


@pytest.mark.parametrize("where", ["body", "links"])
def test_a_reply_keeps_it_until_it_is_deleted(
    upload, swept, readable, make, open_repo, alice, by, where
):
    url = address(upload).partition("(")[2].partition(")")[0]
    links = [{"kind": "url", "target": url}]
    text = {"body": address(upload)} if where == "body" else {"links": links}
    thread = make.thread(open_repo, by=alice)
    reply = make.reply(thread, by=alice)
    assert not Upload.objects.get().is_used
    threads.update_reply(access=by, reply=reply, **text)
    threads.update_reply(access=by, reply=reply, body="Never mind.", links=[])
    assert not swept(upload)
    threads.delete_reply(access=by, reply=reply)
    assert not readable()
    assert swept(upload)


def test_a_deleted_thread_takes_those_of_its_replies_along(upload, swept, make, thread, alice, by):
    for _ in range(2):
        make.reply(thread, by=alice, body=address(upload))
    threads.delete_thread(access=by, thread=thread)
    assert swept(upload)


def test_another_text_that_refers_to_it_keeps_it(
    upload, swept, readable, make, open_repo, alice, by
):
    thread = make.thread(open_repo, by=alice)
    first, _ = (make.reply(thread, by=alice, body=address(upload)) for _ in range(2))
    threads.delete_reply(access=by, reply=first)
    assert readable()
    assert not swept(upload)


def test_a_pull_and_a_review_keep_it(upload, swept, readable, make, open_repo, alice, by):
    pull = make.pull(open_repo, by=alice, body=address(upload))
    review = make.review(pull, by=alice, status="commented", body=address(upload))
    assert not swept(upload)
    Upload.objects.get().uses.filter(text=pull.thread.uuid).delete()
    assert not swept(upload)
    pulls.delete_review(access=by, review=review)
    assert not readable()
    assert swept(upload)


def test_a_review_that_is_edited_keeps_what_it_comes_to_name(
    upload, swept, make, open_repo, alice, by
):
    pull = make.pull(open_repo, by=alice)
    review = make.review(pull, by=alice, status="commented")
    pulls.update_review(access=by, review=review, body=address(upload))
    assert not swept(upload)


def test_a_text_of_another_repository_keeps_nothing(upload, swept, make, acme, alice):
    other = make.repo(acme, "other", by=alice)
    make.thread(other, by=alice, body=address(upload))
    assert swept(upload)


def test_what_was_deleted_does_not_come_back(upload, swept, readable, make, open_repo, carol):
    thread = make.thread(open_repo, by=carol, body=address(upload))
    threads.delete_thread(access=access_of(carol, open_repo), thread=thread)
    make.thread(open_repo, by=carol, body=address(upload))
    assert not readable()
    assert swept(upload)


def test_nobody_else_can_end_what_waits_for_the_text_of_who_uploaded_it(
    upload, swept, readable, make, open_repo, alice, carol, by
):
    """Anybody with its address could otherwise delete it, by writing a text with it and deleting
    that.
    """
    threads.delete_thread(access=by, thread=make.thread(open_repo, by=alice, body=address(upload)))
    assert readable()
    jobs.sweep_uploads(lambda _: None)
    assert readable()
    thread = make.thread(open_repo, by=alice)
    reply = make.reply(thread, by=carol, body=address(upload))
    other = make.reply(thread, by=alice, body=address(upload))
    threads.delete_reply(access=access_of(carol, open_repo), reply=reply)
    assert readable() and not swept(upload)
    threads.delete_reply(access=by, reply=other)
    assert not readable()


def test_what_its_own_person_never_used_goes_after_its_first_day(
    upload, swept, readable, thread, by
):
    threads.delete_thread(access=by, thread=thread)
    assert swept(upload)
    assert not readable()


@pytest.mark.parametrize("sort", ["thread", "edited thread", "reply", "pull", "review", "edited"])
def test_each_sort_of_text_counts_as_that_of_who_wrote_it(
    upload, readable, make, open_repo, alice, carol, sort
):
    own, text = access_of(carol, open_repo), address(upload)
    staying = make.thread(open_repo, by=alice)
    if sort in {"thread", "edited thread"}:
        thread = make.thread(open_repo, by=carol, body=text if sort == "thread" else "")
        if sort != "thread":
            threads.update_thread(access=own, thread=thread, body=text)
    elif sort == "reply":
        make.reply(staying, by=carol, body=text)
    else:
        pull = make.pull(open_repo, by=carol, body=text if sort == "pull" else "")
        if sort != "pull":
            body = text if sort == "review" else ""
            review = make.review(pull, by=carol, status="commented", body=body)
            if sort == "edited":
                pulls.update_review(access=own, review=review, body=text)
    row = Upload.objects.get()
    assert (row.is_used, row.is_placed, readable()) == (True, True, True)


@IN_BOTH
def test_the_file_stays_for_another_upload_of_the_same(upload, make, open_repo, alice):
    later = make.upload(open_repo, by=alice)
    make.thread(open_repo, by=alice, body=address(later))
    Upload.objects.update(created_at=upload.created_at - DAY)
    jobs.sweep_uploads(lambda _: None)
    assert [row.pk for row in Upload.objects.all()] == [later.pk]
    assert list(files.stored()) == [upload.sha256]


def test_a_text_without_uploads_costs_no_query_more(make, open_repo, alice):
    thread = make.thread(open_repo, by=alice)
    with CaptureQueriesContext(connection) as captured:
        make.reply(thread, by=alice, body="/uploads/ is no address of one")
    assert not [query for query in captured.captured_queries if "uploads_upload" in query["sql"]]


@IN_BOTH
def test_the_worker_works_in_batches_and_tells_what_it_did(make, open_repo, alice, monkeypatch):
    monkeypatch.setattr(jobs, "BATCH", 2)
    made = [make.upload(open_repo, by=alice, content=b"%d" % number) for number in range(5)]
    Upload.objects.update(created_at=made[0].created_at - DAY)
    said: list[str] = []
    jobs.sweep_uploads(said.append)
    jobs.sweep_uploads(said.append)
    assert said == ["5 unused uploads and 5 files removed"]


def test_finding_the_unused_reads_an_index(db):
    old = Upload.objects.filter(
        is_used=False, created_at__lt=dt.datetime(2020, 1, 1, tzinfo=dt.UTC)
    )
    if connection.vendor == "sqlite":
        assert "upload_unused" in old.order_by("created_at").explain()
