"""`/teams`, their members and activity, and who might be meant: `/suggest-users`."""

from __future__ import annotations

from typing import Any

from django.db.models import OuterRef, Subquery
from django.shortcuts import get_object_or_404
from rest_framework.response import Response

from apps.accounts.models import User
from apps.accounts.rules import named_user
from apps.core.access import Level, check_level
from apps.core.availability import TEAM_SLUGS, Availability, name_query
from apps.core.operation import Operation, operation
from apps.core.parsers import flag_query, text_query
from apps.core.views import ApiViewSet
from apps.events.activity import ActivityRecord, activity_record
from apps.events.models import Key
from apps.teams import actions
from apps.teams.doors import InTeam
from apps.teams.models import Member, Team
from apps.teams.serializers import (
    AddMember,
    CreateTeam,
    MemberRecord,
    SuggestedUsers,
    TeamRecord,
    UpdateMember,
    UpdateTeam,
    member_record,
    suggested_user,
    team_record,
)


class TeamViewSet(InTeam):
    """/teams, /teams/{team_slug}"""

    family = "teams"
    lookup_url_kwarg = "team_slug"
    lookup_value_converter = "team_slug"

    def find_place(self) -> Team | None:
        return super().find_place() if "team_slug" in self.kwargs else None

    @operation(
        Level.NONE,
        gives=TeamRecord,
        paged=True,
        query=(
            flag_query("all", "All teams of the site; for staff."),
            text_query("search", "Part of a name or slug, ignoring case."),
        ),
    )
    def list(self) -> dict[str, Any]:
        """List the caller's teams, or all for staff."""
        if self.params["all"]:
            check_level(None, self.caller, Level.STAFF)
            teams = Team.objects.all()
        else:
            teams = Team.objects.visible_to(self.caller)
        if self.params["search"]:
            teams = teams.search(self.params["search"])
        own = Member.objects.filter(team=OuterRef("pk"), user=self.caller)
        rows = teams.annotate(caller_role=Subquery(own.values("role")[:1])).order_by("slug")
        return self.page(rows, lambda row, _: team_record(row, row.caller_role))

    @operation(Level.NONE, takes=CreateTeam, gives=TeamRecord, status=201)
    def create(self) -> dict[str, Any]:
        """Create a team. The caller becomes its owner."""
        return self.record(actions.create_team(actor=self.caller, **self.input))

    @operation(Level.NONE, gives=TeamRecord)
    def retrieve(self) -> dict[str, Any]:
        """Read a team."""
        return self.record(self.team)

    @operation(Level.OWNER, takes=UpdateTeam, gives=TeamRecord, even_inactive=True)
    def update(self) -> dict[str, Any]:
        """Rename, re-address, retire or revive a team."""
        actions.update_team(actor=self.caller, team=self.team, **self.input)
        return self.record(self.team)

    def record(self, team: Team) -> dict[str, Any]:
        return team_record(team, team.role_of(self.caller))


class MemberViewSet(InTeam):
    """/teams/{team_slug}/members"""

    family = "teams"
    lookup_url_kwarg = "username"
    lookup_value_converter = "username"
    member: Member

    def enter(self) -> None:
        if "username" in self.kwargs:
            found = self.team.members.select_related("user", "added_by")
            self.member = get_object_or_404(found, user__username_key=self.kwargs["username"])
            self.member.team = self.team

    def check_access(self, declared: Operation) -> None:
        """Everybody may leave; anybody else's membership is the admins' business."""
        leaving = self.kwargs.get("username") == self.caller.username_key
        if self.action == "destroy" and leaving:
            self.team.check_open(self.caller, writing=True)
        else:
            super().check_access(declared)

    @operation(Level.READ, gives=MemberRecord, paged=True)
    def list(self) -> dict[str, Any]:
        """List the team's members, oldest first."""
        rows = self.team.members.select_related("user", "added_by").order_by("created_at", "id")
        return self.page(rows, member_record)

    @operation(Level.ADMIN, takes=AddMember, gives=MemberRecord, status=201)
    def create(self) -> dict[str, Any]:
        """Add a member."""
        user = named_user(self.input["username"])
        member = actions.add_member(
            actor=self.caller, team=self.team, user=user, role=self.input["role"]
        )
        return member_record(member)

    @operation(Level.READ, gives=MemberRecord)
    def retrieve(self) -> dict[str, Any]:
        """Read a member."""
        return member_record(self.member)

    @operation(Level.ADMIN, takes=UpdateMember, gives=MemberRecord)
    def update(self) -> dict[str, Any]:
        """Change a member's role."""
        actions.update_member(actor=self.caller, member=self.member, **self.input)
        return member_record(self.member)

    @operation(Level.ADMIN, status=204)
    def destroy(self) -> None:
        """Remove a member, or leave the team."""
        actions.remove_member(actor=self.caller, member=self.member)


class TeamActivityViewSet(InTeam):
    """/teams/{team_slug}/activity"""

    family = "teams"

    @operation(Level.READ, gives=ActivityRecord)
    def list(self) -> dict[str, Any]:
        """Count what went on in a team in the last 90 days."""
        subject = {"kind": "team", "slug": self.team.slug}
        return activity_record(subject, Key("team_id", self.team.pk), self.caller)


class CheckTeamSlugViewSet(ApiViewSet):
    """/check-team-slug"""

    family = "teams"

    @operation(
        Level.PUBLIC, gives=Availability, query=(name_query("slug"),), refuses={409: Availability}
    )
    def list(self) -> Response:
        """Tell whether a team's slug can be had."""
        return TEAM_SLUGS.answer(self.params["slug"], Team.objects.taken)


class SuggestUsersViewSet(ApiViewSet):
    """/suggest-users"""

    family = "users"

    @operation(
        Level.PUBLIC,
        gives=SuggestedUsers,
        query=(
            text_query(
                "name", "How a username or display name begins; without a token, 2 or more."
            ),
            text_query("email", "Exactly this address, ignoring case; only with a token."),
            text_query("team_slug", "Say who is in this team; only for its members."),
        ),
    )
    def list(self) -> dict[str, Any]:
        """Suggest active people: at most 10, and without a token 5."""
        known = self.request.auth is not None
        size, least = (10, 1) if known else (5, 2)
        team = self.team() if known and self.params["team_slug"] else None
        people = User.objects.filter(is_active=True)
        found: list[User] = []
        if known and self.params["email"]:
            found += people.filter(email_key=self.params["email"].lower())
        name = (self.params["name"] or "").strip()
        if len(name) >= least:
            found += people.beginning("username", name)[:size]
            found += people.beginning("display_name", name)[:size]
        shown = list(dict.fromkeys(found))[:size]
        members = team.members.filter(user__in=shown).values_list("user", flat=True) if team else []
        inside = set(members)
        return {"results": [suggested_user(user, user.pk in inside) for user in shown]}

    def team(self) -> Team:
        """The team that is asked about; 404, and 403 for whoever may not know its members."""
        team = get_object_or_404(Team, slug=self.params["team_slug"].lower())
        team.check_open(self.caller, writing=False)
        check_level(team, self.caller, Level.READ)
        return team
