"""The actions that store how far a person has read the changes of a pull. They have no events,
because only this person sees them.
"""

from __future__ import annotations

from django.db import transaction
from django.db.models import F

from apps.core.access import Level
from apps.git.diff import FileChange
from apps.pulls.models import Pull, SeenVersion, ViewedFile
from apps.pulls.seen import change_key
from apps.repos.access import RepoAccess


@transaction.atomic
def set_viewed(*, access: RepoAccess, pull: Pull, file: FileChange, is_viewed: bool) -> None:
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
