"""The resource `/users/self/export`."""

from __future__ import annotations

from contextlib import ExitStack
from tempfile import TemporaryFile

from django.http import HttpRequest
from django.http.response import HttpResponseBase

from apps.accounts.principal import Principal
from apps.browse.downloads import text_response
from apps.browse.read_slots import heavy_slots
from apps.core.access import Level, Permission
from apps.core.operation import operation
from apps.core.views import ApiViewSet
from apps.repos.http.transfer_slots import caller_of
from config.moving.people import write_person

JSON_LINES = "application/jsonl"


class PersonExportViewSet(ApiViewSet):
    """/users/self/export"""

    principal: Principal
    schema_tags = ["users"]

    @operation(Level.NONE, permission=Permission.ADMIN, media_type=JSON_LINES, is_secret=True)
    def retrieve(self) -> HttpResponseBase:
        """Read all data of the caller as JSON lines.

        Each line is an object with `type` and `record`, a record of this API: the account, teams,
        sessions, tokens without their text, own repositories, threads, replies, their versions,
        pulls, reviews, draft reviews, uploads, pings and events. Replies, versions, reviews, drafts
        and uploads have `repo_path` beside it. Reviews lack the fields that depend on the rest of
        their pull. Texts in repositories that the caller may not read any more are left out.
        """
        return person_response(self.http_request, self.principal, self.base_url)


def person_response(request: HttpRequest, principal: Principal, base: str) -> HttpResponseBase:
    """The data of the principal. 503 without a slot for heavy reads, 429 without one for transfers.

    The file is complete before the first byte is sent, so that no client gets a part.
    """
    with ExitStack() as opened:
        file = opened.enter_context(TemporaryFile())
        with heavy_slots.slot(caller_of(request, principal)):
            write_person(principal, base, file)
        opened.pop_all()
    return text_response(request, principal, file, JSON_LINES)
