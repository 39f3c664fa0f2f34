"""Concurrent uploads, texts and sweeps."""

from __future__ import annotations

import pytest
from django.db import transaction

from apps.core.errors import ApiError
from apps.core.locks import hold
from apps.threads import actions as threads
from apps.uploads import actions, files, jobs
from apps.uploads.models import Upload, remove_file_without_row
from tests.principals import access_of
from tests.races import Aside, Outcome, at_once
from tests.uploads.conftest import IN_BOTH
from tests.uploads.test_uses import DAY, address

pytestmark = [pytest.mark.django_db(transaction=True), IN_BOTH]


def test_the_same_file_from_many_at_once_is_one(make, open_repo, alice, bob, carol):
    people = [alice, bob, carol] * 2
    calls = [
        lambda who=person: Outcome(lambda: make.upload(open_repo, by=who)) for person in people
    ]
    assert at_once(*calls) == {(200, None): 6}
    assert Upload.objects.count() == 6
    assert len(list(files.stored())) == 1


def test_nobody_gets_more_than_their_share_by_haste(make, carol, settings):
    """The limit also holds for concurrent uploads to several repositories."""
    settings.UPLOAD_BYTES_PER_DAY = 20
    repos = [make.repo(carol, by=carol) for _ in range(6)]
    calls = [lambda to=repo: Outcome(lambda: make.upload(to, by=carol)) for repo in repos]
    assert at_once(*calls) == {(200, None): 3, (429, "upload_limit_reached"): 3}


def test_a_file_stays_whose_row_is_being_written(make, open_repo, carol):
    """The sweep finds no row, waits for the upload, checks again, and keeps the file."""
    digest = make.upload(open_repo, by=carol).sha256
    Upload.objects.all().delete()
    with transaction.atomic():
        make.upload(open_repo, by=carol)
        sweep = Aside(lambda: remove_file_without_row(digest))
        sweep.begin()
    sweep.join(60)
    assert list(files.stored()) == [digest]


def test_an_upload_that_waits_for_the_sweep_has_its_file(make, open_repo, carol):
    """The sweep removes the file that the upload has written, whose row is not there yet."""
    digest = make.upload(open_repo, by=carol).sha256
    Upload.objects.all().delete()
    files.remove(digest)
    with transaction.atomic():
        hold(files.lock_name(digest))
        upload = Aside(lambda: make.upload(open_repo, by=carol))
        upload.begin()
        assert list(files.stored()) == [digest]
        remove_file_without_row(digest)
        assert not list(files.stored())
    upload.join(60)
    assert Upload.objects.get().sha256 == digest
    assert list(files.stored()) == [digest]


def test_a_text_that_comes_first_keeps_its_upload(make, open_repo, alice):
    made = make.upload(open_repo, by=alice)
    Upload.objects.update(created_at=made.created_at - DAY)
    with transaction.atomic():
        make.thread(open_repo, by=alice, body=address(made))
        removal = Aside(jobs.remove_unused)
        removal.begin()
    removal.join(60)
    assert Upload.objects.get().is_used


def test_a_text_that_comes_second_is_written_without_it(make, open_repo, alice):
    made = make.upload(open_repo, by=alice)
    Upload.objects.update(created_at=made.created_at - DAY)
    with transaction.atomic():
        jobs.remove_unused()
        text = Aside(lambda: make.thread(open_repo, by=alice, body=address(made)))
        text.begin()
    text.join(60)
    assert open_repo.threads.count() == 1
    assert not Upload.objects.exists()


def test_of_two_texts_that_are_deleted_at_once_the_last_takes_it_along(make, open_repo, alice):
    made = make.upload(open_repo, by=alice)
    rows = [make.thread(open_repo, by=alice, body=address(made)) for _ in range(2)]
    by = access_of(alice, open_repo)
    calls = [
        lambda t=row: Outcome(lambda: threads.delete_thread(access=by, thread=t)) for row in rows
    ]
    assert at_once(*calls) == {(200, None): 2}
    assert Upload.objects.get().deleted_at is not None


def test_an_upload_to_a_repository_that_is_deleted_meanwhile_is_404(make, open_repo, alice):
    by = access_of(alice, open_repo)
    type(open_repo).objects.all().delete()
    with pytest.raises(ApiError) as refused:
        actions.create_upload(access=by, filename="a.txt", content=b"a")
    assert refused.value.status == 404
    assert not list(files.stored())
