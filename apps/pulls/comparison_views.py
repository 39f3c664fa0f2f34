"""`…/pulls/{number}/compare/{versions}`: two versions of a pull, by commits and by files."""

from __future__ import annotations

from typing import Any

from django.http.response import HttpResponseBase

from apps.browse.serializers import file_record, patched_record
from apps.browse.views import PageQuery
from apps.core.access import Level
from apps.core.conditional import by_names
from apps.core.operation import operation
from apps.core.pagination import PagePagination
from apps.core.query import FlagParameter
from apps.pulls import versions
from apps.pulls.models import PullVersion
from apps.pulls.serializers import PullComparisonRecord, commit_pair_record
from apps.pulls.views import PATCHES_PER_PAGE, ContentsViewSet


class PullComparisonQuery(PageQuery):
    patch = FlagParameter()


class PullComparisonViewSet(ContentsViewSet):
    """…/pulls/{number}/compare/{versions}"""

    lookup_url_kwarg = "versions"
    lookup_value_converter = "segment"
    pagination_class = PagePagination

    @operation(
        Level.READ,
        response=PullComparisonRecord,
        query=PullComparisonQuery,
        errors=("too_expensive",),
    )
    def retrieve(self) -> HttpResponseBase:
        """Compare two versions of a pull: `1...3`, each the number of a version.

        `commits` pairs the commits of the two, as `git range-diff` does, in the order of the second
        version and without merges. `equal` commits have the same change and message; `changed` ones
        are similar, and `diff` is the difference of their patches; `added` and `removed` ones have
        no pair. `files` is a page of the files that differ between the two heads, as in the list of
        files with `from`. If `is_rebased` is true, the two have different merge bases, and the
        files also include changes from the target. 422 `too_expensive` if a version has more than
        200 commits, if the pairs have more than 2 MiB, or if git could not compare in time.
        """
        old, new = versions.get_versions(self.pull, self.kwargs["versions"])
        names = tuple(
            (row.version, row.head_sha, row.base_sha, row.merge_base_sha) for row in (old, new)
        )
        return by_names(self.http_request, names, lambda: self.record(old, new))

    def record(self, old: PullVersion, new: PullVersion) -> dict[str, Any]:
        """The record of a comparison, with a page of its files."""
        pairs = versions.commit_pairs(old, new, self.throttle_key)
        listing = versions.files_between(old, new, self.throttle_key)
        return {
            "from": old.version,
            "to": new.version,
            "is_rebased": versions.is_rebased(old, new),
            "commits": [commit_pair_record(pair) for pair in pairs],
            "changed_files": listing.total,
            "files": self.page_of_files(listing),
        }

    def page_of_files(self, listing: versions.Listing) -> dict[str, Any]:
        paginator: Any = self.paginator
        paginator.read(self.request, self.base_url)
        has_patches = self.validated_query["patch"]
        if has_patches:
            paginator.per_page = min(paginator.per_page, PATCHES_PER_PAGE)
        files = self.paginate(listing.files)
        if has_patches:
            patches = versions.patches_of(listing, files, self.throttle_key)
            records = [*map(patched_record, files, patches)]
        else:
            records = [file_record(file) for file in files]
        page: dict[str, Any] = self.get_paginated_response(records).data
        return {**page, "files_truncated": len(listing.files) < listing.total}
