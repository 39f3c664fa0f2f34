"""The bots of a team, in its settings, and the tokens of each bot."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from django.http import HttpResponse
from django.shortcuts import get_object_or_404

from apps.accounts.models import ApiToken
from apps.accounts.queries import list_tokens, load_repos
from apps.accounts.rules import token_status
from apps.core.access import Level
from apps.repos.queries import list_repos
from apps.teams import actions
from apps.teams.access import TeamAccess
from apps.teams.models import MOST_BOTS, Member, Role
from apps.teams.queries import list_bots
from apps.teams.serializers import BOT_ROLES, CreateBot, UpdateBot
from apps.web.decorators import FORM, team_page
from apps.web.forms import (
    PLAIN,
    EditForm,
    NewToken,
    PageForm,
    RotateTokenForm,
    choice_field,
    proposal_field,
    text_field,
)
from apps.web.frame import team_context
from apps.web.responses import (
    PageRequest,
    keep_secret,
    page_number,
    page_of,
    redirect_to,
    render_page,
)

MOST_REPOS = 100
"""Most repositories of a team that the form for a token suggests."""


class NewBot(PageForm):
    request_serializer = CreateBot

    username = text_field(
        "Username",
        help_text="Letters and digits, with a single - _ or . between them. Bots and people share "
        "all usernames.",
        **PLAIN,
    )
    display_name = text_field("Name", required=False, autocomplete="off")
    role = choice_field("Role", BOT_ROLES)


class BotName(EditForm):
    request_serializer = UpdateBot

    display_name = text_field(
        "Name", required=False, help_text="Shown beside the username.", autocomplete="off"
    )


class NewBotToken(NewToken):
    PERMISSIONS = {
        "read": "Read: clone, fetch and read what the bot can see. It changes nothing.",
        "write": "Write: also push, merge, report statuses, and take part in threads and pulls.",
        "admin": "Everything that the bot may do.",
    }
    REACHES = {**NewToken.REACHES, "all": "All that the bot has access to, now and later."}

    permission = proposal_field("Permission", PERMISSIONS, "read")
    reach = proposal_field("Valid for", REACHES, "listed")


@team_page(Level.OWNER, methods=FORM, throttle="teams")
def bots(request: PageRequest, access: TeamAccess) -> HttpResponse:
    """The bots of a team, with a form to create one."""
    form = NewBot(request, role=Role.MEMBER)
    if form.is_valid():
        with form.refusals():
            bot = actions.create_bot(access=access, **form.cleaned_data)
            message = f"{bot.user} created. Create a token for it below."
            return redirect_to(bot_path(access, bot), request, message)
    rows = [*list_bots(access.team)]
    context = {"bots": rows, "is_full": len(rows) >= MOST_BOTS}
    return form.render_page(request, "bots", **context, **team_context(access, "settings"))


@team_page(Level.OWNER, methods=FORM, throttle="api-tokens")
def bot(request: PageRequest, access: TeamAccess, bot: str) -> HttpResponse:
    """A bot and its tokens. The response to the POST shows a new token: only its hash is stored."""
    member, form, text = get_bot(access, bot), NewBotToken(request), ""
    if form.is_valid():
        with form.refusals():
            _, text = actions.create_bot_token(access=access, bot=member, **form.cleaned_data)
    made = f"Token {form.cleaned_data['name']} created." if text else ""
    form = NewBotToken(request, unbound=True) if text else form
    return render_bot(request, access, member, form, text=text, made=made)


@team_page(Level.OWNER, methods=FORM, throttle="teams")
def rename_bot(request: PageRequest, access: TeamAccess, bot: str) -> HttpResponse:
    """A form for the display name of a bot."""
    member = get_bot(access, bot)
    form = BotName(request, display_name=member.user.display_name)
    if form.is_valid():
        with form.refusals():
            actions.update_bot(access=access, bot=member, **form.changes())
            return redirect_to(bot_path(access, member), request, "Bot saved.")
    context = {"bot": member, **team_context(access, "settings")}
    return form.render_page(request, "rename_bot", **context)


@team_page(Level.OWNER, methods=FORM, throttle="teams", even_inactive=True)
def delete_bot(request: PageRequest, access: TeamAccess, bot: str) -> HttpResponse:
    """Close the account of a bot, for good. A GET asks for confirmation."""
    member, form = get_bot(access, bot), PageForm(request)
    if request.method == "POST":
        with form.refusals():
            actions.delete_bot(access=access, bot=member)
            message = f"{member.user} deleted. Its texts stay."
            return redirect_to(bots_path(access), request, message)
    context = {"bot": member, **team_context(access, "settings")}
    return form.render_page(request, "delete_bot", **context)


@team_page(Level.OWNER, methods=FORM, throttle="api-tokens")
def rotate_bot_token(request: PageRequest, access: TeamAccess, bot: str, uid: UUID) -> HttpResponse:
    """Give a token a new text, which the response to the POST shows. A GET asks for the overlap."""
    member = get_bot(access, bot)
    token = get_object_or_404(list_tokens(member.user), uuid=uid)
    form = RotateTokenForm(request)
    if form.is_valid():
        with form.refusals():
            text = actions.rotate_bot_token(
                access=access, bot=member, token=token, **form.cleaned_data
            )
            made, new = f"Token {token.name} rotated.", NewBotToken(request, unbound=True)
            return render_bot(request, access, member, new, text=text, made=made)
    context = {"bot": member, "token": token, **team_context(access, "settings")}
    return form.render_page(request, "rotate_bot_token", **context)


@team_page(Level.OWNER, methods=FORM, throttle="api-tokens", even_inactive=True)
def revoke_bot_token(request: PageRequest, access: TeamAccess, bot: str, uid: UUID) -> HttpResponse:
    """Revoke a token of a bot, for good. A GET asks for confirmation."""
    member = get_bot(access, bot)
    token = get_object_or_404(list_tokens(member.user), uuid=uid)
    if request.method == "POST":
        actions.revoke_bot_token(access=access, bot=member, token=token)
        return redirect_to(bot_path(access, member), request, f"Token {token.name} revoked.")
    context = {"bot": member, "token": token, **team_context(access, "settings")}
    return render_page(request, "revoke_bot_token", **context)


def render_bot(
    request: PageRequest,
    access: TeamAccess,
    member: Member,
    form: NewBotToken,
    *,
    text: str,
    made: str,
) -> HttpResponse:
    """The page of a bot. `text`: a token that is shown this once, and `made` its message."""
    page = page_of(request, list_tokens(member.user), token_row, number=page_number(request))
    load_repos([row["token"] for row in page["results"]], access.principal)
    context = {
        "bot": member,
        "page": page,
        "text": text,
        "made": made,
        "form": form,
        "status": 201 if text else form.status_code,
        "headers": form.headers,
        "repos": list_repos(access)[:MOST_REPOS],
    }
    return keep_secret(render_page(request, "bot", **context, **team_context(access, "settings")))


def token_row(token: ApiToken) -> dict[str, Any]:
    return {"token": token, "state": token_status(token)}


def get_bot(access: TeamAccess, username: str) -> Member:
    """The membership of the bot with this username, in lower case; 404."""
    member = get_object_or_404(list_bots(access.team), user__username_key=username)
    member.team = access.team
    return member


def bots_path(access: TeamAccess) -> str:
    return f"/{access.team.path}/~settings/bots"


def bot_path(access: TeamAccess, bot: Member) -> str:
    return f"{bots_path(access)}/{bot.user.username}"
