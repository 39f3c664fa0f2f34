"""Access to webhooks: by that to their repository or team, or as staff for those of the site."""

from __future__ import annotations

from dataclasses import dataclass

from apps.accounts.access import ResourceAccess
from apps.accounts.principal import Principal
from apps.core.access import Level
from apps.core.locks import hold, lock
from apps.repos.access import RepoAccess, access_to
from apps.repos.models import Repo
from apps.teams.access import TeamAccess, access_to_team
from apps.teams.models import Team
from apps.webhooks.models import Webhook


@dataclass(frozen=True)
class SiteAccess(ResourceAccess):
    """Access to the site, which only staff has."""

    @property
    def name(self) -> str:
        return "the site"

    @property
    def api_path(self) -> str:
        return ""

    def require(self, required: Level) -> None:
        """403 `staff_required`, `token_scope`."""
        self.principal.check_staff()


WebhookAccess = RepoAccess | TeamAccess | SiteAccess


def access_to_site(principal: Principal) -> SiteAccess:
    """Access to the site: that of an owner for staff, and none for others."""
    level = Level.OWNER if principal.is_of_staff else Level.NONE
    return SiteAccess(principal, level)


def access_to_webhook(principal: Principal, webhook: Webhook) -> WebhookAccess:
    """Access to the repository or team of a loaded webhook, or to the site."""
    if webhook.repo is not None:
        return access_to(principal, webhook.repo)
    if webhook.team is not None:
        return access_to_team(principal, webhook.team)
    return access_to_site(principal)


def owner_of(access: WebhookAccess) -> tuple[Repo | None, Team | None]:
    """The repository and the team of the webhooks below this access: one of them, or neither."""
    if isinstance(access, RepoAccess):
        return access.repo, None
    return None, access.team if isinstance(access, TeamAccess) else None


def lock_owner(access: WebhookAccess) -> None:
    """Lock the repository, the team, or all webhooks of the site. Errors as `check_writable`."""
    if isinstance(access, RepoAccess):
        access.locked()
    elif isinstance(access, TeamAccess):
        lock(access.team)
        access.check_open(writing=True)
    else:
        hold("webhooks of the site")


def check_belongs(access: WebhookAccess, webhook: Webhook) -> None:
    """`ValueError` if the webhook belongs to another repository or team, or to the site."""
    repo, team = owner_of(access)
    if (repo and repo.pk, team and team.pk) != (webhook.repo_id, webhook.team_id):
        raise ValueError(f"{webhook!r} is not in {access.name}")
