"""Folders, files, blame and archives of a commit."""

from __future__ import annotations

from functools import partial
from typing import Any
from urllib.parse import unquote_to_bytes

from django.core.handlers.asgi import ASGIRequest
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


def address_of(request: HttpRequest) -> bytes:
    """The bytes of the address that was asked for, as far as the server tells them. Django shows
    those that are not UTF-8 as what a file may be called: `%FF` or U+FFFD, by the server.
    """
    if isinstance(request, ASGIRequest):
        sent = request.scope.get("raw_path")
    else:
        sent = request.META.get("RAW_URI", "").partition("?")[0]
    return unquote_to_bytes(sent or request.path)


class FileQuery(QuerySerializer):
    ref = TextParameter(required=False)
    path_base64 = Base64Parameter(required=False)


class TreeQuery(FileQuery):
    recursive = FlagParameter()
    sizes = FlagParameter()


class TreePagination(PagePagination):
    """Pages of a list that may end before the tree does."""

    is_truncated = False

    def get_paginated_response(self, data: Any) -> Response:
        answer = super().get_paginated_response(data)
        answer.data["is_truncated"] = self.is_truncated
        return answer

    def get_paginated_response_schema(self, schema: Any) -> dict[str, Any]:
        """The envelope, and whether the list was cut."""
        envelope = super().get_paginated_response_schema(schema)
        envelope["required"].append("is_truncated")
        envelope["properties"]["is_truncated"] = {"type": "boolean"}
        return envelope


class FileScoped(RepoScoped):
    """A resource at a path of a commit."""

    schema_tags = ["contents"]

    @property
    def path(self) -> bytes:
        """The path below the root, which is empty; 422."""
        in_base64 = self.validated_query.get("path_base64")
        if in_base64 is None and not is_utf8(address_of(self.http_request)):
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

        `recursive=true` lists what is below its directories too, each directory before what it
        holds. At most 100,000 entries or 32 MiB of them are listed: `is_truncated` says on each
        page that there are more in the tree. `next` names the commit, so that pages do not shift
        under a push. A repository without commits has no entries.
        """
        path = self.path
        try:
            wanted = self.revision
        except NotFound:
            if path or "ref" in self.validated_query:
                raise
            return self.get_paginated_response(self.paginate([]))
        return by_names(self.http_request, (wanted.sha,), lambda: self.page(wanted, path))

    def page(self, wanted: Revision, path: bytes) -> Response:
        """The page of the folder that the request asks for."""
        options = {name: self.validated_query[name] for name in ("recursive", "sizes")}
        folder = Folder(self.repo, wanted, path, **options)
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

        A file of more than 1 MiB comes with `content` and `encoding` null: `raw_url` has its
        bytes. So do symlinks and submodules, whose `target` says where they lead; they are not
        followed.
        """
        path, wanted = self.path, self.revision

        def record() -> dict[str, Any]:
            found = read_content(self.repo, wanted, path)
            return content_record(found, self.repo, wanted.name or wanted.sha, self.base_url)

        return by_names(self.http_request, (wanted.sha, wanted.name), record)


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

        Text comes as plain text, PNG, JPEG, GIF, WebP and AVIF as pictures, and everything else as
        an attachment. `ETag` is the name of the blob. Of a symlink these are the bytes of where it
        leads; a pointer of Git LFS comes as it is.
        """
        return raw_response(self.http_request, self.principal, self.repo, self.revision, self.path)


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
        return by_body(self.http_request, blame_record(found, path, self.principal))


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

        All of it is in a folder that is called as the repository and the first twelve digits of
        the commit. With `path` it has only what is below that directory, under its full path.
        `.gitattributes` of the commit say what is left out (`export-ignore`) and where the commit
        is written into files (`export-subst`): there, no branch or tag is named.

        An archive of more than 100,000 files and directories or 2 GiB is 422 `archive_too_large`.
        One that is not sent within 60 seconds, or that git cannot write to its end, is broken off
        without the end of the answer. Each caller has one at a time. The bytes of `format=tar`
        stay the same, and have an `ETag`; those of the others may change.
        """
        sent = self.validated_query
        path = path_in_query(self.http_request, sent)
        wanted, form = revision(self.repo, sent.get("ref")), sent["format"]
        who = caller_of(self.http_request, self.principal)
        find = partial(find_archive, self.repo, wanted, path, who)

        def answer() -> HttpResponseBase:
            return archive_response(self.http_request, self.principal, find(), form)

        if form == "tar":
            return by_names(self.http_request, (wanted.sha,), answer, check=find)
        return answer()
