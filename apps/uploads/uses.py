"""Which texts refer to which uploads, written down when a text is written or deleted.

A text is known by the uuid of its thread, reply or review. It may refer to uploads of its own
repository alone: those of another would stay there for as long as somebody here wants.
"""

from __future__ import annotations

import re
from typing import Any
from uuid import UUID

from django.db.models import Case, Exists, F, OuterRef, Q, When
from django.utils import timezone

from apps.core.slugs import UidConverter
from apps.uploads.models import AGE, Upload, UploadUse

ADDRESS = re.compile(rf"/uploads/({UidConverter.regex})")


def note_uses(repo_id: int, text: UUID, *parts: str, by: int | None) -> None:
    """Keep the uploads that these parts of a text name by their addresses, as this person wrote it.

    What an earlier version of the text named is kept as well. The caller holds the text's lock;
    this locks the uploads.
    """
    named = {UUID(found) for part in parts for found in ADDRESS.findall(part)}
    if not named:
        return
    rows = Upload.objects.existing().filter(repo=repo_id, uuid__in=named).order_by("pk")
    found = [row.pk for row in rows.select_for_update(no_key=True)]
    uses = [UploadUse(upload_id=pk, text=text) for pk in found]
    UploadUse.objects.bulk_create(uses, ignore_conflicts=True)
    placed = Case(When(created_by=by, then=True), default=F("is_placed"))
    Upload.objects.filter(pk__in=found).update(is_used=True, is_placed=placed)


def forget_uses(texts: Any) -> None:
    """Delete the uploads that these texts alone refer to: `texts` are uuids, or a query of them.

    One that waits for its first day and for the text of who uploaded it goes on waiting: else
    whoever has its address could have it deleted, by a text of their own that they delete.
    The caller is deleting the texts, and holds their locks; this locks the uploads.
    """
    uses = UploadUse.objects.filter(text__in=texts)
    if not uses.exists():
        return
    named = Upload.objects.filter(pk__in=uses.values("upload"))
    list(named.order_by("pk").select_for_update(no_key=True).values_list("pk"))
    elsewhere = UploadUse.objects.filter(upload=OuterRef("pk")).exclude(text__in=texts)
    now = timezone.now()
    goes = Q(is_placed=True) | Q(created_at__lt=now - AGE)
    named.filter(~Exists(elsewhere)).update(is_used=False, deleted_at=Case(When(goes, then=now)))
    uses.delete()
