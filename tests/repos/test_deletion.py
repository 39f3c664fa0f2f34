"""Deleting a repository, `DELETE …/repos/{repo_slug}`; restoring and purging it."""

from __future__ import annotations

import datetime as dt
from pathlib import Path
from typing import Any

import pytest
from django.apps import apps
from django.core.management import call_command
from django.db.models import Q
from django.http import Http404
from django.utils import timezone

from apps.accounts.actions import restore
from apps.accounts.models import Deletion
from apps.core.errors import Conflict, NotFound
from apps.events.models import Event
from apps.git.protocol import ZERO, Command
from apps.pulls.actions import merge_pull
from apps.pulls.models import Pull
from apps.repos.http.push import receive
from apps.repos.jobs import ignore, make_next_fork
from apps.repos.models import Fork, Repo
from apps.repos.purge import purge, purge_deleted
from apps.uploads import files
from apps.uploads.jobs import sweep_uploads
from tests.api import Api
from tests.dying import deaths_until_done
from tests.factories import UserFactory
from tests.git.scratch import push_body
from tests.gitclient import Clone
from tests.principals import access_of, principal_of
from tests.races import Outcome, at_once

WORD = "Xylophone"
"""Stands in texts of the deleted repository only."""


def delete(client: Api, repo: Repo) -> Any:
    return client.delete(f"{repo.api_path}?confirm={repo.full_name}").gives(202)


def all_due() -> None:
    """Let the time of restorations pass."""
    Deletion.objects.update(purge_at=timezone.now() - dt.timedelta(seconds=1))


def with_uploads_in(folder: Path, settings: Any) -> dict[str, Any]:
    """The storages of the site, with uploads in this folder."""
    uploads = {**settings.STORAGES["uploads"], "OPTIONS": {"location": folder}}
    return {**settings.STORAGES, "uploads": uploads}


def fill(make, repo: Repo, alice, bob) -> None:
    """Rows of all kinds in a repository, with `WORD` in each text."""
    Repo.objects.filter(pk=repo.pk).update(visibility="internal")
    repo.refresh_from_db()
    make.protection(repo, by=alice, approver=bob)
    upload = make.upload(repo, by=alice, content=f"{WORD}\n".encode())
    thread = make.thread(
        repo, by=alice, title=WORD, body=f"{WORD} @bob ![](/uploads/{upload.uuid})"
    )
    reply = make.reply(thread, by=bob, body=WORD)
    make.reply(thread, by=alice, to=reply, body=WORD)
    pull = make.pull(repo, by=alice, title=WORD, body=WORD)
    make.review(pull, by=bob, body=WORD)


def test_it_is_deleted_only_by_its_typed_name(api, repo, alice, events):
    with events():
        api(alice).delete(repo.api_path).fails(422, "validation_failed")
        api(alice).delete(f"{repo.api_path}?confirm={repo.slug}").fails(422, "validation_failed")
        api(alice).delete(f"{repo.api_path}?confirmed=x").fails(422, "unknown_parameter")
    with events("repo-deleted") as recorded:
        record = delete(api(alice), repo)
    assert record["path"] == repo.path
    duration = dt.datetime.fromisoformat(record["purge_at"]) - dt.datetime.fromisoformat(
        record["deleted_at"]
    )
    assert duration == dt.timedelta(days=14)
    assert recorded[0].data["path"] == repo.path
    api(alice).delete(f"{repo.api_path}?confirm={repo.full_name}").fails(404, "not_found")


def test_an_archived_one_is_deleted_too(api, repo, alice):
    Repo.objects.filter(pk=repo.pk).update(is_archived=True)
    delete(api(alice), repo)


def test_it_is_gone_at_once_for_everybody(api, make, repo, alice, bob, sam, client):
    make.thread(repo, by=alice, title=WORD, body="@bob")
    upload = make.upload(repo, by=alice)
    scope = f"repo:{repo.path}"
    for person in (alice, sam):
        assert api(person).get("/threads").gives()["results"]
        api(person).get(f"/events?scope={scope}").gives()
    delete(api(alice), repo)
    for person in (alice, sam):
        caller = api(person)
        for path in (
            repo.api_path,
            f"{repo.api_path}/threads/1",
            f"/uploads/{upload.uuid}",
            f"/events?scope={scope}",
        ):
            caller.get(path).fails(404, "not_found")
        caller.put(repo.api_path, name="x", slug=repo.slug).fails(404, "not_found")
        assert not caller.get("/threads").gives()["results"]
        assert not caller.get(f"/{repo.owner.path}/repos").gives()["results"]
        client.force_login(person)
        assert client.get(f"/{repo.path}").status_code == 404
        assert WORD not in client.get("/activity").content.decode()
    assert not api(bob).get("/pings").gives()["results"]


def test_its_events_leave_the_lists_of_its_team(api, make, team_repo, acme, alice, client):
    make.thread(team_repo, by=alice, title=WORD)
    delete(api(alice), team_repo)
    listed = api(alice).get("/events?scope=team:acme").gives()["results"]
    assert [event["kind"] for event in listed] == ["repo-deleted"]
    client.force_login(alice)
    for page in ("/teams/acme/~activity", "/activity", "/"):
        shown = client.get(page).content.decode()
        assert WORD not in shown
        assert "deleted the repository" in shown


def test_its_address_stays_reserved(api, repo, alice):
    delete(api(alice), repo)
    again = {"name": "Again", "slug": repo.slug}
    detail = api(alice).post(f"/{repo.owner.path}/repos", **again).fails(409, "slug_taken")
    assert "deleted recently" in detail
    assert api(alice).get(f"/{repo.owner.path}/check-repo-slug?slug={repo.slug}").status == 409


def test_staff_restores_it(api, make, repo, alice, sam, events):
    make.thread(repo, by=alice, title=WORD)
    delete(api(alice), repo)
    deletion, stale = Deletion.objects.get(), Deletion.objects.get()
    with events("repo-restored"):
        restore(principal=principal_of(sam), deletion=deletion)
    assert api(alice).get(f"{repo.api_path}/threads/1").gives()["title"] == WORD
    with pytest.raises(Http404):
        restore(principal=principal_of(sam), deletion=stale)


def test_an_administrator_restores_it(api, repo, alice, capsys):
    delete(api(alice), repo)
    call_command("restore_deleted")
    assert f"{repo.path} until " in capsys.readouterr().out
    call_command("restore_deleted", repo.path)
    assert repo.path in capsys.readouterr().out
    api(alice).get(repo.api_path).gives()


def test_a_deleted_fork_makes_room_for_another(api, make, alice, carol, sam):
    upstream = make.repo(alice, "api", by=alice, visibility="public")
    api(carol).post(f"{upstream.api_path}/forks").gives(201)
    make_next_fork()
    api(carol).post(f"{upstream.api_path}/forks").fails(409, "fork_exists")
    first = Repo.objects.get(owner_user=carol)
    delete(api(carol), first)
    assert not api(carol).get(f"{upstream.api_path}/forks").gives()["results"]
    second = api(carol).post(f"{upstream.api_path}/forks").gives(201)
    make_next_fork()
    forked = api(carol).get(f"/forks/{second['uuid']}").gives()
    assert forked["repo_path"] == "users/carol/api-2"
    with pytest.raises(Conflict, match="another fork"):
        restore(principal=principal_of(sam), deletion=Deletion.objects.get())
    delete(api(carol), Repo.objects.get(slug="api-2"))
    restore(principal=principal_of(sam), deletion=Deletion.objects.earliest("pk"))
    assert Fork.objects.get(repo=first).status == "completed"


def test_pulls_of_a_deleted_fork_stay(api, make, alice, carol, tmp_path):
    upstream = make.repo(alice, "api", by=alice, visibility="public")
    Clone(tmp_path / "one", upstream, alice).push_commit("main", {"a": "1\n"})
    api(carol).post(f"{upstream.api_path}/forks").gives(201)
    make_next_fork()
    fork = Repo.objects.get(owner_user=carol)
    clone = Clone(tmp_path / "two", fork, carol)
    clone.push_commit("topic", {"a": "2\n"}, onto=str(fork.branch_sha("main")))
    sent = {"title": "x", "body": "", "source_branch": "carol:topic", "target_branch": "main"}
    number = api(carol).post(f"{upstream.api_path}/pulls", **sent).gives(201)["number"]
    pull = f"{upstream.api_path}/pulls/{number}"
    before = api(alice).get(pull).gives()
    delete(api(carol), fork)
    purged = False
    for purged in (False, True):
        if purged:
            all_due()
            purge_deleted(ignore)
        after = api(alice).get(pull).gives()
        assert (after["head_sha"], after["source_repo_path"]) == (before["head_sha"], None)
        assert len(api(alice).get(f"{pull}/files").gives()["results"]) == 1
    assert api(alice).get(upstream.api_path).gives()["fork_count"] == 0
    api(alice).post(f"{pull}/merge").gives(200)


def dump() -> str:
    """The whole database as text."""
    rows = (f"{row!r}" for model in apps.get_models() for row in model._base_manager.values())
    return "\n".join(rows)


def test_after_two_weeks_nothing_of_it_is_left(api, make, repo, alice, bob, tmp_path, settings):
    settings.STORAGES = with_uploads_in(tmp_path / "uploads", settings)
    fill(make, repo, alice, bob)
    Clone(tmp_path / "clone", repo, alice).push_commit("main", {"a": WORD})
    other = make.repo(alice, "other", by=alice)
    make.reply(make.thread(other, by=alice), by=alice)
    before = dump()
    delete(api(alice), repo)
    purge_deleted(ignore)
    assert repo.git.path.exists(), "purged too early"
    assert WORD in dump()
    all_due()
    purge_deleted(ignore)
    sweep_uploads(ignore)
    assert WORD in before
    assert WORD not in dump()
    assert not repo.git.path.exists()
    assert not list(files.stored())
    assert not Deletion.objects.exists()
    assert not Event.objects.filter(repo_id=repo.pk).exists()
    assert Event.objects.filter(kind="reply-created").count() == 1
    api(alice).post(f"/{repo.owner.path}/repos", name="Again", slug=repo.slug).gives(201)


def test_a_purge_goes_on_after_a_power_failure(api, make, team_repo, alice, bob):
    """Killed at statement after statement, it ends in the end, and nothing else has gone."""
    fill(make, team_repo, alice, bob)
    fork = make.repo(alice, "fork", by=alice)
    Repo.objects.filter(pk=fork.pk).update(upstream=team_repo)
    delete(api(alice), team_repo)
    all_due()
    deletion = Deletion.objects.get()
    assert deaths_until_done(lambda: purge(deletion)) > 20
    assert not team_repo.git.path.exists()
    assert not Repo.objects.filter(Q(pk=team_repo.pk) | Q(upstream=team_repo)).exists()
    assert not Deletion.objects.exists()
    assert fork.git.path.exists()


def test_a_purge_that_has_begun_cannot_be_undone(api, repo, alice, sam):
    delete(api(alice), repo)
    deletion = Deletion.objects.get()
    Deletion.objects.update(is_purging=True)
    with pytest.raises(Conflict, match="removed for good"):
        restore(principal=principal_of(sam), deletion=deletion)


def test_a_restored_one_is_not_purged(api, repo, alice, sam):
    delete(api(alice), repo)
    deletion = Deletion.objects.get()
    restore(principal=principal_of(sam), deletion=Deletion.objects.get())
    purge(deletion)
    api(alice).get(repo.api_path).gives()
    assert repo.git.path.exists()


@pytest.mark.django_db(transaction=True)
def test_of_two_that_delete_it_at_once_one_does(api, make, alice):
    repo = make.repo(alice, "api", by=alice)
    path = f"{repo.api_path}?confirm=alice/api"
    callers = [api(alice), api(alice)]
    answers = at_once(*(lambda c=c: c.delete(path) for c in callers))
    assert answers == {(202, None): 1, (404, "not_found"): 1}
    assert Event.objects.filter(kind="repo-deleted").count() == 1


@pytest.mark.django_db(transaction=True)
def test_a_restoration_during_the_purge_wins_or_is_refused(api, make, alice, sam):
    repo = make.repo(alice, "api", by=alice)
    make.thread(repo, by=alice)
    delete(api(alice), repo)
    all_due()
    deletion, staff = Deletion.objects.get(), principal_of(sam)
    restored = at_once(
        lambda: Outcome(lambda: restore(principal=staff, deletion=deletion)),
        lambda: Outcome(lambda: purge_deleted(ignore)),
    )
    kept = Repo.objects.filter(pk=repo.pk, deletion=None, threads__number=1).exists()
    assert kept == (restored[200, None] == 2)
    assert repo.git.path.exists() == kept


def test_every_table_with_a_repository_is_purged() -> None:
    """A column with the id of a repository that is no foreign key has to be purged by name. Entries
    of the audit log stay.
    """
    named = {
        model._meta.label
        for model in apps.get_models()
        for field in model._meta.concrete_fields
        if field.attname in {"repo_id", "thread_id"} and not field.is_relation
    }
    purged = {"events.Event", "events.ActivityCount", "events.PingMail"}
    assert named == purged | {"events.AuditEntry"}


@pytest.mark.django_db(transaction=True)
def test_a_push_under_way_moves_nothing(api, team_repo, other, alice, bob):
    access, tip = access_of(bob, team_repo), other.commit({})
    body = push_body(other, [Command(ZERO, tip, "refs/heads/main")])
    delete(api(alice), team_repo)
    with pytest.raises((NotFound, Http404)):
        receive(access=access, body=iter([body]))
    assert not team_repo.git.refs()
    restore(
        principal=principal_of(UserFactory.create(username="sue", staff=True)),
        deletion=Deletion.objects.get(),
    )
    receive(access=access, body=iter([body]))
    assert team_repo.git.refs() == {"refs/heads/main": tip}


@pytest.mark.django_db(transaction=True)
def test_a_merge_under_way_moves_nothing(api, make, team_repo, alice, bob, tmp_path):
    clone = Clone(tmp_path / "clone", team_repo, alice)
    clone.push_commit("main", {"a": "1\n"})
    clone.push_commit("feature", {"a": "2\n"}, onto="main")
    pull, access = make.pull(team_repo, by=bob), access_of(bob, team_repo)
    before = team_repo.git.refs()
    delete(api(alice), team_repo)
    with pytest.raises((NotFound, Http404)):
        merge_pull(access=access, pull=pull)
    assert team_repo.git.refs() == before
    assert Pull.objects.get(pk=pull.pk).status == "open"


def test_a_fork_under_way_fails(api, make, alice, carol):
    upstream = make.repo(alice, "api", by=alice, visibility="public")
    fork = api(carol).post(f"{upstream.api_path}/forks").gives(201)
    delete(api(alice), upstream)
    make_next_fork()
    assert api(carol).get(f"/forks/{fork['uuid']}").gives()["status"] == "failed"
    assert not Repo.objects.filter(owner_user=carol).exists()


def test_an_upstream_hides_its_deleted_fork_too(api, make, alice, carol, sam):
    upstream = make.repo(alice, "api", by=alice, visibility="public")
    api(carol).post(f"{upstream.api_path}/forks").gives(201)
    make_next_fork()
    fork = Repo.objects.get(owner_user=carol)
    delete(api(carol), fork)
    hidden = {"name": "Api", "slug": "api", "visibility": "private"}
    api(alice).put(upstream.api_path, **hidden).gives()
    restore(principal=principal_of(sam), deletion=Deletion.objects.get())
    assert api(carol).get(fork.api_path).gives()["visibility"] == "private"
