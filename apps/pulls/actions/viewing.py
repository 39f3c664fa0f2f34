"""The actions that store how far a person has read the changes of a pull. They have no events,
because only this person sees them.
"""

from __future__ import annotations

from django.db import transaction
from django.db.models import F

from apps.browse.names import path_in_tree
from apps.core.access import Level
from apps.git.diff import FileChange
from apps.pulls.models import Pull, PullVersion, SeenVersion, ViewedFile
from apps.pulls.seen import change_key
from apps.pulls.versions import file_in, files_of, version_with_head
from apps.repos.access import RepoAccess
from apps.repos.http.transfer_slots import PERSON


def set_viewed(
    *,
    access: RepoAccess,
    pull: Pull,
    path: str,
    is_viewed: bool,
    path_base64: str | None = None,
    head_sha: str | None = None,
) -> PullVersion:
    """`mark_file`, with the file in the form of the API; returns its version. `head_sha`: the head
    of a version, by default the newest. 404, 422 `invalid_path`, `too_expensive`.
    """
    access.require_change(Level.READ)
    access.check_holds(pull)
    raw = path_in_tree(path, path_base64)
    version = version_with_head(pull, head_sha)
    file = file_in(files_of(version, f"{PERSON}{access.user.pk}"), raw)
    mark_file(access=access, pull=pull, file=file, is_viewed=is_viewed)
    return version


@transaction.atomic
def mark_file(*, access: RepoAccess, pull: Pull, file: FileChange, is_viewed: bool) -> None:
    """Mark the change of a file of a version of the pull as viewed by this person, or remove the
    mark. Repeating it changes nothing.
    """
    access.require_change(Level.READ)
    access.check_holds(pull)
    fields = {"pull": pull, "user": access.user, "key": change_key(file)}
    if is_viewed:
        ViewedFile.objects.bulk_create([ViewedFile(**fields)], ignore_conflicts=True)
    else:
        ViewedFile.objects.filter(**fields).delete()


@transaction.atomic
def see_version(*, access: RepoAccess, pull: Pull, version: int) -> None:
    """Store that this person has opened the changes of this version. An earlier one than they have
    seen changes nothing.
    """
    access.require(Level.READ)
    access.check_holds(pull)
    rows = SeenVersion.objects.filter(pull=pull, user=access.user)
    newer = {"previous_version": F("version"), "version": version}
    if not rows.filter(version__lt=version).update(**newer):
        row = SeenVersion(pull=pull, user=access.user, version=version)
        SeenVersion.objects.bulk_create([row], ignore_conflicts=True)
