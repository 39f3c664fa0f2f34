"""A view of no app: the OpenAPI document."""

from __future__ import annotations

from django.http import HttpResponse
from rest_framework import serializers

from apps.core.access import Level
from apps.core.openapi import text
from apps.core.operation import operation
from apps.core.serializers import RecordSerializer
from apps.core.views import ApiViewSet
from config.openapi import events, hooks  # noqa: F401 - drf-spectacular finds extensions


class Document(RecordSerializer):
    """An OpenAPI 3.1.0 document."""

    openapi = serializers.CharField()
    info = serializers.DictField()
    servers = serializers.ListField(child=serializers.DictField())
    paths = serializers.DictField()
    components = serializers.DictField()


class DocumentViewSet(ApiViewSet):
    """/openapi.json"""

    schema_tags = ["meta"]

    @operation(Level.PUBLIC, response=Document)
    def retrieve(self) -> HttpResponse:
        """Read the OpenAPI document of this API."""
        return HttpResponse(text(), content_type="application/json")
