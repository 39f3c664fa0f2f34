"""The resources `/teams`, `…/members`, `…/bots`, `…/activity` and `/suggest-users`."""

from __future__ import annotations

from typing import Any

from rest_framework.decorators import action
from rest_framework.request import Request
from rest_framework.response import Response

from apps.accounts.models import ApiToken
from apps.accounts.principal import Principal
from apps.accounts.queries import list_tokens
from apps.accounts.rules import named_user
from apps.accounts.serializers import (
    ConfirmQuery,
    CreateBotToken,
    DeletionRecord,
    NewTokenRecord,
    RotateToken,
    TokenRecord,
    deletion_record,
)
from apps.accounts.views import OfUser, check_stored_token, token_records
from apps.core.access import Level, Permission
from apps.core.availability import TEAM_SLUGS, Availability, SlugQuery
from apps.core.filters import SearchFilter, StrictFilterSet
from apps.core.lookup import get_or_missing
from apps.core.operation import operation
from apps.core.query import FlagParameter, QuerySerializer, TextParameter
from apps.core.views import ApiViewSet
from apps.events.models import Key
from apps.events.serializers import ActivityRecord, activity_record
from apps.teams import actions, queries
from apps.teams.access import TeamAccess, TeamScoped, open_team
from apps.teams.models import Member, Team
from apps.teams.rules import check_may_set
from apps.teams.serializers import (
    AddMember,
    BotRecord,
    CreateBot,
    CreateTeam,
    MemberRecord,
    SuggestedUsers,
    TeamOfUserRecord,
    TeamRecord,
    UpdateBot,
    UpdateMember,
    UpdateTeam,
    bot_record,
    member_record,
    suggested_user,
    team_record,
)


class TeamQuery(QuerySerializer):
    all = FlagParameter(help_text="All teams of the site; only for staff.")


class SuggestQuery(QuerySerializer):
    name = TextParameter(
        required=False,
        help_text="The beginning of a username or display name; 2 letters or more without a token.",
    )
    people_only = FlagParameter(help_text="Leave bots out.")
    email = TextParameter(
        required=False, help_text="A whole address, ignoring case; only with a token."
    )
    team_slug = TextParameter(
        required=False, help_text="Fill `is_member` for this team; only for its members."
    )


class TeamsOfUserViewSet(OfUser):
    """/users/{username}/teams"""

    noun = "teams"
    schema_tags = ["teams"]
    queryset = Team.objects.all()

    @operation(Level.NONE, response=TeamOfUserRecord, errors=("staff_required",))
    def list(self) -> Response:
        """List a person's teams, by slug, with their role in each."""
        teams = queries.list_teams_of(self.principal, self.user)
        return self.page_of(
            teams, lambda row: {**team_record(row, row.caller_role), "role": row.role}
        )


class TeamFilterSet(StrictFilterSet):
    search = SearchFilter("Part of a name or slug, ignoring case.")


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
        """List the caller's teams or, for staff, all teams."""
        if self.validated_query["all"]:
            self.principal.check_staff()
        teams = queries.list_teams(self.principal, everybodys=self.validated_query["all"])
        return self.page_of(teams, lambda row: team_record(row, row.caller_role))

    @operation(
        Level.NONE,
        permission=Permission.ADMIN,
        request=CreateTeam,
        response=TeamRecord,
        status=201,
        errors=("person_required", "slug_taken"),
    )
    def create(self) -> dict[str, Any]:
        """Create a team. The caller becomes its owner."""
        return self.record(actions.create_team(principal=self.principal, **self.validated_data))

    @operation(Level.NONE, response=TeamRecord)
    def retrieve(self) -> dict[str, Any]:
        """Read a team."""
        return self.record(self.team)

    @operation(
        Level.OWNER,
        request=UpdateTeam,
        response=TeamRecord,
        even_inactive=True,
        errors=("slug_taken", "staff_required"),
    )
    def update(self) -> dict[str, Any]:
        """Change a team's name or slug, deactivate it or activate it again."""
        actions.update_team(access=self.access, **self.validated_data)
        return self.record(self.team)

    @operation(
        Level.OWNER, query=ConfirmQuery, response=DeletionRecord, status=202, even_inactive=True
    )
    def destroy(self) -> dict[str, Any]:
        """Delete a team with all its repositories, also an inactive one.

        `confirm` is its slug. Team and repositories are gone at once for everybody. Staff can
        restore them until `purge_at`; the slug is reserved until then.
        """
        return deletion_record(actions.delete_team(access=self.access, **self.validated_query))

    @action(detail=True, methods=["get"])
    @operation(Level.READ, response=ActivityRecord)
    def activity(self) -> dict[str, Any]:
        """Count the events of a team in the last 90 days."""
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
            members = queries.list_members(self.team)
            self.member = get_or_missing(
                members, "member", self.team.slug, user__username_key=self.kwargs["username"]
            )
            self.member.team = self.team

    def record_of(self, member: Member) -> dict[str, Any]:
        return member_record(member, self.access)

    @property
    def leaving(self) -> bool:
        """Whether the caller removes their own membership."""
        own = self.kwargs.get("username") == self.principal.user.username_key
        return own and self.action == "destroy"

    @property
    def even_inactive(self) -> bool:
        """Members may leave an inactive team."""
        return self.leaving

    def check_permissions(self, request: Request) -> None:
        """Members who leave need no level, only the permission of their token."""
        if self.leaving:
            self.access.check_permission(Permission.ADMIN)
        else:
            super().check_permissions(request)

    def check_again(self, stored: Any) -> None:
        super().check_again(stored)
        check_may_set(self.access, self.validated_data["role"])

    @operation(Level.READ, response=MemberRecord)
    def list(self) -> Response:
        """List the team's members, oldest first."""
        return self.page_of(queries.list_members(self.team), self.record_of)

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
        member = actions.add_member(access=self.access, user=user, role=self.validated_data["role"])
        return self.record_of(member)

    @operation(Level.READ, response=MemberRecord)
    def retrieve(self) -> dict[str, Any]:
        """Read a member."""
        return self.record_of(self.member)

    @operation(Level.ADMIN, request=UpdateMember, response=MemberRecord, errors=("last_owner",))
    def update(self) -> dict[str, Any]:
        """Change a member's role."""
        actions.update_member(access=self.access, member=self.member, **self.validated_data)
        return self.record_of(self.member)

    @operation(Level.ADMIN, status=204, errors=("invalid_transition", "last_owner"))
    def destroy(self) -> None:
        """Remove a member, or leave the team."""
        actions.remove_member(access=self.access, member=self.member)


class OfBot(TeamScoped):
    """A bot of a team, and the resources below it."""

    schema_tags = ["teams"]
    bot: Member

    def load_objects(self) -> None:
        if "username" in self.kwargs:
            bots, key = queries.list_bots(self.team), self.kwargs["username"]
            self.bot = get_or_missing(bots, "bot", self.team.slug, user__username_key=key)
            self.bot.team = self.team


class BotViewSet(OfBot):
    """/teams/{team_slug}/bots"""

    lookup_url_kwarg = "username"
    lookup_value_converter = "username"

    @operation(Level.READ, response=BotRecord)
    def list(self) -> Response:
        """List the team's bots, oldest first."""
        return self.page_of(queries.list_bots(self.team), self.record)

    @operation(
        Level.OWNER,
        request=CreateBot,
        response=BotRecord,
        status=201,
        errors=("bot_limit", "slug_taken"),
    )
    def create(self) -> dict[str, Any]:
        """Create a bot: an account of the team for a program, without password and address."""
        return self.record(actions.create_bot(access=self.access, **self.validated_data))

    @operation(Level.READ, response=BotRecord)
    def retrieve(self) -> dict[str, Any]:
        """Read a bot."""
        return self.record(self.bot)

    @operation(Level.OWNER, request=UpdateBot, response=BotRecord)
    def update(self) -> dict[str, Any]:
        """Change a bot's display name. Its role is changed as that of a member."""
        actions.update_bot(access=self.access, bot=self.bot, **self.validated_data)
        return self.record(self.bot)

    @operation(Level.OWNER, status=204, even_inactive=True)
    def destroy(self) -> None:
        """Close a bot's account for good, also in an inactive team.

        Its tokens are revoked, its live streams and pushes end, and it leaves the team. Its texts
        stay under its name, which nobody else can take.
        """
        actions.delete_bot(access=self.access, bot=self.bot)

    def record(self, bot: Member) -> dict[str, Any]:
        return bot_record(bot, self.base_url)


class BotTokenViewSet(OfBot):
    """/teams/{team_slug}/bots/{username}/api-tokens"""

    schema_tags = ["api-tokens"]
    queryset = ApiToken.objects.all()
    lookup_url_kwarg = "uuid"
    lookup_value_converter = "uid"
    token: ApiToken

    def load_objects(self) -> None:
        super().load_objects()
        if "uuid" in self.kwargs:
            tokens = list_tokens(self.bot.user)
            self.token = get_or_missing(tokens, "API token", uuid=self.kwargs["uuid"])

    def check_again(self, stored: Any) -> None:
        super().check_again(stored)
        check_stored_token(self.principal, stored)

    @operation(Level.OWNER, response=TokenRecord)
    def list(self) -> Response:
        """List the API tokens of a bot, newest first, without their text."""
        tokens = self.paginate(list_tokens(self.bot.user))
        return self.get_paginated_response(token_records(tokens, self.principal))

    @operation(
        Level.OWNER,
        request=CreateBotToken,
        response=NewTokenRecord,
        status=201,
    )
    def create(self) -> dict[str, Any]:
        """Create an API token of a bot. Only this answer contains its text."""
        token, text = actions.create_bot_token(
            access=self.access, bot=self.bot, **self.validated_data
        )
        return self.record(token, text)

    @operation(Level.OWNER, status=204, even_inactive=True)
    def destroy(self) -> None:
        """Delete an API token of a bot, also in an inactive team."""
        actions.delete_bot_token(access=self.access, bot=self.bot, token=self.token)

    @action(detail=True, methods=["put"])
    @operation(
        Level.OWNER,
        request=RotateToken,
        response=NewTokenRecord,
        errors=("invalid_transition",),
    )
    def rotate(self) -> dict[str, Any]:
        """Give an API token of a bot a new text, which only this answer contains.

        The old text is valid for `keep_old` more. Everything else stays as it is.
        """
        text = actions.rotate_bot_token(
            access=self.access, bot=self.bot, token=self.token, **self.validated_data
        )
        return self.record(self.token, text)

    def record(self, token: ApiToken, text: str) -> dict[str, Any]:
        [record] = token_records([token], self.principal)
        return {**record, "token": text}


class CheckTeamSlugViewSet(ApiViewSet):
    """/check-team-slug"""

    schema_tags = ["teams"]

    @operation(
        Level.PUBLIC, response=Availability, query=SlugQuery, other_responses={409: Availability}
    )
    def retrieve(self) -> Response:
        """Check whether a team's slug is available."""
        return TEAM_SLUGS.answer(self.validated_query.get("slug"), Team.objects.taken)


class SuggestUsersViewSet(ApiViewSet):
    """/suggest-users"""

    schema_tags = ["users"]
    principal: Principal

    @operation(
        Level.PUBLIC,
        response=SuggestedUsers,
        query=SuggestQuery,
        errors=("forbidden", "not_found", "team_inactive", "token_scope"),
    )
    def retrieve(self) -> dict[str, Any]:
        """Suggest active people: at most 10, and without a token 5."""
        query, team = self.validated_query, None
        if self.principal.is_signed_in and query.get("team_slug"):
            team = open_team(self.principal, query["team_slug"].lower()).team
        users = queries.suggest_users(
            self.principal,
            name=query.get("name", "").strip(),
            email=query.get("email", ""),
            people_only=query["people_only"],
        )
        members = team.members.filter(user__in=users).values_list("user", flat=True) if team else ()
        member_ids = {*members}
        return {"results": [suggested_user(user, user.pk in member_ids) for user in users]}
