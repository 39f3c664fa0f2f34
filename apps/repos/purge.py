"""The job that removes deleted things for good, when nobody can restore them any more.

Each step can be repeated: after a power failure the next run goes on. A repository's row goes last,
and then the row of the deletion.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import suppress
from fcntl import LOCK_EX
from typing import Any
from uuid import uuid4

from django.db import models, transaction
from django.db.models import F, Q, QuerySet
from django.utils import timezone

from apps.accounts.factors import Authenticator
from apps.accounts.models import Deletion, Invite, Theme, User
from apps.core.slugs import PLACEHOLDER
from apps.events.models import ActivityCount, Event, PingMail
from apps.events.record import rename_person
from apps.git import store
from apps.jobs.worker import OnDone
from apps.repos.models import Protection, Repo, RepoQuerySet
from apps.site import limits
from apps.site.models import RateLimit
from apps.teams.models import Team

BATCH = 500
"""Most rows that one statement deletes."""
logger = logging.getLogger(__name__)


def purge_deleted(on_done: OnDone) -> bool:
    """Remove everything whose `purge_at` has passed. One failure does not keep the others."""
    for deletion in Deletion.objects.filter(purge_at__lte=timezone.now()).order_by("purge_at"):
        try:
            purge(deletion)
        except Exception:
            logger.exception("%s could not be purged", deletion)
        else:
            on_done(f"{deletion} purged")
    return False


def purge(deletion: Deletion) -> None:
    """Remove the team, the repositories and the accounts of a deletion, and then its row. A team's
    repositories that were deleted before it go too. `OSError`, `DatabaseError`.
    """
    if not Deletion.objects.filter(pk=deletion.pk).update(is_purging=True):
        return  # it was restored
    for team in Team.objects.filter(deletion=deletion):
        # The deletion does not contain bots that were deactivated before it (teams/actions.py).
        bots = User.objects.filter(is_bot=True, deletion=None, memberships__team=team)
        bots.update(deletion=deletion, is_active=False)
        purge_repos(team.repos.all())
        remove_rows(Event.objects.filter(team_id=team.pk))
        remove_rows(ActivityCount.objects.filter(team_id=team.pk))
        remove_referring(Team, [team.pk])
        team.delete()
    purge_repos(Repo.objects.filter(deletion=deletion))
    users = User.objects.filter(deletion=deletion)
    for user in users.exclude(username__startswith=PLACEHOLDER).order_by("pk"):
        purge_user(user)
    first = users.order_by("pk").first()
    if first is None:
        deletion.delete()
    else:  # the rest of its row refers to the deletion
        Deletion.objects.filter(pk=deletion.pk).update(path=first.path, purge_at=None)


def purge_repos(repos: RepoQuerySet) -> None:
    for repo in repos.order_by("pk"):
        purge_repo(repo)


def purge_user(user: User) -> None:
    """Remove the data of an account. Its row stays as the author of texts, reviews and events, with
    a name that nobody has.
    """
    purge_repos(user.repos.all())
    remove_rows(Event.objects.filter(private_to=user.pk))
    own_rows = (user.tokens, user.sessions, user.memberships, user.pings, user.forks, user.ssh_keys)
    factors = (user.recovery_codes, user.passkeys, user.identities)
    for rows in (*own_rows, user.draft_reviews, *factors):
        remove_rows(rows.all())
    Authenticator.objects.filter(user=user).delete()
    PingMail.objects.filter(user=user).delete()
    RateLimit.objects.filter(scope__iexact=f"user:{user.username}").delete()
    limits.changed()
    own = Q(accepted_by=user) | Q(email_key=user.email_key or "nobody")
    Invite.objects.filter(own).update(email="", email_key="")
    placeholder = f"{PLACEHOLDER}{user.pk}"
    rename_person(user.username, placeholder)
    rename_reporter(user.username, placeholder)
    user.uuid, user.username, user.display_name, user.email = uuid4(), placeholder, "", ""
    user.is_staff = user.is_superuser = user.wants_mail = False
    user.has_second_factor = False
    user.last_login, user.last_seen_at, user.theme = None, None, Theme.SYSTEM.value
    user.set_unusable_password()
    user.save()


def rename_reporter(name: str, placeholder: str) -> None:
    """Replace a username in protections. An empty list would trust everybody with write access."""
    for row in Protection.objects.exclude(status_reporters=[]):
        if name in row.status_reporters:
            names = [placeholder if one == name else one for one in row.status_reporters]
            Protection.objects.filter(pk=row.pk).update(status_reporters=names)


def purge_repo(repo: Repo) -> None:
    """Remove a repository: its events, all rows that refer to it, its folder, and its row. Uploads
    lose their files at the next sweep of uploads.
    """
    threads = Event.objects.filter(repo_id=repo.pk).values("thread_id")
    PingMail.objects.filter(thread_id__in=threads).delete()
    remove_rows(Event.objects.filter(repo_id=repo.pk))
    remove_rows(ActivityCount.objects.filter(repo_id=repo.pk))
    remove_referring(Repo, [repo.pk])
    # A backup that copies the folder holds the lock.
    with suppress(FileNotFoundError), store.tidy_lock(repo.git.path, LOCK_EX):
        store.remove(repo.git.path)
    with transaction.atomic():
        Repo.objects.filter(copies=repo, fork_count__gt=0).update(fork_count=F("fork_count") - 1)
        repo.delete()


def remove_rows(rows: QuerySet[Any, Any]) -> None:
    """Delete rows and all rows that refer to them, in batches."""
    while pks := list(rows.values_list("pk", flat=True)[:BATCH]):
        remove_referring(rows.model, pks)
        rows.model._base_manager.filter(pk__in=pks).delete()


def remove_referring(model: type[models.Model], pks: list[Any]) -> None:
    """Delete the rows that refer to these rows of a model. Columns with `SET_NULL` become null."""
    for relation in relations_to(model):
        name = relation.field.name
        rows = relation.related_model._base_manager.filter(**{f"{name}__in": pks})
        if relation.on_delete is models.SET_NULL:
            rows.update(**{name: None})
        else:
            remove_rows(rows)


def relations_to(model: type[models.Model]) -> Iterator[Any]:
    """The relations of other models to this one, also those without a name here."""
    for field in model._meta.get_fields(include_hidden=True):
        if field.auto_created and not field.concrete and (field.one_to_many or field.one_to_one):
            yield field
