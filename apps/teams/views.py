"""`/teams` and `/teams/{team_slug}/members`."""

from __future__ import annotations

from typing import Any

from django.db.models import OuterRef, Subquery
from django.shortcuts import get_object_or_404

from apps.accounts.rules import named_user
from apps.core.access import Level, check_level
from apps.core.operation import Operation, operation
from apps.core.parsers import flag_query, text_query
from apps.teams import actions
from apps.teams.doors import InTeam
from apps.teams.models import Member, Team
from apps.teams.serializers import (
    AddMember,
    CreateTeam,
    MemberRecord,
    TeamRecord,
    UpdateMember,
    UpdateTeam,
    member_record,
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
