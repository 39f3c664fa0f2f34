"""`…/commits` and `…/commits/{sha}`."""

from __future__ import annotations

import datetime as dt
from typing import Any

from django.http.response import HttpResponseBase
from drf_spectacular.utils import extend_schema_field
from rest_framework import serializers

from apps.browse.commits import History, read_commit
from apps.browse.names import invalid_ref, path_in_query, pulls_of_code, revision
from apps.browse.serializers.commits import (
    CommitRecord,
    SingleCommitRecord,
    commit_records,
)
from apps.browse.serializers.files import file_record
from apps.core.access import Level
from apps.core.conditional import by_body
from apps.core.errors import NotFound
from apps.core.operation import operation
from apps.core.pagination import PAGE_LIMIT, PER_PAGE_DEFAULT
from apps.core.query import Base64Parameter, QuerySerializer, TextParameter, number
from apps.git.diff import Changes
from apps.git.repo import is_sha
from apps.repos.access import RepoScoped
from apps.repos.http.transfer_slots import caller_of

COUNT = {"type": "integer", "minimum": 1, "maximum": PAGE_LIMIT}


@extend_schema_field({"type": "string", "format": "date-time"})
class MomentParameter(TextParameter):
    """ISO 8601; a time without an offset is in UTC."""

    def to_internal_value(self, data: Any) -> str:
        try:
            moment = dt.datetime.fromisoformat(super().to_internal_value(data))
        except ValueError:
            raise serializers.ValidationError("Must be a time as ISO 8601 has it.") from None
        return (moment if moment.tzinfo else moment.replace(tzinfo=dt.UTC)).isoformat()


@extend_schema_field(COUNT)
class CountParameter(serializers.Field[Any, Any, Any, Any]):
    """A number from 1."""

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
    """A page inside of a record; the paginator reads it."""

    page = CountParameter(default=1)
    per_page = CountParameter(default=PER_PAGE_DEFAULT)


class CommitViewSet(RepoScoped):
    """…/repos/{repo_slug}/commits and …/commits/{sha}"""

    schema_tags = ["commits"]
    lookup_url_kwarg = "sha"
    lookup_value_converter = "segment"

    @property
    def who(self) -> str:
        """For whom a place is held where git takes long."""
        return caller_of(self.http_request, self.principal)

    @operation(
        Level.READ,
        response=CommitRecord,
        query=CommitsQuery,
        errors=("invalid_path", "invalid_ref", "too_expensive"),
    )
    def list(self) -> HttpResponseBase:
        """List the commits of a branch, a tag or a commit, newest first, as `git log` does.

        `next` names the commit that the list began with, so that pages do not shift under a push.
        Where git has to look at too many commits for a page, or their messages are too long
        together, the answer is 422 `too_expensive`. A repository without commits has an empty list.
        """
        sent = self.validated_query
        path = path_in_query(self.http_request, sent)
        try:
            wanted = revision(self.repo, sent.get("ref"))
        except NotFound:
            if "ref" in sent:
                raise
            return self.get_paginated_response(self.paginate([]))
        filters = {name: sent.get(name, "") for name in ("author", "since", "until")}
        history = History(self.repo, wanted, self.who, path, **filters)
        page = self.paginate(history)
        paginator: Any = self.paginator
        paginator.pinned = {"ref": history.commit}
        records = commit_records(page, self.repo, self.principal, self.base_url)
        return by_body(self.http_request, self.get_paginated_response(records).data)

    @operation(
        Level.READ,
        response=SingleCommitRecord,
        query=PageQuery,
        errors=("diff_too_large", "invalid_ref", "too_expensive"),
    )
    def retrieve(self) -> HttpResponseBase:
        """Read a commit, and which files it changes since its first parent.

        Any commit that is stored is read by its full name, whether a branch leads to it or not.
        `files` is a page of at most 3,000 files: `files_truncated` says that the commit changes
        more, all of which `stats` counts. Whether a signature is valid is not checked.
        """
        sha = self.kwargs["sha"]
        if not is_sha(sha):
            raise invalid_ref(sha)
        found = read_commit(self.repo, sha, self.who)
        changes = found.changes
        [record] = commit_records([found.commit], self.repo, self.principal, self.base_url)
        record["is_signed"] = found.is_signed
        record["pull_numbers"] = pulls_of_code().numbers_with(self.repo, sha)
        record["stats"] = {
            "additions": changes.additions,
            "deletions": changes.deletions,
            "changed_files": changes.total,
        }
        return by_body(self.http_request, {**record, "files": self.page_of_files(changes)})

    def page_of_files(self, changes: Changes) -> dict[str, Any]:
        """The page of these files that the request asks for."""
        paginator: Any = self.paginator
        paginator.read(self.request, self.base_url)
        files = [file_record(file) for file in self.paginate(changes.files)]
        page: dict[str, Any] = self.get_paginated_response(files).data
        return {**page, "files_truncated": changes.total > len(changes.files)}
