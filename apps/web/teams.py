"""`/teams`, a team with its repositories, members and settings; a person; avatars as SVG."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from django.contrib import messages
from django.http import HttpResponse
from django.shortcuts import get_object_or_404

from apps.accounts.access import UserAccess
from apps.accounts.rules import named_user
from apps.core.access import Level
from apps.events.models import Key
from apps.events.pagination import PAST_ALL
from apps.events.scopes import EventScope, Selection
from apps.events.serializers import activity_record, event_records
from apps.repos.queries import list_repos
from apps.teams import actions
from apps.teams.access import TeamAccess
from apps.teams.models import Member, Role
from apps.teams.queries import list_members, list_teams
from apps.teams.rules import check_may_set, may_set
from apps.web.activity import feed_context, graph
from apps.web.decorators import FORM, POST, page, team_page, user_page
from apps.web.forms import (
    ConfirmDeletion,
    NewMember,
    NewTeam,
    PageForm,
    SetRole,
    TeamSettings,
    word_choices,
)
from apps.web.frame import team_context
from apps.web.responses import (
    PageRequest,
    deleted_message,
    page_of,
    redirect_to,
    render_page,
)
from apps.web.templatetags.pictures import picture

MOST_MEMBERS = 30
"""Members in the sidebar of a team."""
EVENTS = 12
"""Events in the list of a person's latest activity."""
YEAR = 365 * 86400


@page(Level.NONE)
def teams(request: PageRequest) -> HttpResponse:
    """The person's teams; for staff all teams."""
    rows = list_teams(request.principal, everybodys=request.principal.is_staff)
    return render_page(request, "teams", page=page_of(request, rows))


@page(Level.NONE, methods=FORM, throttle="teams")
def new_team(request: PageRequest) -> HttpResponse:
    """Create a team; its creator is its owner."""
    form = NewTeam(request)
    if form.is_valid():
        with form.refusals():
            team = actions.create_team(principal=request.principal, **form.cleaned_data)
            message = f"Team {team.slug} created. You are its owner."
            return redirect_to(f"/{team.path}", request, message)
    return form.render_page(request, "new_team")


@team_page(Level.NONE)
def team(request: PageRequest, access: TeamAccess) -> HttpResponse:
    """The repositories of a team that the caller may read; for members also the members."""
    page = page_of(request, list_repos(access))
    members = list_members(access.team)[:MOST_MEMBERS] if access.level >= Level.READ else []
    return render_page(request, "team", page=page, members=members, **team_context(access, "repos"))


@team_page(methods=FORM, throttle="teams")
def members(request: PageRequest, access: TeamAccess) -> HttpResponse:
    """The members of a team, with a form to add one."""
    form = NewMember(request, role=Role.MEMBER)
    if form.is_valid():
        with form.refusals():
            user = named_user(form.cleaned_data["username"])
            actions.add_member(access=access, user=user, role=form.cleaned_data["role"])
            message = f"{user.username} added to the team."
            return redirect_to(members_path(access), request, message)
    page = page_of(request, list_members(access.team))
    for member in page["results"]:
        member.may_change = may_set(access, member.role)
    roles = [role for role in Role if may_set(access, role)]
    menu: Any = form.fields["role"]
    menu.choices = word_choices(roles)
    owners = access.team.members.filter(role=Role.OWNER)[:2]
    context = {"roles": roles, "last_owner": owners[0] if len(owners) == 1 else None}
    return form.render_page(
        request, "members", page=page, **context, **team_context(access, "members")
    )


@team_page(Level.ADMIN, methods=POST, throttle="teams")
def set_role(request: PageRequest, access: TeamAccess, member: str) -> HttpResponse:
    membership, form = get_member(access, member), SetRole(request)
    if form.is_valid():
        actions.update_member(access=access, member=membership, role=form.cleaned_data["role"])
        messages.success(request, f"{membership.user.username} is now {membership.role}.")
    return redirect_to(members_path(access))


@team_page(Level.NONE, methods=FORM, throttle="teams", even_inactive=True)
def remove_member(request: PageRequest, access: TeamAccess, member: str) -> HttpResponse:
    """Remove a member, or leave the team; only admins remove others. A GET asks first."""
    own = member == request.principal.user.username_key
    if not own:
        access.require(Level.ADMIN)
    membership = get_member(access, member)
    if not own:
        check_may_set(access, membership.role)
    if request.method == "POST":
        actions.remove_member(access=access, member=membership)
        message = "You have left the team." if own else f"{membership.user.username} is removed."
        return redirect_to("teams" if own else members_path(access), request, message)
    context = {"member": membership, "own": own, **team_context(access, "members")}
    return render_page(request, "remove_member", **context)


@team_page(Level.OWNER, methods=FORM, throttle="teams", even_inactive=True)
def team_settings(request: PageRequest, access: TeamAccess) -> HttpResponse:
    """The settings of a team."""
    team = access.team
    values = {name: getattr(team, name) for name in TeamSettings.base_fields}
    form = TeamSettings(request, **values)
    if form.is_valid():
        with form.refusals():
            unchanged = {name: values[name] for name in form.fields}
            actions.update_team(access=access, **(unchanged | form.changes()))
            return redirect_to(f"/{team.path}/~settings", request, "Team saved.")
        team.refresh_from_db()  # the header must not show refused values
    return form.render_page(request, "team_settings", **team_context(access, "settings"))


@team_page(Level.OWNER, methods=FORM, throttle="teams", even_inactive=True)
def deactivate_team(request: PageRequest, access: TeamAccess) -> HttpResponse:
    """Deactivate a team, or activate it again. A GET asks for confirmation."""
    team, form = access.team, PageForm(request)
    if request.method == "POST":
        with form.refusals():
            active = request.POST.get("is_active") == "true"
            actions.update_team(access=access, name=team.name, slug=team.slug, is_active=active)
            message = "activated" if active else "deactivated"
            return redirect_to(f"/{team.path}/~settings", request, f"Team {message}.")
    return form.render_page(request, "deactivate_team", **team_context(access, "settings"))


@team_page(Level.OWNER, methods=FORM, throttle="teams", even_inactive=True)
def delete_team(request: PageRequest, access: TeamAccess) -> HttpResponse:
    """Delete a team with its repositories. A GET asks for its slug."""
    form = ConfirmDeletion(request, name=access.team.slug)
    if form.is_valid():
        with form.refusals():
            deletion = actions.delete_team(access=access, **form.cleaned_data)
            return redirect_to("teams", request, deleted_message(deletion))
    return form.render_page(request, "delete_team", **team_context(access, "settings"))


def members_path(access: TeamAccess) -> str:
    return f"/{access.team.path}/~members"


def get_member(access: TeamAccess, username: str) -> Member:
    """The member with this username, in lower case; 404."""
    membership = get_object_or_404(list_members(access.team), user__username_key=username)
    membership.team = access.team
    return membership


@user_page()
def user(request: PageRequest, access: UserAccess) -> HttpResponse:
    """A person. Anonymous people see no activity."""
    page = page_of(request, list_repos(access))
    beside = latest_activity(access) if request.principal.is_signed_in else {}
    return render_page(request, "user", person=access.owner, page=page, **beside)


def latest_activity(access: UserAccess) -> dict[str, Any]:
    """The latest events of a person, and their chart, as far as the caller may read them."""
    key = Key("actor_id", access.owner.pk)
    selection = Selection(access.principal, (EventScope("user", key),), frozenset())
    events = selection.page(after=0, before=PAST_ALL, size=EVENTS, newest_first=True)
    return {
        "feed": feed_context(event_records(events, "")),
        "graph": graph(activity_record({}, key, access.principal)),
    }


@page(Level.PUBLIC)
def avatar(request: PageRequest, uid: UUID) -> HttpResponse:
    """The avatar of a uuid, whether or not a person or team has it: it never changes."""
    response = HttpResponse(picture(uid), content_type="image/svg+xml")
    response["Cache-Control"] = f"private, max-age={YEAR}, immutable"
    return response
