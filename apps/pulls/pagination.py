"""Pages of what a version of a pull contains, which say beside `results` what is left out."""

from __future__ import annotations

from typing import Any

from rest_framework.response import Response

from apps.core.pagination import PagePagination


class ContentsPagination(PagePagination):
    """Pages by number, with properties beside `results`; a view gives them to `say`."""

    properties: dict[str, dict[str, Any]] = {}
    """Their schemas."""

    def say(self, **beside: Any) -> None:
        """What the properties are on this page."""
        self.beside = beside

    def link(self, **changed: object) -> str:
        """The version is named, so that pages do not shift under a push."""
        return super().link(**{"version": self.beside["version"], **changed})

    def get_paginated_response(self, data: Any) -> Response:
        response = super().get_paginated_response(data)
        response.data |= self.beside
        return response

    def get_paginated_response_schema(self, schema: Any) -> dict[str, Any]:
        """The envelope, and what stands beside `results`."""
        whole = super().get_paginated_response_schema(schema)
        whole["required"] = [*whole["required"], *self.properties]
        whole["properties"] = whole["properties"] | self.properties
        return whole


VERSION = {"version": {"type": ["integer", "null"]}}


class CommitsPagination(ContentsPagination):
    properties = {
        **VERSION,
        "commit_count": {"type": "integer"},
        "commits_truncated": {"type": "boolean"},
    }


class FilesPagination(ContentsPagination):
    properties = {
        **VERSION,
        "changed_files": {"type": "integer"},
        "files_truncated": {"type": "boolean"},
        "is_rebased": {"type": ["boolean", "null"]},
    }
