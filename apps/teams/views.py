"""`/teams`, their members and activity, and who might be meant: `/suggest-users`."""

from __future__ import annotations

from typing import Any

from rest_framework.decorators import action
from rest_framework.request import Request
from rest_framework.response import Response

from apps.accounts.principal import Principal
from apps.accounts.rules import named_user
from apps.core.access import Level
from apps.core.availability import TEAM_SLUGS, Availability, SlugQuery
from apps.core.lookup import get_or_missing
from apps.core.operation import operation
from apps.core.query import FlagParameter, QuerySerializer, TextParameter
from apps.core.views import ApiViewSet
from apps.events.activity import ActivityRecord, activity_record
from apps.events.models import Key
from apps.teams import actions, queries
from apps.teams.access import TeamAccess, TeamScoped, open_team
from apps.teams.filters import TeamFilterSet
from apps.teams.models import Member, Team
from apps.teams.rules import check_may_set
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


class TeamQuery(QuerySerializer):
    all = FlagParameter(help_text="All teams of the site; for staff.")


class SuggestQuery(QuerySerializer):
    name = TextParameter(
        required=False,
        help_text="How a username or display name begins; without a token, 2 or more.",
    )
    email = TextParameter(
        required=False, help_text="Exactly this address, ignoring case; only with a token."
    )
    team_slug = TextParameter(
        required=False, help_text="Say who is in this team; only for its members."
    )


class TeamViewSet(TeamScoped):
    """/teams, /teams/{team_slug}, /teams/{team_slug}/activity"""

    schema_tags = ["teams"]
    lookup_url_kwarg = "team_slug"
    lookup_value_converter = "team_slug"

    queryset = Team.objects.all()
    filterset_class = TeamFilterSet

    def open(self) -> TeamAccess | None:
        return super().open() if "team_slug" in self.kwargs else None

    @operation(Level.NONE, response=TeamRecord, query=TeamQuery, errors=("staff_required",))
    def list(self) -> Response:
        """List the caller's teams, or all for staff."""
        if self.validated_query["all"]:
            self.principal.check_staff()
        teams = queries.list_teams(self.principal, everybodys=self.validated_query["all"])
        return self.page_of(teams, lambda row: team_record(row, row.caller_role))

    @operation(
        Level.NONE, request=CreateTeam, response=TeamRecord, status=201, errors=("slug_taken",)
    )
    def create(self) -> dict[str, Any]:
        """Create a team. The caller becomes its owner."""
        return self.record(actions.create_team(by=self.principal, **self.validated_data))

    @operation(Level.NONE, response=TeamRecord)
    def retrieve(self) -> dict[str, Any]:
        """Read a team."""
        return self.record(self.team)

    @operation(
        Level.OWNER,
        request=UpdateTeam,
        response=TeamRecord,
        even_inactive=True,
        errors=("slug_taken",),
    )
    def update(self) -> dict[str, Any]:
        """Rename, re-address, retire or revive a team."""
        actions.update_team(by=self.access, **self.validated_data)
        return self.record(self.team)

    @action(detail=True, methods=["get"])
    @operation(Level.READ, response=ActivityRecord)
    def activity(self) -> dict[str, Any]:
        """Count what went on in a team in the last 90 days."""
        subject = {"kind": "team", "slug": self.team.slug}
        return activity_record(subject, Key("team_id", self.team.pk), self.principal)

    def record(self, team: Team) -> dict[str, Any]:
        return team_record(team, team.role_of(self.principal.person_id))


class MemberViewSet(TeamScoped):
    """/teams/{team_slug}/members"""

    schema_tags = ["teams"]
    lookup_url_kwarg = "username"
    lookup_value_converter = "username"
    member: Member

    def load_objects(self) -> None:
        if "username" in self.kwargs:
            found = queries.list_members(self.team)
            self.member = get_or_missing(
                found, "member", self.team.slug, user__username_key=self.kwargs["username"]
            )
            self.member.team = self.team

    @property
    def leaving(self) -> bool:
        """Whether the caller ends their own membership."""
        own = self.kwargs.get("username") == self.principal.user.username_key
        return own and self.action == "destroy"

    @property
    def even_inactive(self) -> bool:
        """Nobody is kept in a team because it is inactive."""
        return self.leaving

    def check_permissions(self, request: Request) -> None:
        """Everybody may leave; anybody else's membership is the admins' business."""
        if not self.leaving:
            super().check_permissions(request)

    def check_again(self, kept: Any) -> None:
        super().check_again(kept)
        check_may_set(self.access, self.validated_data["role"])

    @operation(Level.READ, response=MemberRecord)
    def list(self) -> Response:
        """List the team's members, oldest first."""
        return self.page_of(queries.list_members(self.team), member_record)

    @operation(
        Level.ADMIN,
        request=AddMember,
        response=MemberRecord,
        status=201,
        errors=("member_exists", "user_not_found"),
    )
    def create(self) -> dict[str, Any]:
        """Add a member."""
        user = named_user(self.validated_data["username"])
        member = actions.add_member(by=self.access, user=user, role=self.validated_data["role"])
        return member_record(member)

    @operation(Level.READ, response=MemberRecord)
    def retrieve(self) -> dict[str, Any]:
        """Read a member."""
        return member_record(self.member)

    @operation(Level.ADMIN, request=UpdateMember, response=MemberRecord, errors=("last_owner",))
    def update(self) -> dict[str, Any]:
        """Change a member's role."""
        actions.update_member(by=self.access, member=self.member, **self.validated_data)
        return member_record(self.member)

    @operation(Level.ADMIN, status=204, errors=("last_owner",))
    def destroy(self) -> None:
        """Remove a member, or leave the team."""
        actions.remove_member(by=self.access, member=self.member)


class CheckTeamSlugViewSet(ApiViewSet):
    """/check-team-slug"""

    schema_tags = ["teams"]

    @operation(
        Level.PUBLIC, response=Availability, query=SlugQuery, other_responses={409: Availability}
    )
    def retrieve(self) -> Response:
        """Tell whether a team's slug can be had."""
        return TEAM_SLUGS.answer(self.validated_query.get("slug"), Team.objects.taken)


class SuggestUsersViewSet(ApiViewSet):
    """/suggest-users"""

    schema_tags = ["users"]
    principal: Principal

    @operation(
        Level.PUBLIC,
        response=SuggestedUsers,
        query=SuggestQuery,
        errors=("forbidden", "not_found", "team_inactive"),
    )
    def retrieve(self) -> dict[str, Any]:
        """Suggest active people: at most 10, and without a token 5."""
        asked, team = self.validated_query, None
        if self.principal.is_signed_in and asked.get("team_slug"):
            team = open_team(self.principal, asked["team_slug"].lower()).team
        found = queries.suggest_users(
            self.principal, name=asked.get("name", "").strip(), email=asked.get("email", "")
        )
        inside = queries.members_among(found, team)
        return {"results": [suggested_user(user, user.pk in inside) for user in found]}
