"""Which texts refer to which uploads, written down when a text is written or deleted.

A text is known by the uuid of its thread, reply or review. It may refer to uploads of its own
repository alone: those of another would stay there for as long as somebody here wants.
"""

from __future__ import annotations

import re
from typing import Any
from uuid import UUID

from django.db.models import Exists, OuterRef
from django.utils import timezone

from apps.core.slugs import UidConverter
from apps.uploads.models import Upload, UploadUse

ADDRESS = re.compile(rf"/uploads/({UidConverter.regex})")


def note_uses(repo_id: int, text: UUID, *parts: str) -> None:
    """Keep the uploads that these parts of a text name by their addresses.

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
    Upload.objects.filter(pk__in=found).update(is_used=True)


def forget_uses(texts: Any) -> None:
    """Delete the uploads that these texts alone refer to: `texts` are uuids, or a query of them.

    The caller is deleting the texts, and holds their locks; this locks the uploads.
    """
    uses = UploadUse.objects.filter(text__in=texts)
    if not uses.exists():
        return
    named = Upload.objects.filter(pk__in=uses.values("upload"))
    list(named.order_by("pk").select_for_update(no_key=True).values_list("pk"))
    elsewhere = UploadUse.objects.filter(upload=OuterRef("pk")).exclude(text__in=texts)
    named.filter(~Exists(elsewhere)).update(is_used=False, deleted_at=timezone.now())
    uses.delete()
