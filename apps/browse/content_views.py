"""The resources `…/tree`, `…/contents`, `…/raw`, `…/blame` and `…/archive`."""

from __future__ import annotations

from functools import partial
from typing import Any
from urllib.parse import unquote_to_bytes

from django.http import HttpRequest
from django.http.response import HttpResponseBase
from rest_framework.response import Response

from apps.browse.downloads import KINDS, archive_response, find_archive, raw_response
from apps.browse.names import (
    Revision,
    is_utf8,
    path_in_query,
    path_in_tree,
    path_is_no_text,
    revision,
)
from apps.browse.serializers.trees import (
    BlameRecord,
    ContentRecord,
    TreeEntryRecord,
    blame_record,
    content_record,
    tree_entry_record,
)
from apps.browse.trees import Folder, blame_lines, read_content
from apps.browse.views import CountParameter
from apps.core.access import Level
from apps.core.conditional import by_body, by_names
from apps.core.errors import NotFound
from apps.core.operation import operation
from apps.core.pagination import PagePagination
from apps.core.query import Base64Parameter, FlagParameter, QuerySerializer, TextParameter
from apps.core.serializers import StrictChoiceField
from apps.repos.access import RepoScoped
from apps.repos.http.transfer_slots import caller_of

OF_FILES = ("invalid_path", "invalid_ref", "too_expensive")


def raw_path_of(request: HttpRequest) -> bytes:
    """The bytes of the path of the URL, if the server passes them on.

    In `request.path`, bytes that are not UTF-8 become `%FF` or U+FFFD, depending on the server. A
    file name may contain both.
    """
    raw = request.META.get("RAW_URI", "").partition("?")[0]
    return unquote_to_bytes(raw or request.path)


class FileQuery(QuerySerializer):
    ref = TextParameter(required=False)
    path_base64 = Base64Parameter(required=False)


class TreeQuery(FileQuery):
    recursive = FlagParameter()
    sizes = FlagParameter()


class TreePagination(PagePagination):
    """Pages of the entries of a tree, of which only the first ones may be listed."""

    is_truncated = False

    def get_paginated_response(self, data: Any) -> Response:
        answer = super().get_paginated_response(data)
        answer.data["is_truncated"] = self.is_truncated
        return answer

    def get_paginated_response_schema(self, schema: Any) -> dict[str, Any]:
        """Add `is_truncated` to the envelope."""
        envelope = super().get_paginated_response_schema(schema)
        envelope["required"].append("is_truncated")
        envelope["properties"]["is_truncated"] = {"type": "boolean"}
        return envelope


class FileScoped(RepoScoped):
    """Base class of resources at a path of a commit."""

    schema_tags = ["contents"]

    @property
    def path(self) -> bytes:
        """The path below the root, whose path is empty; 422."""
        in_base64 = self.validated_query.get("path_base64")
        if in_base64 is None and not is_utf8(raw_path_of(self.http_request)):
            raise path_is_no_text()
        return path_in_tree(self.kwargs.get("path", ""), in_base64)

    @property
    def revision(self) -> Revision:
        """The commit that `ref` names; 404, 422."""
        return revision(self.repo, self.validated_query.get("ref"))


class TreeViewSet(FileScoped):
    """…/repos/{repo_slug}/tree and …/tree/{path}"""

    pagination_class = TreePagination

    @operation(
        Level.READ,
        response=TreeEntryRecord,
        query=TreeQuery,
        errors=(*OF_FILES, "not_a_directory"),
    )
    def list(self) -> HttpResponseBase:
        """List a directory of a commit, in git's order.

        `recursive=true` lists all files and directories below it, each directory before its
        entries. At most 100,000 entries or 32 MiB of them are listed. If there are more,
        `is_truncated` is true on each page. `next` names the commit, so that a push does not shift
        pages. A repository without commits has no entries.
        """
        path = self.path
        try:
            rev = self.revision
        except NotFound:
            if path or "ref" in self.validated_query:
                raise
            return self.get_paginated_response(self.paginate([]))
        return by_names(self.http_request, (rev.sha,), lambda: self.page(rev, path))

    def page(self, rev: Revision, path: bytes) -> Response:
        """The requested page of the folder."""
        options = {name: self.validated_query[name] for name in ("recursive", "sizes")}
        folder = Folder(self.repo, rev, path, **options)
        entries = self.paginate(folder)
        paginator: Any = self.paginator
        paginator.pinned, paginator.is_truncated = {"ref": folder.commit}, folder.is_truncated
        return self.get_paginated_response([tree_entry_record(entry) for entry in entries])


class ContentsViewSet(FileScoped):
    """…/repos/{repo_slug}/contents/{path}"""

    lookup_url_kwarg = "path"
    lookup_value_converter = "tree_path"

    @operation(
        Level.READ,
        response=ContentRecord,
        query=FileQuery,
        errors=(*OF_FILES, "is_directory"),
    )
    def retrieve(self) -> HttpResponseBase:
        """Read a file of a commit, with its content in base64.

        `content` and `encoding` are null for a file of more than 1 MiB, whose bytes are at
        `raw_url`, and for symlinks and submodules, which are not followed. `target` is the path in
        the symlink or the commit of the submodule.
        """
        path, rev = self.path, self.revision

        def record() -> dict[str, Any]:
            file = read_content(self.repo, rev, path)
            return content_record(file, self.repo, rev.name or rev.sha, self.base_url)

        return by_names(self.http_request, (rev.sha, rev.name), record)


class RawViewSet(FileScoped):
    """…/repos/{repo_slug}/raw/{path}"""

    lookup_url_kwarg = "path"
    lookup_value_converter = "tree_path"

    @operation(
        Level.READ,
        query=FileQuery,
        media_type="*/*",
        errors=(*OF_FILES, "file_too_large", "is_directory", "not_a_file"),
    )
    def retrieve(self) -> HttpResponseBase:
        """Read the bytes of a file of a commit, of at most 512 MiB.

        Texts are sent as plain text, PNG, JPEG, GIF, WebP and AVIF as pictures, and all other files
        as attachments. `ETag` is the name of the blob. The bytes of a symlink are the path in it.
        Git LFS pointers are not followed.
        """
        return raw_response(self.http_request, self.principal, self.repo, self.revision, self.path)


class BlameQuery(FileQuery):
    """`from` is a keyword of Python, so it is added in `get_fields`."""

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
        """Read the commit that each line of a file comes from.

        `to` is at most 999 after `from`; without it, 500 lines are read. If the file ends earlier,
        `to` of the answer is its last line. `total_lines` is the number of its lines. A file of
        more than 1 MiB is 422 `file_too_large`. Renames of the file are followed: `original_path`
        and `original_line` are the place of a line in its commit.
        """
        path, query = self.path, self.validated_query
        throttle_key = caller_of(self.http_request, self.principal)
        lines = query["from"], query.get("to")
        blame = blame_lines(self.repo, self.revision, path, *lines, throttle_key)
        return by_body(self.http_request, blame_record(blame, self.repo, path, self.principal))


class ArchiveQuery(QuerySerializer):
    ref = TextParameter(required=False)
    format = StrictChoiceField([*KINDS], default="tar.gz")
    path = TextParameter(required=False)
    path_base64 = Base64Parameter(required=False)


class ArchiveViewSet(RepoScoped):
    """…/repos/{repo_slug}/archive"""

    schema_tags = ["archives"]

    @operation(
        Level.READ,
        query=ArchiveQuery,
        media_type="*/*",
        errors=(
            "archive_too_large",
            "invalid_path",
            "invalid_ref",
            "not_a_directory",
            "too_expensive",
        ),
    )
    def retrieve(self) -> HttpResponseBase:
        """Read all files of a commit as an archive.

        The files are in a folder named like the repository and the first twelve digits of the
        commit. With `path`, the archive has only the files below that directory, with their full
        paths. The attributes `export-ignore` and `export-subst` in the commit's `.gitattributes`
        apply, but no names of branches or tags are inserted.

        An archive of more than 100,000 files and directories or 2 GiB is 422 `archive_too_large`.
        If it is not sent within 60 seconds, or git fails, the connection is closed before the end
        of the answer. Each caller may read one archive at a time. The bytes of `format=tar` never
        change, and have an `ETag`; those of other formats may change.
        """
        query = self.validated_query
        path = path_in_query(self.http_request, query)
        rev, form = revision(self.repo, query.get("ref")), query["format"]
        throttle_key = caller_of(self.http_request, self.principal)
        find = partial(find_archive, self.repo, rev, path, throttle_key)

        def answer() -> HttpResponseBase:
            return archive_response(self.http_request, self.principal, find(), form)

        if form == "tar":
            return by_names(self.http_request, (rev.sha,), answer, check=find)
        return answer()
