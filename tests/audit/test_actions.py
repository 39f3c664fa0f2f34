"""Each action on accounts, tokens, members, protections and settings that the API does not call
leaves an entry in the audit log too.
"""

from __future__ import annotations

import datetime as dt
import inspect
from collections.abc import Callable
from typing import Any
from uuid import uuid4

import pytest
from django.core.management import call_command
from django.utils import timezone
from django_otp.oath import TOTP

from apps.accounts import actions as accounts
from apps.accounts.models import User
from apps.accounts.openid import actions as openid
from apps.accounts.openid.tokens import Claims
from apps.accounts.principal import ANONYMOUS
from apps.accounts.proofs import address_proof
from apps.accounts.second_factors import actions as second_factors
from apps.events.audit import AuditEntry
from apps.events.kinds import AUDITED, NOT_AUDITED, AuditKind, Kind
from apps.events.models import Event
from apps.pulls.actions import forgetting
from apps.repos import actions as repos
from apps.repos.models import Repo
from apps.site import actions as site
from apps.ssh import actions as ssh
from apps.teams import actions as teams
from apps.teams.models import Member, Role
from apps.webhooks import actions as webhooks
from apps.webhooks.models import Webhook
from config.offboarding import actions as offboarding
from tests.principals import principal_of, team_access_of
from tests.test_permissions_of_actions import ACTIONS

pytestmark = pytest.mark.once
MODULES = [accounts, second_factors, openid, teams, repos, site, ssh, webhooks, offboarding]
MODULES += [forgetting]
NO_ENTRY = {
    "warn_of_expiry": "a reminder by the worker",
    "create_fork": "the copy is made later",
    "complete_fork": "a fork is content",
    "fail_fork": "a fork is content",
    "use_code": "it signs in, which is an entry",
    "use_passkey": "it signs in, which is an entry",
    "add_passkey": "it has one, which tests/web/test_passkeys.py tries",
    "remove_passkey": "it has one, which tests/web/test_passkeys.py tries",
    "note_use": "it signs in, which is an entry",
    "ping_webhook": "an attempt changes no setting",
    "redeliver": "an attempt changes no setting",
}
"""Actions of `MODULES` without an entry."""
CLAIMS = Claims("https://sso.example.org", "0001", "zoe", "Zoe", "", frozenset(), 0.0)
"""Those of a person at an OpenID provider."""
BY_SET_ACCOUNT = {"deactivate_user", "reactivate_user"}
"""Called by `set_account` alone, apart from off-boarding."""


def last_entry() -> AuditEntry:
    return AuditEntry.objects.latest("id")


class World:
    """Rows for actions that the API does not call."""

    def __init__(self, make: Any, alice: User, sam: User, acme: Any) -> None:
        self.make, self.alice, self.sam, self.acme = make, alice, sam, acme
        self.staff = principal_of(sam)
        self.owner = team_access_of(alice, acme)

    @property
    def soon(self) -> dt.datetime:
        return timezone.now() + dt.timedelta(days=1)

    def bot(self) -> Member:
        return teams.create_bot(access=self.owner, username="ci")

    def change_password(self) -> None:
        values = {"password": "another horse battery"}
        accounts.change_password(principal=principal_of(self.alice), user=self.alice, **values)

    def turn_on(self) -> None:
        key = "00" * 20
        code = f"{TOTP(bytes.fromhex(key)).token():06}"
        second_factors.turn_on(principal=principal_of(self.alice), key=key, code=code)

    def renew_recovery_codes(self) -> None:
        self.turn_on()
        second_factors.renew_recovery_codes(principal=principal_of(self.alice))

    def turn_off(self) -> None:
        self.turn_on()
        second_factors.turn_off(principal=principal_of(self.alice))

    def reset_second_factor(self) -> None:
        self.turn_on()
        call_command("reset_second_factor", "alice")

    def join(self) -> None:
        invite = accounts.create_invite(principal=self.staff, expires_at=self.soon)
        openid.join(principal=ANONYMOUS, claims=CLAIMS, invite=invite)

    def link_identity(self) -> None:
        openid.link_identity(principal=principal_of(self.alice), claims=CLAIMS)

    def unlink_identity(self) -> None:
        self.link_identity()
        self.alice.set_password("another horse battery")
        self.alice.save()
        identity = self.alice.identities.get()
        openid.unlink_identity(principal=principal_of(self.alice), identity=identity)

    def set_staff_by_group(self) -> None:
        self.link_identity()
        openid.set_staff_by_group(user=self.alice, issuer=CLAIMS.issuer, is_staff=True)

    def set_members_by_group(self) -> None:
        teams.set_members_by_group(user=self.sam, roles={"acme": Role.VIEWER})

    def confirm_email(self) -> None:
        proof = address_proof(self.alice, "a@example.org")
        accounts.confirm_email(principal=principal_of(self.alice), proof=proof)

    def create_user(self) -> None:
        call_command("create_user", "newcomer")

    def expire_invite(self) -> None:
        invite = accounts.create_invite(principal=self.staff, expires_at=self.soon)
        accounts.expire_invite(principal=self.staff, invite=invite)

    def sign_up(self) -> None:
        invite = accounts.create_invite(principal=self.staff, expires_at=self.soon)
        values = {"username": "guest", "email": "g@example.org", "password": "long horse battery"}
        accounts.sign_up(principal=ANONYMOUS, invite=invite, **values)

    def restore(self) -> None:
        deletion = teams.delete_team(access=self.owner, confirm="acme")
        accounts.restore(principal=self.staff, deletion=deletion)

    def revoke_bot_token(self) -> None:
        bot = self.bot()
        token, _ = teams.create_bot_token(access=self.owner, bot=bot, name="ci")
        teams.revoke_bot_token(access=self.owner, bot=bot, token=token)

    def disable_webhook(self) -> None:
        values = {"team": self.acme, "url": "https://ci.example.org", "created_by": self.alice}
        webhook = Webhook.objects.create(cursor_event_id=0, **values)
        webhooks.disable_webhook(webhook=webhook, reason="gone")

    def import_repo(self) -> None:
        uuid = uuid4()
        made, values = Repo(uuid=uuid).git.unfinished(uuid4().hex), {"name": "n", "slug": "new"}
        made.create("main")
        repos.import_repo(
            owner=self.acme,
            values={**values, "uuid": uuid},
            made=made,
            source="elsewhere",
            fill=lambda _: None,
        )

    def forget_commit(self) -> None:
        repo = self.make.repo(self.acme, "old", by=self.alice)
        forgetting.forget_commit(repo=repo, sha="1" * 40)


OTHERS: dict[str, tuple[Callable[[World], None], str]] = {
    "change_password": (World.change_password, "user-updated"),
    "confirm_email": (World.confirm_email, "user-updated"),
    "create_user": (World.create_user, "user-joined"),
    "disable_webhook": (World.disable_webhook, "webhook-disabled"),
    "expire_invite": (World.expire_invite, "invite-updated"),
    "forget_commit": (World.forget_commit, "commit-forgotten"),
    "import_repo": (World.import_repo, "repo-imported"),
    "renew_recovery_codes": (World.renew_recovery_codes, "user-updated"),
    "reset_second_factor": (World.reset_second_factor, "user-updated"),
    "turn_off": (World.turn_off, "user-updated"),
    "turn_on": (World.turn_on, "user-updated"),
    "restore": (World.restore, "team-restored"),
    "revoke_bot_token": (World.revoke_bot_token, "token-revoked"),
    "join": (World.join, "invite-accepted"),
    "link_identity": (World.link_identity, "user-updated"),
    "unlink_identity": (World.unlink_identity, "user-updated"),
    "set_staff_by_group": (World.set_staff_by_group, "user-updated"),
    "set_members_by_group": (World.set_members_by_group, "member-added"),
    "sign_up": (World.sign_up, "invite-accepted"),
}
"""Actions that the API does not call, and the kind of their last entry."""


def test_every_action_is_tried_or_has_a_reason() -> None:
    names = {
        name
        for module in MODULES
        for name, function in inspect.getmembers(module, inspect.isfunction)
        if function.__module__ == module.__name__ and not name.startswith("_")
    }
    tried = {action.__name__ for action in ACTIONS.values()} | BY_SET_ACCOUNT | {"delete_user"}
    tried |= {"update_user", "offboard", "create_invite"}  # under other names there
    assert names - tried - NO_ENTRY.keys() == OTHERS.keys()


@pytest.mark.parametrize("name", OTHERS)
def test_actions_beside_the_api_leave_an_entry(
    name: str, make: Any, alice: User, sam: User, acme: Any
) -> None:
    run, kind = OTHERS[name]
    before = AuditEntry.objects.count()
    run(World(make, alice, sam, acme))
    assert AuditEntry.objects.count() > before
    assert last_entry().kind == kind


def test_a_command_is_the_program(api: Any, alice: User) -> None:
    api(alice).get("/users/self").gives()  # the request of this thread before
    call_command("create_user", "newcomer")
    entry = last_entry()
    assert (entry.program, entry.address) == ("manage.py create_user", "")
    assert entry.target == {"kind": "user", "username": "newcomer"}


def test_an_entry_beside_each_event_and_none_for_content(make: Any, acme: Any, alice: User) -> None:
    repo = make.repo(acme, "api", by=alice)
    make.thread(repo, by=alice)
    kinds = [*Event.objects.order_by("id").values_list("kind", flat=True)]
    assert kinds[-2:] == ["repo-created", "thread-created"]
    assert last_entry().kind == "repo-created" and last_entry().repo_id == repo.pk


def test_the_kinds_are_divided() -> None:
    assert {*AUDITED} == ({*Kind} - NOT_AUDITED) | {*AuditKind}
    assert max(len(kind) for kind in AUDITED) <= 40
