"""The admin of people, tokens and invites. See docs/admin.md."""

from __future__ import annotations

from typing import Any

from django import forms
from django.contrib import admin, messages
from django.contrib.auth.models import Group
from django.db.models import Q, QuerySet
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.urls import reverse
from django.utils import timezone
from django.utils.html import format_html

from apps.accounts import actions
from apps.accounts.models import (
    NOT_GONE,
    PREFIX_LENGTH,
    TOKEN_PREFIX,
    ApiToken,
    Deletion,
    Invite,
    InviteStatus,
    User,
)
from apps.accounts.principal import Principal
from apps.accounts.rules import TokenStatus, named_user, token_status
from apps.accounts.second_factors.actions import reset_second_factor
from apps.accounts.serializers import CreateInvite, CreateToken, UpdateInvite
from apps.core.access import Permission
from apps.core.admin import (
    ActionForm,
    Choices,
    Flag,
    RowAction,
    StaffAdmin,
    badge,
    bulleted,
    link_to,
    moment,
    row_link,
)
from apps.core.search import begins, uuid_begins
from apps.core.views import site_url

admin.site.unregister(Group)  # only `is_staff` decides; Django's permissions are not used

TOKENS_SHOWN = 20
"""Most tokens on the page of a person. The list of tokens has the rest."""


def uuids(text: str) -> Q:
    """Rows whose uuid begins with this text, if it has at least eight digits."""
    return uuid_begins(text, least=8)


def people(text: str) -> QuerySet[Any, Any]:
    """The ids of people whose username begins with this text."""
    return User.objects.filter(begins("username_key", text.lower())).values("pk")


class AccountState(Flag):
    title = parameter_name = "account"
    column = "is_active"
    words = ("active", "deactivated")


class StaffFilter(Flag):
    title = parameter_name = "staff"
    column = "is_staff"
    words = ("staff", "others")


class BotFilter(Flag):
    title = parameter_name = "bot"
    column = "is_bot"
    words = ("bots", "people")


@admin.register(User)
class UserAdmin(StaffAdmin):
    """The admin of accounts: profile, staff status, deactivation."""

    group, position = "People", 1
    list_display = ("username", "display_name", "email", "account", "role", "joined")
    list_filter = (AccountState, StaffFilter, BotFilter)
    search_help_text = "How a username, a name or an e-mail address begins, or a uuid."
    changes = ("display_name", "email", "is_staff")
    layout = (
        (None, {"fields": ("username", "display_name", "email", "is_staff")}),
        ("Account", {"fields": ("account", "second_factor", "bot_of", "uuid")}),
        ("Times", {"fields": ("joined", "last_login", "last_seen_at")}),
        ("Leaving", {"fields": ("offboarding",)}),
        ("API tokens", {"fields": ("tokens",)}),
    )
    row_actions = (
        RowAction(
            "deactivate",
            "Deactivate",
            lambda principal, row: actions.deactivate_user(principal=principal, user=row),
            "The account is closed at once: pages, API, git and open streams. What the person "
            "wrote stays. Tokens are kept, and work again after a reactivation.",
            "{} is deactivated.",
            lambda row: row.is_active,
        ),
        RowAction(
            "reactivate",
            "Reactivate",
            lambda principal, row: actions.reactivate_user(principal=principal, user=row),
            "The account is open again, with the tokens that it had.",
            "{} is active again.",
            lambda row: row.deletion_id is None and not row.is_active,
        ),
        RowAction(
            "signout",
            "Sign out everywhere",
            lambda principal, row: actions.end_sessions(principal=principal, user=row),
            "The person is signed out of every browser at once. Tokens are kept.",
            "{} is signed out everywhere.",
            lambda row: row.is_active,
        ),
        RowAction(
            "second-factor",
            "Reset second factor",
            lambda principal, row: reset_second_factor(principal=principal, user=row),
            "For a person who has lost it: check first that it is them. Authenticator app, "
            "recovery codes and passkeys are removed, the person is signed out of every browser "
            "and gets an e-mail. The password alone then signs in.",
            "The second factor of {} is reset.",
            lambda row: row.has_second_factor,
        ),
        RowAction(
            "remove",
            "Delete",
            lambda principal, row, confirm: actions.delete_user(
                principal=principal, user=row, confirm=confirm
            ),
            "Gone for everybody at once. It can be restored for 14 days, in the list of deletions.",
            "{} is deleted.",
            lambda row: row.deletion_id is None,
            ends=True,
            typed=lambda row: row.username,
        ),
    )

    def search(self, rows: QuerySet[Any], text: str) -> QuerySet[Any]:
        key = text.lower()
        if "@" in key:
            return rows.filter(begins("email_key", key))
        names = begins("username_key", key) | begins("display_name_key", key)
        return rows.filter(names | begins("email_key", key) | uuids(key))

    def change(self, principal: Principal, row: Any, **values: Any) -> None:
        actions.update_user(principal=principal, user=row, **values)

    def account(self, row: User) -> str:
        if row.deletion_id is not None:
            return badge("deleted", False)
        return badge("active", True) if row.is_active else badge("deactivated", False)

    def role(self, row: User) -> str:
        return badge("staff") if row.is_staff else badge("bot") if row.is_bot else ""

    def second_factor(self, row: User) -> str:
        return "on" if row.has_second_factor else "off"

    @admin.display(description="bot of")
    def bot_of(self, row: User) -> str:
        if not row.is_bot:
            return "a person, no bot"
        member = row.memberships.select_related("team").first()
        return row_link(member.team) if member else "no team any more"

    def joined(self, row: User) -> str:
        return moment(row.created_at)

    @admin.display(description="off-boarding")
    def offboarding(self, row: User) -> str:
        if row.deletion_id is not None:
            return ""
        return format_html('<a href="{}">Off-board {}</a>', reverse("offboard", args=[row.pk]), row)

    def tokens(self, row: User) -> str:
        tokens = list(row.tokens.order_by("-pk")[: TOKENS_SHOWN + 1])
        lines = [
            format_html("{} {}", row_link(token), token_badge(token))
            for token in tokens[:TOKENS_SHOWN]
        ]
        more = link_to(ApiToken, "All of them", q=row.username)
        create = link_to(ApiToken, "Make a token", "add", username=row.username)
        items = bulleted(lines, more=more if len(tokens) > TOKENS_SHOWN else "")
        return format_html("{}<p>{}</p>", items, create)


def token_badge(token: ApiToken) -> str:
    status = token_status(token)
    looks = {TokenStatus.ACTIVE: True, TokenStatus.REVOKED: False}
    return badge(status, looks.get(status))


class NewToken(ActionForm):
    request_serializer = CreateToken
    ENDS = {"30 days": "In 30 days", "90 days": "In 90 days", "1y": "In a year", "": "Never"}

    username = forms.CharField(max_length=255, help_text="The username of its owner.")
    name = forms.CharField(max_length=255, help_text="A name that tells its use.")
    permission = forms.TypedChoiceField(
        choices=[(one.value, one.value) for one in Permission],
        required=False,
        empty_value="read",
        help_text="admin is everything that its owner may do.",
    )
    repo_paths = forms.CharField(
        label="Repositories",
        required=False,
        widget=forms.Textarea(attrs={"rows": "3"}),
        help_text="One path a line, such as teams/acme/api. Empty: not limited.",
    )
    expires_at = forms.TypedChoiceField(
        label="Ends", choices=ENDS, required=False, initial="90 days", empty_value=None
    )

    def clean_repo_paths(self) -> list[str] | None:
        return self.cleaned_data["repo_paths"].split() or None


class TokenState(Choices):
    title = parameter_name = "status"
    words = tuple(TokenStatus)

    def chosen(self, rows: Any, word: str) -> Any:
        if word == TokenStatus.REVOKED:
            return rows.exclude(revoked_at=None)
        expired = Q(expires_at__lte=timezone.now())
        rows = rows.filter(revoked_at=None)
        return rows.filter(expired) if word == TokenStatus.EXPIRED else rows.exclude(expired)


@admin.register(ApiToken)
class TokenAdmin(StaffAdmin):
    """The admin of API tokens. The text of a token is shown once, to the person who creates it."""

    group, position = "People", 2
    list_display = ("name", "owner", "token_prefix", "status", "created_at", "last_used", "ends")
    list_filter = (TokenState,)
    list_select_related = ("user",)
    search_help_text = (
        f"How the owner's username begins, a uuid, or the first {PREFIX_LENGTH} "
        "characters of a token. Never paste a whole token."
    )
    layout = (
        (None, {"fields": ("name", "owner", "token_prefix", "status")}),
        ("Scope", {"fields": ("permission", "limited_to")}),
        ("Times", {"fields": ("created_at", "last_used", "ends", "revoked_at")}),
        ("Names", {"fields": ("uuid",)}),
    )
    add_form = NewToken
    row_actions = (
        RowAction(
            "revoke",
            "Revoke",
            lambda principal, row: actions.revoke_token(principal=principal, token=row),
            "The token stops working at once, for good. It stays in the lists.",
            "{} is revoked.",
            lambda row: row.revoked_at is None,
            ends=True,
        ),
        RowAction(
            "remove",
            "Delete",
            lambda principal, row: actions.delete_token(principal=principal, token=row),
            "The token stops working at once and is gone from the lists.",
            "{} is deleted.",
            ends=True,
        ),
    )

    def search(self, rows: QuerySet[Any], text: str) -> QuerySet[Any]:
        if text.startswith(TOKEN_PREFIX):
            return rows.filter(token_prefix=text[:PREFIX_LENGTH])
        return rows.filter(Q(user__in=people(text)) | uuids(text))

    def add(self, principal: Principal, **values: Any) -> ApiToken:
        """Create a token. Its text is kept in memory, on the row, until the answer is sent."""
        owner = named_user(values.pop("username"))
        token, text = actions.create_token(principal=principal, owner=owner, **values)
        token.text = text
        return token

    def response_add(
        self, request: HttpRequest, obj: Any, post_url_continue: Any = None
    ) -> HttpResponse:
        """Show the token in the answer to the POST. It is not stored, so a redirect could not."""
        context = {"title": "A new token", "token": obj, "text": obj.text}
        return self.render(request, "admin/staff_token.html", context, status=201)

    def owner(self, row: ApiToken) -> str:
        return row_link(row.user)

    def limited_to(self, row: ApiToken) -> str:
        if not row.is_limited:
            return "not limited"
        repos = row.repos.filter(NOT_GONE).select_related("owner_team", "owner_user").order_by("pk")
        return ", ".join(repo.path for repo in repos) or "repositories that are gone"

    def status(self, row: ApiToken) -> str:
        return token_badge(row)

    def last_used(self, row: ApiToken) -> str:
        return moment(row.last_used_at)

    def ends(self, row: ApiToken) -> str:
        return moment(row.expires_at)


ENDS_HELP = 'A duration from now, such as "7 days", or a time with offset.'


class NewInvite(ActionForm):
    request_serializer: Any = CreateInvite

    email = forms.CharField(
        required=False,
        help_text="The invited person's address. If empty, anyone with the link may sign up.",
        max_length=254,
    )
    expires_at = forms.CharField(
        label="Ends", initial="7 days", max_length=100, help_text=ENDS_HELP
    )


class ChangeInvite(NewInvite):
    request_serializer = UpdateInvite

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self.initial["expires_at"] = self.instance.expires_at.isoformat(" ", "minutes")


class InviteState(Choices):
    title = parameter_name = "status"
    words = tuple(InviteStatus)

    def chosen(self, rows: Any, word: str) -> Any:
        return rows.with_status(word)


@admin.register(Invite)
class InviteAdmin(StaffAdmin):
    """The admin of invites to sign up. As in the API, deleted ones are left out."""

    group, position = "People", 3
    list_display = ("__str__", "whom", "status", "created_by", "created_at", "expires_at", "joined")
    list_filter = (InviteState,)
    list_select_related = ("created_by", "accepted_by")
    search_help_text = (
        "How its e-mail address begins, or the username of its creator or of the person who "
        "accepted it; or its uuid."
    )
    form = ChangeInvite
    add_form = NewInvite
    changes = ("email", "expires_at")
    layout = (
        (None, {"fields": ("link", "email", "expires_at", "status")}),
        ("Record", {"fields": ("created_by", "created_at", "joined", "accepted_at")}),
    )
    row_actions = (
        RowAction(
            "expire",
            "Expire now",
            lambda principal, row: actions.expire_invite(principal=principal, invite=row),
            "The link stops working. A later end makes it work again.",
            "{} has expired.",
            lambda row: row.status is InviteStatus.PENDING,
        ),
        RowAction(
            "remove",
            "Delete",
            lambda principal, row: actions.delete_invite(principal=principal, invite=row),
            "The link stops working and leaves the lists. A person who joined by it stays.",
            "{} is deleted.",
            ends=True,
        ),
    )

    def get_queryset(self, request: HttpRequest) -> QuerySet[Any]:
        return Invite.objects.not_deleted().select_related(*self.list_select_related)

    def search(self, rows: QuerySet[Any], text: str) -> QuerySet[Any]:
        if "@" in text:
            return rows.filter(begins("email_key", text.lower()))
        person = Q(accepted_by__in=people(text)) | Q(created_by__in=people(text))
        return rows.filter(begins("email_key", text.lower()) | person | uuids(text))

    def has_change_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        """Accepted invites cannot be changed."""
        accepted = obj is not None and obj.accepted_at is not None
        return not accepted and super().has_change_permission(request, obj)

    def add(self, principal: Principal, **values: Any) -> Invite:
        return actions.create_invite(principal=principal, **values)

    def change(self, principal: Principal, row: Any, **values: Any) -> None:
        actions.update_invite(principal=principal, invite=row, **values)

    def response_add(
        self, request: HttpRequest, obj: Any, post_url_continue: Any = None
    ) -> HttpResponse:
        """Redirect to the page of the invite, which shows its link."""
        messages.success(request, f"Created {obj}. Its link is below.")
        return HttpResponseRedirect(self.address("change", obj.pk))

    def link(self, row: Invite) -> str:
        if row.status is not InviteStatus.PENDING:
            return "It no longer works."
        url = row.url(site_url())
        field = '<input class="secret" readonly data-copy aria-label="{}" value="{}" size="{}">'
        return format_html(field, "The link", url, len(url))

    @admin.display(description="for")
    def whom(self, row: Invite) -> str:
        return row.email or "anyone with the link"

    def status(self, row: Invite) -> str:
        looks = {InviteStatus.PENDING: None, InviteStatus.ACCEPTED: True}
        return badge(row.status, looks.get(row.status, False))

    @admin.display(description="accepted by")
    def joined(self, row: Invite) -> str:
        return row_link(row.accepted_by)


@admin.register(Deletion)
class DeletionAdmin(StaffAdmin):
    """Deleted repositories, teams and accounts, which staff restores until they are purged."""

    group, position = "Record", 2
    list_display = ("path", "by", "deleted_at", "purge_at")
    list_select_related = ("deleted_by",)
    layout = ((None, {"fields": ("path", "by", "deleted_at", "purge_at")}),)
    row_actions = (
        RowAction(
            "restore",
            "Restore",
            lambda principal, row: actions.restore(principal=principal, deletion=row),
            "Everything is there again, at its former address. Tokens and invites of an account "
            "stay revoked.",
            "{} is restored.",
            lambda row: not row.is_purging,
        ),
    )

    def get_queryset(self, request: HttpRequest) -> QuerySet[Any]:
        return Deletion.objects.filter(purge_at__isnull=False).select_related("deleted_by")

    @admin.display(description="deleted by")
    def by(self, row: Deletion) -> str:
        return row_link(row.deleted_by)
