"""Deleting an account, `DELETE /users/self` and, by staff, `DELETE /users/{username}`."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from django.db import connection
from django.utils import timezone

from apps.accounts.actions import create_invite, restore, update_user
from apps.accounts.models import Deletion, Invite, User
from apps.core.errors import Conflict
from apps.events.models import Event
from apps.repos.actions import update_protection
from apps.repos.jobs import ignore
from apps.repos.models import Repo
from apps.repos.purge import purge, purge_deleted
from apps.site.actions import create_rate_limit
from apps.teams.actions import add_member
from apps.teams.models import Member
from tests.api import Api
from tests.dying import deaths_until_done
from tests.factories import MemberFactory, TeamFactory, UserFactory
from tests.gitclient import Clone
from tests.principals import access_of, principal_of, team_access_of
from tests.repos.test_deletion import all_due, dump, with_uploads_in

NAME, SHOWN, ADDRESS = "quagga", "Quentin Quill", "quill@example.net"


@pytest.fixture
def quagga(make: Any) -> User:
    """A person whose names and address occur nowhere else."""
    user = UserFactory.create(username=NAME, display_name=SHOWN, email=ADDRESS)
    return make.with_token(user)  # type: ignore[no-any-return]


def delete_own(client: Api) -> Any:
    return client.delete(f"/users/self?confirm={NAME}").gives(202)


def test_a_person_deletes_their_account(api, make, quagga, alice, client, events):
    repo = make.repo(quagga, "own", by=quagga, visibility="public")
    client.force_login(quagga)
    with events():
        api(quagga).delete("/users/self").fails(422, "validation_failed")
        api(quagga).delete("/users/self?confirm=alice").fails(422, "validation_failed")
        api(alice).delete(f"/users/{NAME}?confirm={NAME}").fails(403, "staff_required")
    with events("user-deleted"):
        assert delete_own(api(quagga))["path"] == f"users/{NAME}"
    api(quagga).get("/users/self").fails(401, "invalid_token")
    assert client.get("/settings").status_code == 302, "the session goes on"
    for path in (f"/users/{NAME}", f"/users/{NAME}/activity", repo.api_path):
        api(alice).get(path).fails(404, "not_found")
    assert NAME not in str(api(alice).get("/users").gives())
    assert not api(alice).get(f"/suggest-users?name={NAME}").gives()["results"]
    api(alice).get(f"/events?scope=user:{NAME}").fails(404, "not_found")
    assert api(alice).get(f"/check-username?username={NAME}").status == 409


def test_nobody_leaves_a_team_without_an_owner(api, quagga, bob, sam):
    team = TeamFactory.create(slug="zoo", owner=quagga)
    refused = api(quagga).delete(f"/users/self?confirm={NAME}").fails(409, "last_owner")
    assert "zoo" in refused
    other = MemberFactory.create(team=team, user=bob, role="owner")
    User.objects.filter(pk=bob.pk).update(is_active=False)
    api(sam).delete(f"/users/{NAME}?confirm={NAME}").fails(409, "last_owner")
    User.objects.filter(pk=bob.pk).update(is_active=True)
    delete_own(api(quagga))
    assert Member.objects.filter(pk=other.pk).exists()
    assert [m["username"] for m in api(bob).get("/teams/zoo/members").gives()["results"]] == ["bob"]


def test_the_last_member_of_staff_stays(api, sam):
    api(sam).delete("/users/self?confirm=sam").fails(409, "invalid_transition")


def test_staff_restores_it(api, make, quagga, acme, alice, sam, events):
    repo = make.repo(quagga, "own", by=quagga)
    add_member(access=team_access_of(alice, acme), user=quagga, role="member")
    api(sam).delete(f"/users/{NAME}?confirm={NAME}").gives(202)
    with events("user-restored"):
        restore(principal=principal_of(sam), deletion=Deletion.objects.get())
    api(quagga).get("/users/self").fails(401, "invalid_token")
    user = User.objects.get(pk=quagga.pk)
    assert (user.is_active, user.password) == (True, quagga.password)
    assert user.memberships.count() == 1
    api(sam).get(repo.api_path).gives()


def traces(folder: Path) -> Iterator[str]:
    """The tables and files with a name or the address of the person, ignoring case."""
    words = [word.lower() for word in (NAME, SHOWN, ADDRESS)]
    yield from (line for line in dump().lower().splitlines() if any(word in line for word in words))
    if connection.vendor == "sqlite":
        whole = "\n".join(connection.connection.iterdump()).lower()
        yield from (word for word in words if word in whole)
    for file in filter(Path.is_file, folder.rglob("*")):
        content = file.read_bytes().lower()
        yield from (str(file) for word in words if word.encode() in content)


def live(make, quagga, acme, alice, sam) -> list[Repo]:
    """Rows of all kinds with the person; returns the repositories that go with them."""
    own = make.repo(quagga, "own", by=quagga)
    make.thread(own, by=quagga, title="Mine")
    add_member(access=team_access_of(alice, acme), user=quagga, role="admin")
    shared = make.repo(acme, "api", by=alice)
    protection = make.protection(shared, by=quagga, approver=quagga)
    named: dict[str, Any] = {"status_reporters": [NAME], "required_statuses": ["ci"]}
    update_protection(access=access_of(alice, shared), protection=protection, **named)
    thread = make.thread(shared, by=quagga, title="Kept", body="@alice")
    make.reply(thread, by=quagga)
    make.upload(shared, by=quagga)
    make.review(make.pull(shared, by=alice), by=quagga)
    principal = principal_of(sam)
    update_user(principal=principal_of(quagga), user=quagga, display_name=f"{SHOWN} II")
    create_rate_limit(principal=principal, scope=f"user:{NAME}", max_requests=9, window_seconds=9)
    soon = timezone.now() + dt.timedelta(days=1)
    create_invite(principal=principal, expires_at=soon, email=ADDRESS)
    invite = create_invite(principal=principal, expires_at=soon, email=ADDRESS)
    Invite.objects.filter(pk=invite.pk).update(accepted_by=quagga, accepted_at=timezone.now())
    return [own]


def test_after_two_weeks_nothing_names_the_person(
    api, make, quagga, acme, alice, sam, tmp_path, settings
):
    settings.REPOSITORIES_DIR = tmp_path
    settings.STORAGES = with_uploads_in(tmp_path / "uploads", settings)
    [own] = live(make, quagga, acme, alice, sam)
    Clone(tmp_path / "clone", own, alice).push_commit("main", {"a": NAME})
    api(sam).delete(f"/users/{NAME}?confirm={NAME}").gives(202)
    assert [*traces(tmp_path)], "nothing could be found"
    all_due()
    purge_deleted(ignore)
    assert [*traces(tmp_path)] == []
    placeholder = User.objects.get(pk=quagga.pk)
    name = f"deleted-account-{quagga.pk}"
    assert (placeholder.username, placeholder.has_usable_password()) == (name, False)
    thread = api(alice).get("/teams/acme/repos/api/threads/1").gives()
    assert (thread["created_by_username"], thread["title"]) == (name, "Kept")
    [review] = api(alice).get("/teams/acme/repos/api/pulls/2/reviews").gives()["results"]
    assert review["created_by_username"] == name
    [protection] = api(alice).get("/teams/acme/repos/api/protections").gives()["results"]
    assert protection["status_reporters"] == [name]
    events = api(alice).get("/events?scope=team:acme&kind=member-added").gives()["results"]
    assert name in str(events)
    api(sam).get(f"/users/{name}").fails(404, "not_found")
    purge_deleted(ignore)
    assert not Repo.objects.filter(pk=own.pk).exists()
    with pytest.raises(Conflict, match="removed for good"):
        restore(principal=principal_of(sam), deletion=Deletion.objects.get())


def test_a_purge_of_an_account_goes_on_after_a_power_failure(
    api, make, quagga, acme, alice, sam, tmp_path
):
    live(make, quagga, acme, alice, sam)
    api(sam).delete(f"/users/{NAME}?confirm={NAME}").gives(202)
    all_due()
    deletion = Deletion.objects.get()
    assert deaths_until_done(lambda: purge(deletion)) > 20
    assert [*traces(tmp_path)] == []
    assert Event.objects.filter(actor=quagga).exists()


def test_nobody_takes_the_name_of_a_deleted_account(api, sam):
    refused = api(sam).get("/check-username?username=deleted-account-7")
    assert refused.status == 409
