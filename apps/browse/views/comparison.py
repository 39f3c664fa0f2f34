"""`…/compare/{basehead}`."""

from __future__ import annotations

from typing import Any

from django.http.response import HttpResponseBase
from django.utils.encoding import escape_uri_path

from apps.browse.comparison import Comparison, Ends, compare, find_ends, patches_of, write_text
from apps.browse.downloads import TEXTS, text_response
from apps.browse.serializers.commits import commit_records
from apps.browse.serializers.comparison import ComparisonRecord, comparison_record
from apps.browse.serializers.files import file_record, patched_record
from apps.browse.views.commits import PageQuery
from apps.core.access import Level
from apps.core.conditional import by_body, by_names
from apps.core.operation import operation
from apps.core.pagination import PagePagination, with_parameters
from apps.core.query import FlagParameter
from apps.core.serializers import StrictChoiceField
from apps.core.slugs import PREFIX
from apps.repos.access import RepoScoped
from apps.repos.http.transfer_slots import caller_of

PATCHES_MAX = 30
"""Files of a page that shows their patches."""


class ComparisonQuery(PageQuery):
    format = StrictChoiceField(["json", *TEXTS], default="json")
    direct = FlagParameter()
    patch = FlagParameter()


class FilesPagination(PagePagination):
    """Pages of files, which name both commits, so that they do not shift under a push."""

    path = ""

    def link(self, **changed: object) -> str:
        query = with_parameters(self.request.query_params, **changed)
        return f"{self.base_url}{escape_uri_path(self.path)}?{query}"


class ComparisonViewSet(RepoScoped):
    """…/repos/{repo_slug}/compare/{basehead}"""

    schema_tags = ["commits"]
    lookup_url_kwarg = "basehead"
    lookup_value_converter = "tree_path"
    pagination_class = FilesPagination

    @operation(
        Level.READ,
        response=ComparisonRecord,
        query=ComparisonQuery,
        other_media_types=("text/x-diff", "text/plain"),
        errors=(
            "diff_too_large",
            "invalid_ref",
            "no_merge_base",
            "source_not_found",
            "too_expensive",
        ),
    )
    def retrieve(self) -> HttpResponseBase:
        """Compare two branches, tags or commits: `base...head`.

        Changes are those since the best common ancestor; with `direct=true` those since the base.
        The head may be in a fork that the caller may read: `users/bob:topic`, `bob:topic` or
        `teams/core:topic`.

        `commits` are the newest 250 that the head has and the base has not, newest first:
        `commits_truncated` says that there are more, which `ahead_by` counts. `files` is a page of
        at most 3,000 files: `files_truncated` says that there are more, and `stats` counts all.
        `next` names both commits, so that pages do not shift under a push.

        `patch=true` adds the patch of each file, for at most 30 files a page. It is null where the
        file is binary or, as `is_too_large` says, where a side has more than 1 MiB, more than
        20,000 lines change, or the patches of the page have more than 4 MiB together.

        `format=diff` gives all of it as text for `git apply`, and `format=patch` the commits as
        mails for `git am`: 422 `diff_too_large` for more than 3,000 files or 20 MiB.
        """
        who = caller_of(self.http_request, self.principal)
        ends = find_ends(self.access, self.kwargs["basehead"], who)
        form, direct = self.validated_query["format"], self.validated_query["direct"]
        if form in TEXTS:
            names = ends.base, ends.head
            return by_names(self.http_request, names, lambda: self.text(ends, form, direct=direct))
        found = compare(ends, direct=direct)
        commits = commit_records(found.commits, ends.source, self.principal, self.base_url)
        return by_body(
            self.http_request, comparison_record(found, commits, self.page_of_files(ends, found))
        )

    def text(self, ends: Ends, form: str, *, direct: bool) -> HttpResponseBase:
        """All of the comparison in one of the `TEXTS`."""
        file = write_text(ends, form, direct=direct)
        return text_response(self.http_request, self.principal, file, TEXTS[form])

    def page_of_files(self, ends: Ends, found: Comparison) -> dict[str, Any]:
        """The page of the changed files that the request asks for."""
        paginator: Any = self.paginator
        paginator.read(self.request, self.base_url)
        paginator.path = f"{PREFIX}{self.repo.api_path}/compare/{ends.pinned}"
        if self.validated_query["patch"]:
            paginator.per_page = min(paginator.per_page, PATCHES_MAX)
        files = self.paginate(found.changes.files)
        if self.validated_query["patch"]:
            shown = patches_of(ends, found, files)
            records = [patched_record(file, shown[file.path]) for file in files]
        else:
            records = [file_record(file) for file in files]
        page: dict[str, Any] = self.get_paginated_response(records).data
        return {**page, "files_truncated": found.changes.total > len(found.changes.files)}
