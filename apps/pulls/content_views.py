"""`…/pulls/{number}/versions`, `/commits`, `/files`, `/diff` and `/patch`: what a pull contains."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from io import BytesIO
from typing import IO, Any

from django.http.response import HttpResponseBase
from drf_spectacular.utils import extend_schema_field
from rest_framework import serializers

from apps.browse.downloads import TEXTS, text_response
from apps.browse.serializers.commits import commit_records
from apps.browse.serializers.files import file_record, patched_record
from apps.core.access import Level
from apps.core.conditional import by_body, by_names
from apps.core.operation import operation
from apps.core.pagination import PAGE_LIMIT
from apps.core.query import FlagParameter, QuerySerializer, number
from apps.git.diff import FileChange
from apps.pulls import contents
from apps.pulls.models import Pull, PullVersion
from apps.pulls.pagination import CommitsPagination, FilesPagination
from apps.pulls.queries import get_pull
from apps.pulls.serializers import PullCommitRecord, PullFileRecord, PullVersionRecord
from apps.repos.access import RepoScoped
from apps.repos.http.transfer_slots import caller_of

PATCHES_PER_PAGE = 30
"""Files of a page with patches, at most."""


@extend_schema_field({"type": "integer", "minimum": 1, "maximum": PAGE_LIMIT})
class VersionParameter(serializers.Field[Any, Any, Any, Any]):
    """The number of a version."""

    def to_internal_value(self, data: Any) -> int:
        try:
            return number(data, least=1, most=PAGE_LIMIT)
        except ValueError as error:
            raise serializers.ValidationError(str(error)) from None


class VersionQuery(QuerySerializer):
    version = VersionParameter(
        required=False, help_text="The number of a version; the newest without it."
    )


class FilesQuery(VersionQuery):
    patch = FlagParameter(
        help_text="Whether each file has its `patch`: then a page has at most 30 files."
    )

    def get_fields(self) -> dict[str, Any]:
        """`from` as well, which Python has for itself."""
        text = "The number of a version: what differs between its head and that of `version`."
        return {**super().get_fields(), "from": VersionParameter(required=False, help_text=text)}


class ContentsViewSet(RepoScoped):
    """What is alike in all of them."""

    schema_tags = ["pulls"]
    pull: Pull

    def load_objects(self) -> None:
        self.pull = get_pull(self.repo, self.kwargs["number"])

    @property
    def who(self) -> str:
        """For whom a place is held while git works."""
        return caller_of(self.http_request, self.principal)

    def version(self) -> PullVersion | None:
        """The version that is asked for, the newest by default; None without a head. 404."""
        return contents.get_version(self.pull, self.validated_query.get("version"))


class PullVersionViewSet(ContentsViewSet):
    """…/pulls/{number}/versions"""

    @operation(Level.READ, response=PullVersionRecord)
    def list(self) -> HttpResponseBase:
        """List the heads that a pull has had, oldest first.

        Each push to the source makes a version, and so does reopening with another head. A target
        that moves makes none. The numbers of what a version contains are null while git has not
        told them, and without a target.
        """
        rows = self.paginate(contents.list_versions(self.pull))
        return by_body(self.http_request, self.get_paginated_response(rows).data)


class PullCommitViewSet(ContentsViewSet):
    """…/pulls/{number}/commits"""

    pagination_class = CommitsPagination

    @operation(Level.READ, response=PullCommitRecord, query=VersionQuery, errors=("too_expensive",))
    def list(self) -> HttpResponseBase:
        """List the commits of a pull that its target had not at the last push, oldest first.

        Of more than 1,000 the newest are listed: `commits_truncated` says so, and `commit_count` is
        the number of all. A pull without a head or a target has none. 422 `too_expensive` where
        git could not list them in time.
        """
        version = self.version()
        found = [] if version is None else contents.commits_of(version, self.who)
        count = 0 if version is None else version.commit_count or 0
        page = self.paginate(found)
        paginator: Any = self.paginator
        paginator.say(
            version=None if version is None else version.version,
            commit_count=count,
            commits_truncated=len(found) < count,
        )
        records = commit_records(page, self.repo, self.principal, self.base_url)
        return by_body(self.http_request, self.get_paginated_response(records).data)


class PullFileViewSet(ContentsViewSet):
    """…/pulls/{number}/files"""

    pagination_class = FilesPagination

    @operation(Level.READ, response=PullFileRecord, query=FilesQuery, errors=("too_expensive",))
    def list(self) -> HttpResponseBase:
        """List the files that a pull changes, between its merge base and its head.

        With `from` they are those that differ between the heads of two versions: after a rebase
        (`is_rebased`: the two have other merge bases) also by what came from the target. Of more
        than 3,000 files the first are listed: `files_truncated` says so, and `changed_files` is the
        number of all. With `patch` a page has at most 30 files, whatever `per_page` says, and as
        many patches as have 4 MiB together; `is_too_large` says which are left out. 422
        `too_expensive` where git could not tell in time.
        """
        version = self.version()
        before = self.validated_query.get("from")
        old = None if before is None else contents.get_version(self.pull, before)
        names = tuple(
            (one.version, one.head_sha, one.base_sha, one.merge_base_sha, one.changed_files)
            for one in (version, old)
            if one is not None
        )
        return by_names(self.http_request, names, lambda: self.page_between(old, version))

    def page_between(self, old: PullVersion | None, version: PullVersion | None) -> Any:
        """The page of what `version` changes, or of how it differs from `old`."""
        paginator: Any = self.paginator
        if self.validated_query["patch"]:
            paginator.per_page = min(paginator.per_page, PATCHES_PER_PAGE)
        if version is None:
            listing = contents.NOTHING
        elif old is None:
            listing = contents.files_of(version, self.who)
        else:
            listing = contents.files_between(old, version, self.who)
        page = self.paginate(listing.files)
        paginator.say(
            version=None if version is None else version.version,
            changed_files=listing.total,
            files_truncated=len(listing.files) < listing.total,
            is_rebased=None if old is None or version is None else is_rebased(old, version),
        )
        return self.get_paginated_response(self.records(listing, page))

    def records(self, listing: contents.Listing, page: Sequence[FileChange]) -> Any:
        if not self.validated_query["patch"]:
            return [file_record(one) for one in page]
        patches = contents.patches_of(listing, page, self.who)
        return [patched_record(one, patch) for one, patch in zip(page, patches, strict=True)]


def is_rebased(old: PullVersion, new: PullVersion) -> bool:
    """Whether two versions begin at other commits of the target."""
    return old.merge_base_sha != new.merge_base_sha


class TextViewSet(ContentsViewSet):
    """What is alike in a pull as a diff and as mails."""

    def answer(
        self, media_type: str, text_of: Callable[[PullVersion, str], IO[bytes]]
    ) -> HttpResponseBase:
        """The text of the version that is asked for: none for a pull without a head."""
        version = self.version()
        names = (version.head_sha, version.base_sha, version.merge_base_sha) if version else ()

        def answer() -> HttpResponseBase:
            file = text_of(version, self.who) if version and version.base_sha else BytesIO()
            return text_response(self.http_request, self.principal, file, media_type)

        return by_names(self.http_request, names, answer)


class PullDiffViewSet(TextViewSet):
    """…/pulls/{number}/diff"""

    @operation(
        Level.READ,
        query=VersionQuery,
        media_type="text/x-diff",
        errors=("diff_too_large", "too_expensive"),
    )
    def retrieve(self) -> HttpResponseBase:
        """Read what a pull changes as one diff, for `git apply`.

        It is between the merge base and the head, with binary files. 422 `diff_too_large` for more
        than 3,000 files, 20 MiB, or what takes git more than 10 seconds: nothing is cut. A pull
        without a head or a target has an empty one.
        """
        return self.answer(TEXTS["diff"], contents.diff_of)


class PullPatchViewSet(TextViewSet):
    """…/pulls/{number}/patch"""

    @operation(
        Level.READ,
        query=VersionQuery,
        media_type="text/plain",
        errors=("diff_too_large", "too_expensive"),
    )
    def retrieve(self) -> HttpResponseBase:
        """Read the commits of a pull as mails, for `git am`, oldest first.

        Merges, and commits that change no file, are left out. 422 `diff_too_large` for more than
        1,000 commits, 3,000 files, 20 MiB, or what takes git more than 10 seconds: nothing is cut.
        A pull without a head or a target has none.
        """
        return self.answer(TEXTS["patch"], contents.mails_of)
