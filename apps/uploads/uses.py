"""Records which texts refer to which uploads, whenever a text is written or deleted.

A text has the uuid of its thread, reply or review. It may refer only to uploads of its own
repository: otherwise people here could keep uploads of another repository from being removed.
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
    """Record the uploads whose addresses these parts of a text contain. `by`: the writer's id.

    Uses by former versions stay. The caller holds the text's lock; this locks the uploads.
    """
    named = {UUID(uuid) for part in parts for uuid in ADDRESS.findall(part)}
    if not named:
        return
    rows = Upload.objects.filter(deleted_at=None, repo=repo_id, uuid__in=named).order_by("pk")
    pks = [row.pk for row in rows.select_for_update(no_key=True)]
    uses = [UploadUse(upload_id=pk, text=text) for pk in pks]
    UploadUse.objects.bulk_create(uses, ignore_conflicts=True)
    placed = Case(When(created_by=by, then=True), default=F("is_placed"))
    Upload.objects.filter(pk__in=pks).update(is_used=True, is_placed=placed)


def forget_uses(texts: Any) -> None:
    """Delete uploads that only these texts refer to. `texts`: uuids, or a query of them.

    An upload that is less than a day old and that its creator has not used yet stays. Otherwise
    anybody with its address could delete it, by writing a text with it and deleting that. The
    caller is deleting the texts and holds their locks; this locks the uploads.
    """
    uses = UploadUse.objects.filter(text__in=texts)
    if not uses.exists():
        return
    named = Upload.objects.filter(pk__in=uses.values("upload"))
    list(named.order_by("pk").select_for_update(no_key=True).values_list("pk"))
    elsewhere = UploadUse.objects.filter(upload=OuterRef("pk")).exclude(text__in=texts)
    now = timezone.now()
    may_go = Q(is_placed=True) | Q(created_at__lt=now - AGE)
    named.filter(~Exists(elsewhere)).update(is_used=False, deleted_at=Case(When(may_go, then=now)))
    uses.delete()
