"""The worker runs each job of `settings.JOBS`."""

from __future__ import annotations

import datetime as dt
import os
from pathlib import Path
from uuid import UUID

import pytest
from django.contrib.sessions.models import Session
from django.core import mail
from django.utils import timezone

from apps.accounts.models import ApiToken, Deletion, User
from apps.events.audit import AuditEntry
from apps.idempotency.models import KeyedRequest
from apps.jobs import worker
from apps.pulls.actions import set_auto_merge
from apps.pulls.models import Pull, PullVersion
from apps.repos.actions import create_fork, delete_repo
from apps.repos.models import UNREAD, CommitPush, Fork, ForkStatus, NamedCommit, PushJournal, Repo
from apps.threads.anchors import Anchor
from apps.uploads.models import Upload
from apps.webhooks.models import Delivery, DeliveryStatus, Webhook
from tests.gitclient import Clone
from tests.jobs import test_worker
from tests.principals import access_of, space_access_of

EMPTIED = (PushJournal, KeyedRequest, Session, Deletion, Delivery)
DAY = dt.timedelta(days=1)


def of_no_repository(name: UUID) -> Path:
    """An old folder without a row."""
    folder = Repo(uuid=name).git.path
    folder.mkdir(parents=True)
    os.utime(folder, (0, 0))
    return folder


def expire(token: ApiToken, repo: Repo) -> None:
    """Expired rows of requests and sessions, an old delivery, and old entries of the audit log; the
    token expires in a day.
    """
    AuditEntry.objects.update(created_at=timezone.now() - 401 * DAY)
    ApiToken.objects.filter(pk=token.pk).update(expires_at=timezone.now() + DAY)
    over = {"created_at": timezone.now() - DAY, "leased_until": timezone.now()}
    KeyedRequest.objects.create(digest="0" * 64, body="0" * 64, **over)
    Session.objects.create(session_key="old", expire_date=timezone.now() - DAY)
    values = {"repo": repo, "created_by": token.user, "cursor_event_id": 0}
    hook = Webhook.objects.create(url="https://ci.example.org", **values)
    of_month, status = timezone.now() - 31 * DAY, DeliveryStatus.FAILED
    Delivery.objects.create(webhook=hook, status=status, duration_ms=1, created_at=of_month)


def deleted_long_ago(repo: Repo, by: User) -> Repo:
    delete_repo(access=access_of(by, repo), confirm=repo.full_name)
    Deletion.objects.update(purge_at=timezone.now() - DAY)
    return repo


def pushed_long_ago(repo, by):
    """The journal of a push that has died."""
    gone = {"full_name": "refs/heads/gone", "old": "1" * 40, "new": "2" * 40, "actor": by}
    PushJournal.objects.create(repo=repo, push=repo.uuid, **gone)
    PushJournal.objects.update(created_at=timezone.now() - DAY)


def due_comment(reply, sha):
    """Make a reply a comment on a line that the worker has to look for."""
    lines = {"commit_sha": sha, "path": b"gone", "start_line": 1, "line": 1}
    Anchor.objects.create(
        reply=reply,
        thread=reply.thread,
        number=reply.number,
        due_at=timezone.now() - DAY,
        **lines,
    )


def run_worker():
    test_worker.stop.clear()
    worker.run(test_worker.stop)


@pytest.mark.django_db(transaction=True)
def test_the_worker_does_each_kind_of_work(make, acme, alice, bob, settings, tmp_path):
    settings.SENDS_MAIL = True
    User.objects.filter(pk=bob.pk).update(email="bob@example.org", wants_mail=True)
    repo = make.repo(acme, "api", by=alice, visibility="public")
    clone = Clone(tmp_path / "clone", repo, alice)
    sha = clone.commit("main", {"a": "1\n"})
    make.thread(repo, by=alice, body=f"@bob: {sha}")
    clone.push("main", "main:topic")
    pull = make.pull(repo, by=alice, source="main", target="topic")
    set_auto_merge(access=access_of(alice, repo), pull=pull)
    PullVersion.objects.update(due_at=timezone.now() - DAY)
    due_comment(make.reply(pull.thread, by=alice), sha)
    make.upload(repo, by=alice)
    Upload.objects.update(created_at=timezone.now() - DAY)
    create_fork(access=access_of(bob, repo), into=space_access_of(bob, bob))
    Repo.objects.update(
        created_at=timezone.now() - DAY, pushed_at=timezone.now() - DAY, head_due=True
    )
    repo.git.set_head_branch("other")
    repo.refs.update(peeled_sha=None)
    pushed_long_ago(repo, alice)
    folder = of_no_repository(alice.uuid)
    expire(make.expiring_token(alice), repo)
    old = deleted_long_ago(make.repo(acme, "old", by=alice), alice)
    settings.JOBS = [*settings.JOBS, test_worker.row("last")]
    run_worker()
    assert [message.to for message in mail.outbox] == [["bob@example.org"]]
    assert NamedCommit.objects.get().sha == CommitPush.objects.get(pushed_by=alice).sha == sha
    assert not (Upload.objects.exists() or Pull.objects.exclude(has_conflict=False))
    assert not [*Pull.objects.exclude(auto_merge_due_at=None), *Anchor.objects.exclude(due_at=None)]
    assert Fork.objects.get().status == ForkStatus.COMPLETED
    assert Repo.objects.get(pk=repo.pk).tidied_at is not None
    assert not (any(rows.objects.exists() for rows in EMPTIED) or ApiToken.objects.to_warn())
    assert (
        not (folder.exists() or old.git.path.exists() or repo.refs.filter(UNREAD))
        and repo.git.head_branch() == "main"
    )
    old_entries = AuditEntry.objects.filter(created_at__lt=timezone.now() - 400 * DAY)
    assert not [*old_entries, *PullVersion.objects.exclude(due_at=None, changes_due_at=None)]
    assert len(settings.JOBS) == 22  # this test covers each of them, and the last stops the worker
