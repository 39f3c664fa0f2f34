"""`/audit` and `/teams/{team_slug}/audit`: entries, filters, pages, the export, and their end."""

from __future__ import annotations

import datetime as dt
import json
from typing import Any

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from apps.accounts.actions import create_invite, create_token, update_user
from apps.accounts.models import User
from apps.events.audit import AuditEntry
from apps.events.jobs import prune_audit
from apps.events.models import Event
from apps.events.record import rename_person
from apps.repos.actions import create_protection, update_protection, update_repo
from apps.site.actions import create_rate_limit, update_rate_limit, update_site_settings
from apps.teams.actions import add_member, create_bot, create_bot_token, delete_bot, update_member
from apps.teams.models import Team
from apps.webhooks.actions import create_webhook, delete_webhook, update_webhook
from tests.principals import access_of, principal_of, team_access_of

pytestmark = pytest.mark.once


def latest() -> AuditEntry:
    return AuditEntry.objects.latest("id")


def entry(**values: Any) -> AuditEntry:
    """A row with these values."""
    fixed: dict[str, Any] = {"kind": "team-updated", "target": {"kind": "team"}, "data": {}}
    return AuditEntry.objects.create(**{**fixed, "created_at": timezone.now(), **values})


def ids(page: Any) -> list[int]:
    return [record["id"] for record in page["results"]]


# Values before and after


def test_settings_of_the_site_have_their_values_in_the_audit_log_alone(sam: User) -> None:
    update_site_settings(principal=principal_of(sam), signups_enabled=False)
    assert latest().data == {
        "changed": ["signups_enabled"],
        "before": {"signups_enabled": True},
        "after": {"signups_enabled": False},
    }
    assert Event.objects.latest("id").data == {"changed": ["signups_enabled"]}


def test_rate_limits_have_former_values(sam: User) -> None:
    staff = principal_of(sam)
    limit = create_rate_limit(principal=staff, scope="user:sam", max_requests=5, window_seconds=60)
    update_rate_limit(principal=staff, rate_limit=limit, max_requests=7)
    data = latest().data
    assert (data["max_requests"], data["before"], data["after"]) == (
        7,
        {"max_requests": 5},
        {"max_requests": 7},
    )


def test_members_repositories_and_protections_have_former_values(
    make: Any, acme: Team, alice: User, carol: User
) -> None:
    owner = team_access_of(alice, acme)
    member = add_member(access=owner, user=carol, role="viewer")
    update_member(access=owner, member=member, role="admin")
    assert (latest().person_id, latest().team_id) == (carol.pk, acme.pk)
    assert latest().data == {"username": "carol", "role": "admin", "before": "viewer"}
    repo = make.repo(acme, "api", by=alice)
    update_repo(access=access_of(alice, repo), visibility="public")
    assert (latest().data["before"], latest().data["after"]) == (
        {"visibility": "private"},
        {"visibility": "public"},
    )
    protection = create_protection(access=access_of(alice, repo), branch="main")
    update_protection(access=access_of(alice, repo), protection=protection, required_approvals=2)
    assert latest().data["before"]["required_approvals"] == 1
    assert (latest().team_id, latest().repo_id) == (acme.pk, repo.pk)


def test_of_an_address_only_the_change_is_told(sam: User, alice: User) -> None:
    update_user(principal=principal_of(sam), user=alice, email="new@example.org", is_staff=True)
    assert latest().data == {
        "changed": ["email", "is_staff"],
        "before": {"is_staff": False},
        "after": {"is_staff": True},
    }
    assert latest().person_id == alice.pk


def test_an_invite_is_named_without_its_link(sam: User) -> None:
    tomorrow = timezone.now() + dt.timedelta(days=1)
    invite = create_invite(principal=principal_of(sam), expires_at=tomorrow)
    assert latest().target == {"kind": "invite", "id": invite.pk}
    assert Event.objects.latest("id").target == {"kind": "invite", "uuid": str(invite.uuid)}


# Entries of a team


def test_bots_their_tokens_and_webhooks_belong_to_the_team(acme: Team, alice: User) -> None:
    owner = team_access_of(alice, acme)
    bot = create_bot(access=owner, username="ci")
    create_bot_token(access=owner, bot=bot, name="deploy")
    webhook = create_webhook(access=owner, url="https://ci.example.org/x")
    update_webhook(access=owner, webhook=webhook, description="Builds", url="https://a.example/y")
    assert latest().data == {
        "changed": ["url", "description"],
        "before": {"description": ""},
        "after": {"description": "Builds"},
    }
    delete_webhook(access=owner, webhook=webhook)
    delete_bot(access=owner, bot=bot)
    rows = AuditEntry.objects.filter(team_id=acme.pk).order_by("id")
    assert [row.kind for row in rows] == [
        "user-joined",
        "member-added",
        "token-created",
        "webhook-created",
        "webhook-updated",
        "webhook-deleted",
        "token-revoked",
        "member-removed",
        "user-deactivated",
    ]


def test_owners_read_their_team_and_nobody_else_does(
    api: Any, acme: Team, alice: User, bob: User, carol: User, sam: User
) -> None:
    path, mine = "/teams/acme/audit", entry(team_id=acme.pk, actor=alice)
    entry(team_id=acme.pk + 1)
    entry(team_id=None)
    for end in ("", "/export"):
        api(bob).get(path + end).fails(403, "role_required")
        api(carol).get(path + end).fails(403, "forbidden")
        api(alice).get("/audit" + end).fails(403, "staff_required")
    assert ids(api(alice).get(path).gives()) == [mine.pk]
    assert ids(api(sam).get(path).gives()) == [mine.pk]
    assert api(alice).get(f"{path}?target=user:carol").gives()["results"] == []


def test_a_record_names_the_token_and_the_origin(api: Any, acme: Team, alice: User) -> None:
    client = api(alice)
    client.headers |= {"User-Agent": "x" * 300}
    client.patch("/teams/acme", name="Acme 2").gives()
    [record] = client.get("/teams/acme/audit?kind=team-updated").gives()["results"]
    token = alice.tokens.get()
    assert (record["token_uuid"], record["token_name"]) == (str(token.uuid), token.name)
    assert (record["address"], record["program"]) == ("127.0.0.1", "x" * 200)
    assert (record["actor_user_username"], record["team_slug"]) == ("alice", "acme")
    assert record["data"]["after"] == {"name": "Acme 2"}


# Lists


def test_filters(api: Any, acme: Team, make: Any, alice: User, bob: User, sam: User) -> None:
    repo = make.repo(acme, "api", by=alice)
    AuditEntry.objects.all().delete()
    ago = timezone.now() - dt.timedelta(days=3)
    old = entry(actor=alice, created_at=ago, address="192.0.2.7", kind="member-added")
    two = entry(person_id=bob.pk, team_id=acme.pk, address="2001:db8:1:2::/64")
    new = entry(repo_id=repo.pk, kind="repo-updated", actor=sam)
    every = [new.pk, two.pk, old.pk]
    expected: dict[str, list[int]] = {
        "": every,
        "kind=member-added&kind=repo-updated": [new.pk, old.pk],
        "actor=ALICE": [old.pk],
        "actor=self": [new.pk],
        "actor=nobody": [],
        "target=user:BOB": [two.pk],
        "target=team:acme": [two.pk],
        "target=repo:teams/acme/api": [new.pk],
        "target=repo:teams/acme/none": [],
        "address=192.0.2.7": [old.pk],
        "address=2001:db8:1:2:ffff::1": [two.pk],
        "address=2001:db8:1:2::/64": [two.pk],
        "since=1 day": [new.pk, two.pk],
        "until=1 day": [old.pk],
        "until=9 days": [],
        "since=2100-01-01T00:00:00Z": [],
        "since=4 days&until=1 day&kind=member-added&actor=alice": [old.pk],
        "actor=&target=&address=&since=&until=": every,
    }
    for query, some in expected.items():
        path = f"/audit?{query.replace(' ', '%20')}"
        assert ids(api(sam).get(path).gives()) == some, query
    for query in ("kind=none", "target=bob", "target=user:", "address=here", "since=then"):
        api(sam).get(f"/audit?{query}").fails(422, "validation_failed")
        api(sam).get(f"/audit/export?{query}").fails(422, "validation_failed")


def test_pages_by_cursor_miss_nothing(api: Any, acme: Team, sam: User) -> None:
    rows = [entry().pk for _ in range(5)]
    client = api(sam)
    first = client.get("/audit?per_page=2").gives()
    assert ids(first) == [rows[4], rows[3]]
    second = client.get(first["next"].partition("/api/v1")[2]).gives()
    assert ids(second) == [rows[2], rows[1]]
    newer = entry().pk
    polled = client.get(first["previous"].partition("/api/v1")[2]).gives()
    assert ids(polled) == [newer]
    client.get("/audit?before_id=x").fails(422, "invalid_cursor")


def test_the_export_has_the_records_of_the_list_oldest_first(
    api: Any, acme: Team, alice: User, sam: User, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("apps.audit.exporting.BATCH_SIZE", 2)
    for number in range(5):
        entry(team_id=acme.pk, actor=alice, data={"role": f"„{number}“"})
    entry(team_id=None, kind="user-joined")
    client = api(sam)
    answer = client.get("/audit/export").response
    assert answer.headers["Content-Type"] == "application/jsonl"
    assert answer.headers["Cache-Control"] == "no-store"
    lines = [json.loads(line) for line in answer.content.splitlines()]
    assert lines == client.get("/audit").gives()["results"][::-1]
    assert len(lines) >= 6
    own = api(alice).get("/teams/acme/audit/export?actor=alice").response.content.splitlines()
    assert len(own) == 5
    assert client.get("/audit/export?kind=signed-in").response.content == b""


@pytest.mark.parametrize(
    ("query", "index"),
    [
        ("", ""),
        ("kind=team-updated", "audit_kind"),
        ("actor=sam", "audit_actor"),
        ("target=user:sam", "audit_person"),
        ("target=team:acme", "audit_team"),
        ("address=192.0.2.7", "audit_address"),
    ],
)
def test_each_filter_has_an_index_in_the_order_of_the_list(
    api: Any, acme: Team, sam: User, query: str, index: str
) -> None:
    if connection.vendor != "sqlite":
        pytest.skip("a planner with few rows reads the table")
    client = api(sam)
    with CaptureQueriesContext(connection) as captured:
        client.get(f"/audit?{query}").gives()
    [select] = [one["sql"] for one in captured if 'FROM "events_auditentry"' in one["sql"]]
    with connection.cursor() as cursor:
        cursor.execute(f"EXPLAIN QUERY PLAN {select}")
        plan = " ".join(str(row[3]) for row in cursor.fetchall())
    assert index in plan and "TEMP B-TREE" not in plan, plan
    assert "COUNT(" not in select


# The end of entries


def test_old_entries_are_deleted_in_batches(
    db: None, settings: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("apps.events.audit.BATCH_SIZE", 2)
    days, now = dt.timedelta(days=1), timezone.now()
    for age in (500, 402, 401):
        entry(created_at=now - age * days)
    recent = entry(created_at=now - 399 * days)
    lines: list[str] = []
    assert prune_audit(lines.append) is False
    assert [*AuditEntry.objects.all()] == [recent]
    assert lines == ["3 entries of the audit log deleted"]
    settings.AUDIT_DAYS = 0
    prune_audit(lines.append)
    assert not AuditEntry.objects.exists()


def test_the_name_of_a_removed_account_is_replaced(acme: Team, bob: User) -> None:
    entry(target={"kind": "member", "username": "bob"}, data={"username": "bob", "role": "x"})
    rename_person("bob", "deleted-account-1")
    assert latest().target["username"] == latest().data["username"] == "deleted-account-1"


def test_ordinary_events_have_no_entry_among_them(api: Any, acme: Team, alice: User) -> None:
    create_token(principal=principal_of(alice), owner=alice, name="laptop")
    events = api(alice).get("/events?scope=self&scope=user:alice").gives()["results"]
    assert {"address", "program", "token_name"}.isdisjoint(events[0])
    assert AuditEntry.objects.count() and events[0]["kind"] == "token-created"
