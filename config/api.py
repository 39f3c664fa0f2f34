"""The routes of the API: each line maps a path to its viewset."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rest_framework.routers import DynamicRoute, Route, SimpleRouter

from apps.accounts.views import (
    CheckUsernameViewSet,
    InviteViewSet,
    SessionViewSet,
    TokensOfUserViewSet,
    TokenViewSet,
    UserViewSet,
)
from apps.audit.views import (
    AuditExportOfTeamViewSet,
    AuditExportViewSet,
    AuditOfTeamViewSet,
    AuditViewSet,
)
from apps.browse.views import (
    ArchiveViewSet,
    BlameViewSet,
    BranchViewSet,
    CommitViewSet,
    ComparisonViewSet,
    ContentsViewSet,
    RawViewSet,
    TagViewSet,
    TreeViewSet,
)
from apps.core.views import ApiViewSet
from apps.events.views import EventViewSet, PingViewSet, TailViewSet
from apps.pulls.comment_views import CommentViewSet
from apps.pulls.comparison_views import PullComparisonViewSet
from apps.pulls.draft_views import DraftCommentViewSet, DraftReviewViewSet
from apps.pulls.reviewer_views import ReviewersViewSet
from apps.pulls.views import (
    CrossRepoPullViewSet,
    PullCommitViewSet,
    PullDiffViewSet,
    PullFileViewSet,
    PullPatchViewSet,
    PullVersionViewSet,
    PullViewedViewSet,
    PullViewSet,
    ReviewViewSet,
)
from apps.repos.views import (
    ApproverViewSet,
    CheckRepoSlugViewSet,
    ForkOfRepoViewSet,
    ForkOfTeamViewSet,
    ForkOfUserViewSet,
    ForksOfRepoViewSet,
    ForkViewSet,
    ProtectionViewSet,
    RepoViewSet,
)
from apps.site.views import RateLimitViewSet, SiteSettingsViewSet
from apps.ssh.views import DeployKeyViewSet, SshKeyViewSet
from apps.statuses.views import CombinedStatusViewSet, StatusViewSet
from apps.teams.views import (
    BotTokenViewSet,
    BotViewSet,
    CheckTeamSlugViewSet,
    MemberViewSet,
    SuggestUsersViewSet,
    TeamsOfUserViewSet,
    TeamViewSet,
)
from apps.threads.views import (
    CrossRepoThreadViewSet,
    ParticipantViewSet,
    ReplyVersionViewSet,
    ReplyViewSet,
    ThreadVersionViewSet,
    ThreadViewSet,
)
from apps.uploads.views import UploadsOfRepoViewSet, UploadViewSet
from apps.webhooks.views import (
    DeliveryOfRepoViewSet,
    DeliveryOfSiteViewSet,
    DeliveryOfTeamViewSet,
    WebhookOfRepoViewSet,
    WebhookOfSiteViewSet,
    WebhookOfTeamViewSet,
)
from config.moving.views import PersonExportViewSet
from config.offboarding.views import OffboardViewSet
from config.views import DocumentViewSet


class PatchRouter(SimpleRouter):
    """Routes `PATCH` of a record to the method that answers its `PUT`.

    The two differ in the required fields (`Operation.request_of`). A `PUT` that changes no record
    as a whole, such as `revoke`, has no `PATCH`, and neither has a viewset without this method.
    """

    def get_method_map(self, viewset: Any, method_map: Mapping[str, str]) -> dict[str, str]:
        bound: dict[str, str] = super().get_method_map(viewset, method_map)
        is_allowed = "patch" in viewset.http_method_names
        if is_allowed and bound.get("put") in {"update", "update_own"}:
            bound.setdefault("patch", bound["put"])
        return bound


class ListRouter(PatchRouter):
    """Routes resources that are lists. The deletion of a whole list is `delete_all`."""

    routes = [
        Route(
            url=r"^{prefix}{trailing_slash}$",
            mapping={"get": "list", "post": "create", "delete": "delete_all"},
            name="{basename}-list",
            detail=False,
            initkwargs={"suffix": "List"},
        ),
        *SimpleRouter.routes[1:],
    ]


class SingletonRouter(PatchRouter):
    """Routes resources that exist once: no list, and no key in the path."""

    routes = [
        Route(
            url=r"^{prefix}{trailing_slash}$",
            mapping={"get": "retrieve", "put": "update", "delete": "destroy"},
            name="{basename}-detail",
            detail=True,
            initkwargs={"suffix": "Instance"},
        ),
        DynamicRoute(
            url=r"^{prefix}/{url_path}{trailing_slash}$",
            name="{basename}-{url_name}",
            detail=True,
            initkwargs={},
        ),
    ]


router = ListRouter(trailing_slash=False, use_regex_path=False)
singletons = SingletonRouter(trailing_slash=False, use_regex_path=False)


def route(prefix: str, viewset: type[ApiViewSet]) -> None:
    """Route a resource; the prefix gives its routes unique names."""
    router.register(prefix, viewset, basename=prefix.replace("/", "-").replace(":", "-"))


def route_singleton(prefix: str, viewset: type[ApiViewSet]) -> None:
    """Route a resource that exists once at its path."""
    singletons.register(prefix, viewset, basename=prefix.replace("/", "-").replace(":", "-"))


route_singleton("openapi.json", DocumentViewSet)
route("api-tokens", TokenViewSet)
route("signup-invites", InviteViewSet)
route("users", UserViewSet)
route_singleton("users/self/export", PersonExportViewSet)
route("users/self/sessions", SessionViewSet)
route("users/self/keys", SshKeyViewSet)
route_singleton("users/<username:username>/offboard", OffboardViewSet)
route("users/<username:username>/sessions", SessionViewSet)
route("users/<username:username>/tokens", TokensOfUserViewSet)
route("users/<username:username>/teams", TeamsOfUserViewSet)
route_singleton("check-username", CheckUsernameViewSet)
route_singleton("check-team-slug", CheckTeamSlugViewSet)
route_singleton("suggest-users", SuggestUsersViewSet)
route("events", EventViewSet)
route("pings", PingViewSet)
route("forks", ForkViewSet)
route("rate-limits", RateLimitViewSet)
route_singleton("site-settings", SiteSettingsViewSet)
route_singleton("tail-events", TailViewSet)
route("threads", CrossRepoThreadViewSet)
route("pulls", CrossRepoPullViewSet)
route("uploads", UploadViewSet)
route("teams", TeamViewSet)
route("teams/<team_slug:team_slug>/members", MemberViewSet)
route("teams/<team_slug:team_slug>/bots", BotViewSet)
route("teams/<team_slug:team_slug>/bots/<username:username>/api-tokens", BotTokenViewSet)
deliveries = "webhooks/<uid:webhook_uuid>/deliveries"
route("webhooks", WebhookOfSiteViewSet)
route(deliveries, DeliveryOfSiteViewSet)
route("teams/<team_slug:team_slug>/webhooks", WebhookOfTeamViewSet)
route(f"teams/<team_slug:team_slug>/{deliveries}", DeliveryOfTeamViewSet)
route("audit", AuditViewSet)
route_singleton("audit/export", AuditExportViewSet)
route("teams/<team_slug:team_slug>/audit", AuditOfTeamViewSet)
route_singleton("teams/<team_slug:team_slug>/audit/export", AuditExportOfTeamViewSet)
for owner in ("teams/<team_slug:team_slug>", "users/<username:username>"):
    repo = f"{owner}/repos/<repo_slug:repo_slug>"
    route_singleton(f"{owner}/check-repo-slug", CheckRepoSlugViewSet)
    route(f"{owner}/repos", RepoViewSet)
    route(f"{repo}/protections", ProtectionViewSet)
    route(f"{repo}/keys", DeployKeyViewSet)
    route(f"{repo}/protections/<uid:protection_uuid>/approvers", ApproverViewSet)
    route_singleton(f"{repo}/fork", ForkOfRepoViewSet)
    route(f"{repo}/forks", ForksOfRepoViewSet)
    route(f"{repo}/forks/user", ForkOfUserViewSet)
    route(f"{repo}/forks/team", ForkOfTeamViewSet)
    route(f"{repo}/uploads", UploadsOfRepoViewSet)
    route(f"{repo}/branches", BranchViewSet)
    route(f"{repo}/tags", TagViewSet)
    route(f"{repo}/threads", ThreadViewSet)
    route(f"{repo}/threads/<number:number>/participants", ParticipantViewSet)
    route(f"{repo}/threads/<number:number>/versions", ThreadVersionViewSet)
    route(f"{repo}/threads/<number:number>/replies", ReplyViewSet)
    replies = f"{repo}/threads/<number:number>/replies"
    route(f"{replies}/<number:reply_number>/versions", ReplyVersionViewSet)
    route(f"{repo}/webhooks", WebhookOfRepoViewSet)
    route(f"{repo}/{deliveries}", DeliveryOfRepoViewSet)
    route_singleton(f"{repo}/archive", ArchiveViewSet)
    route(f"{repo}/blame", BlameViewSet)
    route(f"{repo}/compare", ComparisonViewSet)
    route(f"{repo}/commits", CommitViewSet)
    route(f"{repo}/commits/<segment:sha>/statuses", StatusViewSet)
    route_singleton(f"{repo}/commits/<segment:sha>/status", CombinedStatusViewSet)
    route(f"{repo}/tree", TreeViewSet)
    route(f"{repo}/tree/<tree_path:path>", TreeViewSet)
    route(f"{repo}/contents", ContentsViewSet)
    route(f"{repo}/raw", RawViewSet)
    route(f"{repo}/pulls", PullViewSet)
    route(f"{repo}/pulls/<number:number>/reviews", ReviewViewSet)
    route(f"{repo}/pulls/<number:number>/comments", CommentViewSet)
    route_singleton(f"{repo}/pulls/<number:number>/reviewers", ReviewersViewSet)
    route_singleton(f"{repo}/pulls/<number:number>/reviews/draft", DraftReviewViewSet)
    route(f"{repo}/pulls/<number:number>/reviews/draft/comments", DraftCommentViewSet)
    route(f"{repo}/pulls/<number:number>/versions", PullVersionViewSet)
    route(f"{repo}/pulls/<number:number>/commits", PullCommitViewSet)
    route(f"{repo}/pulls/<number:number>/files", PullFileViewSet)
    route_singleton(f"{repo}/pulls/<number:number>/viewed", PullViewedViewSet)
    route(f"{repo}/pulls/<number:number>/compare", PullComparisonViewSet)
    route_singleton(f"{repo}/pulls/<number:number>/diff", PullDiffViewSet)
    route_singleton(f"{repo}/pulls/<number:number>/patch", PullPatchViewSet)

urlpatterns = [*router.urls, *singletons.urls]
