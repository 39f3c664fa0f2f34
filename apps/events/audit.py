"""The audit log: who changed accounts, tokens, teams and settings, and from where.

It has a table of its own, so that no list, stream or webhook of events can contain an entry.
"""

from __future__ import annotations

import datetime as dt

from django.conf import settings
from django.core.serializers.json import DjangoJSONEncoder
from django.db import models

from apps.core.access import Principal
from apps.core.origins import PROGRAM_MAX

ADDRESS_MAX = 50
"""Most characters of an address: the /64 of an IPv6 address has 23."""
BATCH_SIZE = 1000
"""Entries that one transaction deletes."""


class AuditQuerySet(models.QuerySet["AuditEntry"]):
    def visible_to(self, principal: Principal) -> AuditQuerySet:
        """Staff reads all entries. Owners of a team read those that `list_team_entries` selects."""
        return self if principal.is_staff else self.none()

    def page(self, *, after: int, before: int, size: int, newest_first: bool) -> list[AuditEntry]:
        """At most `size` entries with `after` < id < `before`, in order, with their actors."""
        rows = self.filter(id__gt=after, id__lt=before).select_related("actor")
        return [*rows.order_by("-id" if newest_first else "id")[:size]]

    def since(self, time: dt.datetime) -> AuditQuerySet:
        """The entries from this time on; one query for the first of them.

        Ids are in the order of time. Bounds of ids let the index of another filter do all the work.
        """
        later = AuditEntry.objects.filter(created_at__gte=time).order_by("created_at", "id")
        first = later.values_list("id", flat=True).first()
        return self.none() if first is None else self.filter(id__gte=first)

    def until(self, time: dt.datetime) -> AuditQuerySet:
        """The entries before this time; one query for the last of them."""
        earlier = AuditEntry.objects.filter(created_at__lt=time).order_by("-created_at", "-id")
        last = earlier.values_list("id", flat=True).first()
        return self.none() if last is None else self.filter(id__lte=last)


class AuditEntry(models.Model):
    """One entry. Ids become visible in order, as those of events. It never contains a secret.

    Ids of teams and repositories are plain integers, as those of an event.
    """

    kind = models.CharField(max_length=40)
    actor = models.ForeignKey(
        settings.AUTH_USER_MODEL,
        null=True,
        on_delete=models.PROTECT,
        related_name="+",
        db_index=False,  # `audit_actor` begins with it
    )
    person_id = models.BigIntegerField(null=True)
    """The account that was changed, or that somebody signed in to."""
    team_id = models.BigIntegerField(null=True)
    """The team whose owners may read the entry."""
    repo_id = models.BigIntegerField(null=True)
    address = models.CharField(max_length=ADDRESS_MAX)
    """The client's address; empty outside requests."""
    program = models.CharField(max_length=PROGRAM_MAX)
    """The `User-Agent`, or the command; see `apps/core/origins.py`."""
    token_uuid = models.UUIDField(null=True)
    token_name = models.CharField(max_length=255)
    """The API token that the actor used; empty without one."""
    target = models.JSONField()
    data = models.JSONField(encoder=DjangoJSONEncoder)
    created_at = models.DateTimeField()
    where: str
    """The current name of its repository or team; only the admin sets it."""

    objects = AuditQuerySet.as_manager()

    class Meta:
        verbose_name_plural = "audit entries"
        indexes = [
            models.Index(fields=["kind", "id"], name="audit_kind"),
            models.Index(fields=["actor", "id"], name="audit_actor"),
            models.Index(fields=["person_id", "id"], name="audit_person"),
            models.Index(fields=["team_id", "id"], name="audit_team"),
            models.Index(fields=["repo_id", "id"], name="audit_repo"),
            models.Index(fields=["address", "id"], name="audit_address"),
            models.Index(fields=["created_at", "id"], name="audit_time"),
        ]

    def __str__(self) -> str:
        return f"audit entry {self.pk} {self.kind}"


def prune(now: dt.datetime) -> int:
    """Delete the entries older than `AUDIT_DAYS`, oldest first, in short transactions; return their
    number.
    """
    limit, number = now - dt.timedelta(days=settings.AUDIT_DAYS), 0
    old = AuditEntry.objects.filter(created_at__lt=limit).order_by("created_at", "id")
    while batch := [*old.values_list("pk", flat=True)[:BATCH_SIZE]]:
        number += AuditEntry.objects.filter(pk__in=batch).delete()[0]
    return number
