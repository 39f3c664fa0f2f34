"""The resources that read code: branches, tags, commits, comparisons, files and archives."""

from __future__ import annotations

import datetime as dt
from functools import partial
from typing import Any

from django.http.response import HttpResponseBase
from django.utils.encoding import escape_uri_path
from drf_spectacular.utils import extend_schema_field
from rest_framework import serializers
from rest_framework.response import Response

from apps.browse import refs
from apps.browse.commits import History, read_commit
from apps.browse.comparison import Comparison, Ends, compare, find_ends, patches_of, write_text
from apps.browse.downloads import (
    KINDS,
    TEXTS,
    archive_response,
    find_archive,
    raw_response,
    text_response,
)
from apps.browse.names import (
    Revision,
    invalid_ref,
    is_utf8,
    path_in_query,
    path_in_tree,
    path_is_no_text,
    raw_path_of,
    revision,
)
from apps.browse.refs import BranchFilterSet, TagFilterSet
from apps.browse.serializers import (
    BlameRecord,
    BranchRecord,
    CommitRecord,
    ComparisonRecord,
    ContentRecord,
    SingleBranchRecord,
    SingleCommitRecord,
    TagRecord,
    TreeEntryRecord,
    blame_record,
    branch_record,
    commit_records,
    comparison_record,
    content_record,
    file_record,
    patched_record,
    protection_of_branch_record,
    stat_record,
    tag_record,
    tree_entry_record,
)
from apps.browse.trees import Folder, blame_lines, read_content
from apps.core.access import Level
from apps.core.conditional import by_names
from apps.core.errors import NotFound
from apps.core.operation import operation
from apps.core.pagination import PAGE_LIMIT, PER_PAGE_DEFAULT, PagePagination, with_parameters
from apps.core.query import Base64Parameter, FlagParameter, QuerySerializer, TextParameter, number
from apps.core.serializers import StrictChoiceField
from apps.core.slugs import PREFIX
from apps.git.diff import Changes
from apps.git.repo import is_sha
from apps.repos.access import RepoScoped
from apps.repos.http.transfer_slots import caller_of
from apps.repos.models import BRANCHES, TAGS, Ref
from apps.repos.models.ref import short_name
from apps.repos.queries import pulls_of_code

COUNT = {"type": "integer", "minimum": 1, "maximum": PAGE_LIMIT}
OF_FILES = ("invalid_path", "invalid_ref", "too_expensive")
PATCHES_MAX = 30
"""Most files of a page with patches."""


class CodeScoped(RepoScoped):
    @property
    def throttle_key(self) -> str:
        """The key of the slots for slow answers."""
        return caller_of(self.http_request, self.principal)


class BranchViewSet(RepoScoped):
    """…/branches, …/branches/{branch}"""

    queryset = Ref.objects.all()
    filterset_class = BranchFilterSet
    schema_tags = ["branches"]
    lookup_url_kwarg = "branch"
    lookup_value_converter = "path"
    ref: Any

    def load_objects(self) -> None:
        if "branch" in self.kwargs:
            rows = refs.list_branches(self.repo.pk)
            self.ref = refs.get_ref(rows, BRANCHES + self.kwargs["branch"], "branch")

    @operation(Level.READ, response=BranchRecord)
    def list(self) -> HttpResponseBase:
        """List the branches of a repository.

        `open_pull_numbers` has the ten oldest open pulls from the branch. A subject has at most
        1,000 characters. For some seconds after an upgrade of the server, fields of the commit may
        be null.
        """
        repo, filtered = self.repo.pk, self.filterset
        page = self.paginate(refs.list_branches(repo) if filtered else refs.BY_NAME.of(repo=repo))
        patterns = refs.protected_patterns(self.repo)
        names = [short_name(ref.full_name) for ref in page]
        pulls = pulls_of_code().open_numbers(self.repo, names)
        default = self.repo.default_branch
        records = [branch_record(ref, default, patterns, pulls) for ref in page]
        return self.get_paginated_response(records)

    @operation(Level.READ, response=SingleBranchRecord)
    def retrieve(self) -> dict[str, Any]:
        """Read a branch, with its distance from the default branch.

        `ahead_by` and `behind_by` are null if git cannot count within 5 seconds. A `/` in the name
        may be sent as `%2F`.
        """
        repo, ref = self.repo, self.ref
        name = self.kwargs["branch"]
        protections = refs.protections_of(repo, name)
        patterns = [protection.branch for protection in protections]
        pulls = pulls_of_code().open_numbers(repo, [name])
        ahead, behind = refs.ahead_and_behind(repo, ref.sha)
        record: dict[str, Any] = {
            **branch_record(ref, repo.default_branch, patterns, pulls),
            "ahead_by": ahead,
            "behind_by": behind,
            "protections": [protection_of_branch_record(protection) for protection in protections],
        }
        return record


class TagViewSet(RepoScoped):
    """…/tags, …/tags/{tag}"""

    queryset = Ref.objects.all()
    filterset_class = TagFilterSet
    schema_tags = ["tags"]
    lookup_url_kwarg = "tag"
    lookup_value_converter = "path"
    ref: Any

    def load_objects(self) -> None:
        if "tag" in self.kwargs:
            rows = refs.list_tags(self.repo)
            self.ref = refs.get_ref(rows, TAGS + self.kwargs["tag"], "tag")

    @operation(Level.READ, response=TagRecord)
    def list(self) -> HttpResponseBase:
        """List the tags of a repository.

        `message` has the first 1,000 characters; `message_truncated` tells whether there are more.
        A tag of a file or a folder has no commit. For some seconds after an upgrade of the server,
        fields of the commit may be null.
        """
        return self.page_of(refs.list_tags(self.repo), tag_record)

    @operation(Level.READ, response=TagRecord)
    def retrieve(self) -> dict[str, Any]:
        """Read a tag, with its whole message.

        A message of more than 1 MiB is cut, and `message_truncated` is true. A `/` in the name may
        be sent as `%2F`.
        """
        record = tag_record(self.ref)
        if record["message_truncated"]:
            record |= refs.whole_message(self.repo, self.ref.sha)
        return record


@extend_schema_field({"type": "string", "format": "date-time"})
class MomentParameter(TextParameter):
    """A time in ISO 8601. Without an offset it is in UTC."""

    def to_internal_value(self, data: Any) -> str:
        try:
            moment = dt.datetime.fromisoformat(super().to_internal_value(data))
        except ValueError:
            raise serializers.ValidationError("Must be a time in ISO 8601.") from None
        return (moment if moment.tzinfo else moment.replace(tzinfo=dt.UTC)).isoformat()


@extend_schema_field(COUNT)
class CountParameter(serializers.Field[Any, Any, Any, Any]):
    """A positive integer."""

    def to_internal_value(self, data: Any) -> int:
        try:
            return number(data, least=1, most=PAGE_LIMIT)
        except ValueError as error:
            raise serializers.ValidationError(str(error)) from None


class CommitsQuery(QuerySerializer):
    ref = TextParameter(required=False)
    path = TextParameter(required=False)
    path_base64 = Base64Parameter(required=False)
    author = TextParameter(required=False)
    since = MomentParameter(required=False)
    until = MomentParameter(required=False)


class PageQuery(QuerySerializer):
    """The page of a list inside a record. The paginator reads the parameters."""

    page = CountParameter(default=1)
    per_page = CountParameter(default=PER_PAGE_DEFAULT)


class CommitViewSet(CodeScoped):
    """…/repos/{repo_slug}/commits and …/commits/{sha}"""

    schema_tags = ["commits"]
    lookup_url_kwarg = "sha"
    lookup_value_converter = "segment"

    @operation(
        Level.READ,
        response=CommitRecord,
        query=CommitsQuery,
        errors=("invalid_path", "invalid_ref", "too_expensive"),
    )
    def list(self) -> HttpResponseBase:
        """List the commits of a branch, a tag or a commit, newest first, like `git log`.

        `next` names the commit that the list began with, so that a push does not shift pages. If
        git has to read too many commits for a page, or their messages are too long together, the
        answer is 422 `too_expensive`. A repository without commits has an empty list.
        """
        query = self.validated_query
        path = path_in_query(self.http_request, query)
        try:
            rev = revision(self.repo, query.get("ref"))
        except NotFound:
            if "ref" in query:
                raise
            return self.get_paginated_response(self.paginate([]))
        filters = {name: query.get(name, "") for name in ("author", "since", "until")}
        history = History(self.repo, rev, self.throttle_key, path, **filters)
        page = self.paginate(history)
        paginator: Any = self.paginator
        paginator.pinned = {"ref": history.commit}
        records = commit_records(page, self.repo, self.principal, self.base_url)
        return self.get_paginated_response(records)

    @operation(
        Level.READ,
        response=SingleCommitRecord,
        query=PageQuery,
        errors=("diff_too_large", "invalid_ref", "too_expensive"),
    )
    def retrieve(self) -> dict[str, Any]:
        """Read a commit, with its changes since its first parent.

        The full name of any stored commit works, also if no branch contains it. `files` is a page
        of at most 3,000 files. If the commit changes more, `files_truncated` is true; `stats`
        counts all of them. Signatures are not verified.
        """
        sha = self.kwargs["sha"]
        if not is_sha(sha):
            raise invalid_ref(sha)
        single = read_commit(self.repo, sha, self.throttle_key)
        changes = single.changes
        [record] = commit_records([single.commit], self.repo, self.principal, self.base_url)
        record["is_signed"] = single.is_signed
        record["pull_numbers"] = pulls_of_code().numbers_with(self.repo, sha)
        record["stats"] = stat_record(changes)
        return {**record, "files": self.page_of_files(changes)}

    def page_of_files(self, changes: Changes) -> dict[str, Any]:
        paginator: Any = self.paginator
        paginator.read(self.request, self.base_url)
        files = [file_record(file) for file in self.paginate(changes.files)]
        page: dict[str, Any] = self.get_paginated_response(files).data
        return {**page, "files_truncated": changes.total > len(changes.files)}


class ComparisonQuery(PageQuery):
    format = StrictChoiceField(["json", *TEXTS], default="json")
    direct = FlagParameter()
    patch = FlagParameter()


class FilesPagination(PagePagination):
    """Pages of files. Their links name both commits, so that a push does not shift pages."""

    path = ""

    def link(self, **changed: object) -> str:
        query = with_parameters(self.request.query_params, **changed)
        return f"{self.base_url}{escape_uri_path(self.path)}?{query}"


class ComparisonViewSet(CodeScoped):
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
    def retrieve(self) -> HttpResponseBase | dict[str, Any]:
        """Compare two branches, tags or commits: `base...head`.

        The changes are those since the best common ancestor or, with `direct=true`, since the base.
        The head may be in a fork that the caller may read: `users/bob:topic`, `bob:topic` or
        `teams/core:topic`.

        `commits` has the newest 250 commits that the head has and the base has not, newest first.
        If there are more, `commits_truncated` is true; `ahead_by` counts all of them. `files` is a
        page of at most 3,000 files. If there are more, `files_truncated` is true; `stats` counts
        all of them. `next` names both commits, so that a push does not shift pages.

        `patch=true` adds the patch of each file, for at most 30 files a page. It is null if the
        file is binary or `is_too_large`: a side has more than 1 MiB, more than 20,000 lines change,
        or the patches of the page have more than 4 MiB together.

        `format=diff` returns one diff for `git apply`, `format=patch` the commits as e-mails for
        `git am`. More than 3,000 files or 20 MiB are 422 `diff_too_large`.
        """
        ends = find_ends(self.access, self.kwargs["basehead"], self.throttle_key)
        form, direct = self.validated_query["format"], self.validated_query["direct"]

        def text() -> HttpResponseBase:
            file = write_text(ends, form, direct=direct)
            return text_response(self.http_request, self.principal, file, TEXTS[form])

        if form in TEXTS:
            return by_names(self.http_request, (ends.base, ends.head), text)
        comparison = compare(ends, direct=direct)
        commits = commit_records(comparison.commits, ends.source, self.principal, self.base_url)
        files = self.page_of_files(ends, comparison)
        return comparison_record(comparison, commits, files)

    def page_of_files(self, ends: Ends, comparison: Comparison) -> dict[str, Any]:
        paginator: Any = self.paginator
        paginator.read(self.request, self.base_url)
        paginator.path = f"{PREFIX}{self.repo.api_path}/compare/{ends.pinned}"
        if self.validated_query["patch"]:
            paginator.per_page = min(paginator.per_page, PATCHES_MAX)
        changes = comparison.changes
        files = self.paginate(changes.files)
        if self.validated_query["patch"]:
            patches = patches_of(ends, comparison, files)
            records = [patched_record(file, patches[file.path]) for file in files]
        else:
            records = [file_record(file) for file in files]
        page: dict[str, Any] = self.get_paginated_response(records).data
        return {**page, "files_truncated": changes.total > len(changes.files)}


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
        envelope = super().get_paginated_response_schema(schema)
        envelope["required"].append("is_truncated")
        envelope["properties"]["is_truncated"] = {"type": "boolean"}
        return envelope


class FileScoped(CodeScoped):
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
    def retrieve(self) -> dict[str, Any]:
        """Read the commit that each line of a file comes from.

        `to` is at most 999 after `from`; without it, 500 lines are read. If the file ends earlier,
        `to` of the answer is its last line. `total_lines` is the number of its lines. A file of
        more than 1 MiB is 422 `file_too_large`. Renames of the file are followed: `original_path`
        and `original_line` are the place of a line in its commit.
        """
        path, query = self.path, self.validated_query
        lines = query["from"], query.get("to")
        blame = blame_lines(self.repo, self.revision, path, *lines, self.throttle_key)
        return blame_record(blame, self.repo, path, self.principal)


class ArchiveQuery(QuerySerializer):
    ref = TextParameter(required=False)
    format = StrictChoiceField([*KINDS], default="tar.gz")
    path = TextParameter(required=False)
    path_base64 = Base64Parameter(required=False)


class ArchiveViewSet(CodeScoped):
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
        find = partial(find_archive, self.repo, rev, path, self.throttle_key)

        def answer() -> HttpResponseBase:
            return archive_response(self.http_request, self.principal, find(), form)

        if form == "tar":
            return by_names(self.http_request, (rev.sha,), answer, check=find)
        return answer()
