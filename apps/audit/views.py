"""The resources `/audit` and `/teams/{team_slug}/audit`, and their export."""

from __future__ import annotations

from typing import cast

from django.http.response import HttpResponseBase
from rest_framework.response import Response

from apps.accounts.principal import Principal
from apps.audit import queries
from apps.audit.exporting import JSON_LINES, export_response
from apps.audit.filters import AuditFilterSet
from apps.audit.pagination import AuditCursorPagination
from apps.audit.serializers import AuditRecord, audit_records
from apps.core.access import Level
from apps.core.operation import operation
from apps.core.views import ApiViewSet
from apps.events.audit import AuditEntry, AuditQuerySet
from apps.teams.access import TeamScoped


class Audited(ApiViewSet):
    """A resource of the audit log, which subclasses select."""

    principal: Principal
    schema_tags = ["audit"]
    queryset = AuditEntry.objects.all()
    filterset_class = AuditFilterSet

    def entries(self) -> AuditQuerySet:
        """The entries that the caller may read."""
        return queries.list_entries(self.principal)

    def page(self) -> Response:
        return self.get_paginated_response(audit_records(self.paginate(self.entries())))


class Exported(Audited):
    """An export, which takes the filters of the list."""

    pagination_class = None

    @property
    def is_filtered(self) -> bool:
        return True

    def export(self) -> HttpResponseBase:
        rows = cast("AuditQuerySet", self.filter_queryset(self.entries()))
        return export_response(self.http_request, self.principal, rows)


class AuditViewSet(Audited):
    """/audit"""

    pagination_class = AuditCursorPagination

    @operation(Level.STAFF, response=AuditRecord, errors=("invalid_cursor",))
    def list(self) -> Response:
        """List the audit log, newest first.

        `next` leads to older entries and `previous` to newer ones. `previous` can be polled.
        """
        return self.page()


class AuditExportViewSet(Exported):
    """/audit/export"""

    @operation(Level.STAFF, media_type=JSON_LINES, is_secret=True)
    def retrieve(self) -> HttpResponseBase:
        """Read the audit log as JSON lines, oldest first.

        Each line is an AuditRecord.
        """
        return self.export()


class AuditOfTeamViewSet(TeamScoped, Audited):
    """/teams/{team_slug}/audit"""

    pagination_class = AuditCursorPagination

    def entries(self) -> AuditQuerySet:
        return queries.list_team_entries(self.access)

    @operation(Level.OWNER, response=AuditRecord, errors=("invalid_cursor",))
    def list(self) -> Response:
        """List the audit log of a team, newest first.

        It has the changes of its members, bots and settings, and of the settings and protections of
        its repositories. `previous` can be polled.
        """
        return self.page()


class AuditExportOfTeamViewSet(TeamScoped, Exported):
    """/teams/{team_slug}/audit/export"""

    def entries(self) -> AuditQuerySet:
        return queries.list_team_entries(self.access)

    @operation(Level.OWNER, media_type=JSON_LINES, is_secret=True)
    def retrieve(self) -> HttpResponseBase:
        """Read the audit log of a team as JSON lines, oldest first.

        Each line is an AuditRecord.
        """
        return self.export()
