"""The request and the record of an upload."""

from __future__ import annotations

import base64
from typing import Any

from drf_spectacular.utils import extend_schema_field
from rest_framework import serializers

from apps.core.controls import CHARACTERS
from apps.core.serializers import (
    RecordSerializer,
    RequestSerializer,
    RuleCharField,
    TimestampField,
)
from apps.core.slugs import PREFIX
from apps.uploads.models import FILENAME_MAX, Upload
from apps.uploads.rules import filename_problem


@extend_schema_field({"type": "string", "contentEncoding": "base64", "minLength": 4})
class Base64Field(serializers.Field[bytes, Any, Any, Any]):
    """Bytes, as base64 with padding and without line breaks."""

    default_error_messages = {"invalid": "Must be base64, with padding and without line breaks."}

    def to_internal_value(self, data: Any) -> bytes:
        if not isinstance(data, str):
            self.fail("invalid")
        try:
            return base64.b64decode(data, validate=True)
        except ValueError:
            self.fail("invalid")


class CreateUpload(RequestSerializer):
    filename = RuleCharField(
        problem=filename_problem, max_length=FILENAME_MAX, pattern=rf"[^/\\{CHARACTERS}]+"
    )
    content_base64 = Base64Field()


class UploadRecord(RecordSerializer):
    uuid = serializers.UUIDField()
    filename = serializers.CharField()
    content_type = serializers.CharField()
    size = serializers.IntegerField()
    sha256 = serializers.CharField()
    url = serializers.CharField()
    created_by_uuid = serializers.UUIDField()
    created_by_username = serializers.CharField()
    created_at = TimestampField()


def upload_record(upload: Upload, base: str) -> dict[str, Any]:
    """The record of an upload whose `created_by` is loaded."""
    return {
        "uuid": upload.uuid,
        "filename": upload.filename,
        "content_type": upload.content_type,
        "size": upload.size,
        "sha256": upload.sha256,
        "url": f"{base}{PREFIX}/uploads/{upload.uuid}/content",
        "created_by_uuid": upload.created_by.uuid,
        "created_by_username": upload.created_by.username,
        "created_at": upload.created_at,
    }
