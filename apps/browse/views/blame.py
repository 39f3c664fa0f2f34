"""`…/blame/{path}`."""

from __future__ import annotations

from typing import Any

from django.http.response import HttpResponseBase

from apps.browse.blame import blame_lines
from apps.browse.serializers.blame import BlameRecord, blame_record
from apps.browse.views.commits import CountParameter
from apps.browse.views.trees import OF_FILES, FileQuery, FileScoped
from apps.core.access import Level
from apps.core.conditional import by_body
from apps.core.operation import operation
from apps.repos.http.transfer_slots import caller_of


class BlameQuery(FileQuery):
    """`from` is a word of Python's."""

    to = CountParameter(required=False)

    def get_fields(self) -> dict[str, Any]:
        return {**super().get_fields(), "from": CountParameter(default=1)}


class BlameViewSet(FileScoped):
    """…/repos/{repo_slug}/blame/{path}"""

    lookup_url_kwarg = "path"
    lookup_value_converter = "tree_path"

    @operation(
        Level.READ,
        response=BlameRecord,
        query=BlameQuery,
        errors=(*OF_FILES, "file_too_large", "is_directory", "line_not_found", "not_a_file"),
    )
    def retrieve(self) -> HttpResponseBase:
        """Tell which commit each line of a file is from.

        Without `to` these are 500 lines from `from` on, and at most 1,000 with it; where the file
        ends before, `to` of the answer says so, and `total_lines` how many there are. A file of
        more than 1 MiB is 422 `file_too_large`. Renames of the file are followed:
        `original_path` and `original_line` say where a line was in its commit.
        """
        path, sent = self.path, self.validated_query
        who = caller_of(self.http_request, self.principal)
        lines = sent["from"], sent.get("to")
        found = blame_lines(self.repo, self.revision, path, *lines, who)
        return by_body(self.http_request, blame_record(found, self.repo, path, self.principal))
