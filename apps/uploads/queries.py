"""Queries for uploads, for the API."""

from __future__ import annotations

from uuid import UUID

from apps.accounts.principal import Principal
from apps.core.access import Level
from apps.core.lookup import get_or_missing
from apps.repos.access import access_to
from apps.uploads.models import Upload

OWNERS = ("repo__owner_team", "repo__owner_user", "created_by")


def get_upload(principal: Principal, uuid: UUID) -> Upload:
    """The upload, if the principal may read its repository. 404, 403 `forbidden`, `team_inactive`.

    A deleted upload is 404.
    """
    upload: Upload = get_or_missing(
        Upload.objects.existing().select_related(*OWNERS), "upload", uuid=uuid
    )
    access = access_to(principal, upload.repo)
    access.check_open(writing=False)
    access.require(Level.READ)
    return upload
