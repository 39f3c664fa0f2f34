"""A view of no app: the OpenAPI document."""

from __future__ import annotations

from django.http import HttpResponse
from django.http.response import HttpResponseBase
from rest_framework import serializers

from apps.core import openapi
from apps.core.access import Level
from apps.core.compression import compress
from apps.core.conditional import not_modified, tagged
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
    def retrieve(self) -> HttpResponseBase:
        """Read the OpenAPI document of this API."""
        request, tag = self.http_request, openapi.etag()
        if answer := not_modified(request, tag):
            return answer
        response = HttpResponse(openapi.text(), content_type="application/json")
        tagged(response, tag)
        compress(request, response, lambda _: openapi.text_as_gzip())
        return response
