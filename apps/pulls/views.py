"""`…/pulls` and the resources below: merging, reviews, versions, commits, files and diffs."""

from __future__ import annotations

from collections.abc import Callable
from io import BytesIO
from typing import IO, Any

from django.http.response import HttpResponseBase
from drf_spectacular.utils import extend_schema_field
from rest_framework import serializers
from rest_framework.decorators import action
from rest_framework.response import Response

from apps.browse.downloads import TEXTS, text_response
from apps.browse.serializers import commit_records, file_record, patched_record
from apps.core.access import Level, Permission
from apps.core.conditional import by_names
from apps.core.lookup import get_or_missing
from apps.core.operation import operation
from apps.core.pagination import PAGE_LIMIT, PagePagination
from apps.core.query import FlagParameter, QuerySerializer, TextParameter, number
from apps.pulls import actions, versions
from apps.pulls.approval import Eligibility, readiness_of
from apps.pulls.branch_views import ShaParameter, SourceBranchViewSet
from apps.pulls.filters import CrossRepoPullFilterSet, PullFilterSet
from apps.pulls.models import PULL_ROW, Pull, PullVersion, Review
from apps.pulls.queries import PULLS, get_pull, list_pulls, list_reviews, progress_of
from apps.pulls.serializers import (
    CreatePull,
    CreateReview,
    MergePull,
    MergeRecord,
    PullCommitRecord,
    PullFileRecord,
    PullProtectionRecord,
    PullRecord,
    PullVersionRecord,
    ReviewRecord,
    SetAutoMerge,
    SetPullStatus,
    UpdatePull,
    UpdateReview,
    merge_record,
    pull_protection_record,
    pull_records,
    review_record,
)
from apps.pulls.viewed_serializers import SetViewed, ViewedRecord, viewed_record
from apps.repos.access import RepoScoped
from apps.repos.http.transfer_slots import caller_of
from apps.repos.protection_rules import RULES
from apps.threads.models import ThreadKind
from apps.threads.serializers import RenderQuery, StoredHtml
from apps.threads.views import BodyViewSet, CrossRepoQuery, CrossRepoViewSet


class HeadQuery(QuerySerializer):
    expected_head_sha = ShaParameter(
        required=False, help_text="Refuse the request unless the head is still this commit."
    )
    expected_target_branch = TextParameter(
        required=False, help_text="Refuse the request unless this is still the target branch."
    )


STATUS_ERRORS = (
    "invalid_transition",
    "pull_already_exists",
    "pull_already_merged",
    "role_required",
)
UPDATE_ERRORS = (*STATUS_ERRORS, "merge_in_progress", "pull_closed", "same_branch")


class CrossRepoPullViewSet(CrossRepoViewSet):
    """/pulls"""

    schema_tags = ["pulls"]
    queryset = Pull.objects.filter(thread__kind=ThreadKind.PULL.value)
    filterset_class = CrossRepoPullFilterSet
    thread = "thread__"

    @operation(Level.NONE, response=PullRecord, query=CrossRepoQuery, errors=("invalid_cursor",))
    def list(self) -> Response:
        """List pulls of all repositories that the caller may read, newest activity first.

        `next` leads to older activity and `previous` to newer.
        """
        rows = [(row.values, row.repo) for row in self.page(PULL_ROW.values())]
        return self.get_paginated_response(pull_records(rows, self.principal, self.base_url))


class PullViewSet(SourceBranchViewSet):
    """/{owner}/repos/{repo_slug}/pulls"""

    schema_tags = ["pulls"]
    lookup_url_kwarg = "number"
    lookup_value_converter = "number"
    queryset = Pull.objects.all()
    filterset_class = PullFilterSet
    html = StoredHtml(Pull.objects, "thread__")

    def load_objects(self) -> None:
        """Load the pull. Only its author and people with write access may change it."""
        if "number" not in self.kwargs:
            return
        self.pull = get_pull(self.repo, self.kwargs["number"])
        if self.action in {"update", "set_status"}:
            self.access.require_author_or(Level.WRITE, self.pull.thread.created_by_id, "pull")

    @operation(Level.READ, response=PullRecord, query=RenderQuery)
    def list(self) -> Response:
        """List a repository's pulls."""
        repo = self.repo.pk
        rows = self.paginate(list_pulls(repo) if self.filterset else PULLS.of(repo=repo))
        records = pull_records([(row, self.repo) for row in rows], self.principal, self.base_url)
        return self.page_with_html(self.get_paginated_response(records))

    @operation(
        Level.READ,
        permission=Permission.WRITE,
        request=CreatePull,
        response=PullRecord,
        status=201,
        errors=("pull_already_exists", "role_required", "same_branch", "source_not_found"),
    )
    def create(self) -> dict[str, Any]:
        """Open a pull. Its branches need not exist yet."""
        self.pull = actions.create_pull(access=self.access, **self.validated_data)
        return self.record()

    @operation(Level.READ, response=PullRecord, query=RenderQuery)
    def retrieve(self) -> dict[str, Any]:
        """Read a pull."""
        return self.record_with_html(self.record())

    @operation(
        Level.READ,
        permission=Permission.WRITE,
        request=UpdatePull,
        response=PullRecord,
        errors=UPDATE_ERRORS,
    )
    def update(self) -> dict[str, Any]:
        """Change a pull's title, body, status or target branch, as its author or with write access.

        A new target branch must exist. Approvals for the former one become stale.
        """
        actions.update_pull(access=self.access, pull=self.pull, **self.validated_data)
        return self.record()

    @action(detail=True, methods=["put"], url_path="status")
    @operation(
        Level.READ,
        permission=Permission.WRITE,
        request=SetPullStatus,
        response=PullRecord,
        errors=STATUS_ERRORS,
    )
    def set_status(self) -> dict[str, Any]:
        """Change a pull's status, as its author or with write access."""
        actions.update_pull(access=self.access, pull=self.pull, **self.validated_data)
        return self.record()

    @action(detail=True, methods=["post"])
    @operation(
        Level.WRITE,
        permission=Permission.WRITE,
        request=MergePull,
        response=MergeRecord,
        query=HeadQuery,
        errors=(
            *(rule.code for rule in RULES),
            "branch_missing",
            "fast_forward_impossible",
            "head_changed",
            "merge_conflict",
            "merge_in_progress",
            "nothing_to_merge",
            "pull_already_merged",
            "pull_closed",
            "pull_is_draft",
            "strategy_differs",
            "target_changed",
        ),
    )
    def merge(self) -> dict[str, Any]:
        """Merge a pull into its target.

        A refusal names all blockers; `error` is the first of them.
        """
        deletion = actions.merge_pull(
            access=self.access,
            pull=self.pull,
            asked_since=self.asked_since,
            **self.validated_query,
            **self.validated_data,
        )
        return merge_record(self.pull, self.record(), deletion)

    @action(detail=True, methods=["put"], url_path="auto-merge")
    @operation(
        Level.WRITE,
        permission=Permission.WRITE,
        request=SetAutoMerge,
        response=PullRecord,
        errors=(
            "branch_missing",
            "head_changed",
            "pull_already_merged",
            "pull_closed",
            "target_changed",
        ),
    )
    def set_auto_merge(self) -> dict[str, Any]:
        """Merge a pull as soon as nothing blocks it, in the name of the caller.

        A pull that can be merged now is merged by the worker within a few seconds. Replaces an
        earlier auto-merge of the pull.
        """
        actions.set_auto_merge(access=self.access, pull=self.pull, **self.validated_data)
        return self.record()

    @set_auto_merge.mapping.delete
    @operation(Level.WRITE, permission=Permission.WRITE, status=204)
    def delete_auto_merge(self) -> None:
        """Cancel the auto-merge of a pull."""
        actions.cancel_auto_merge(access=self.access, pull=self.pull)

    @action(detail=True, methods=["get"])
    @operation(Level.READ, response=PullProtectionRecord)
    def protection(self) -> dict[str, Any]:
        """Read everything that blocks a pull's merge, and whether each approval counts."""
        return pull_protection_record(readiness_of(self.pull), self.access)


class ReviewViewSet(BodyViewSet):
    """/{owner}/repos/{repo_slug}/pulls/{number}/reviews"""

    schema_tags = ["pulls"]
    lookup_url_kwarg = "review_uuid"
    html = StoredHtml(Review.objects)
    lookup_value_converter = "uid"
    pull: Pull
    review: Review

    def load_objects(self) -> None:
        """Load the pull, and the review that must be on it."""
        self.pull = get_pull(self.repo, self.kwargs["number"])
        if "review_uuid" in self.kwargs:
            rows, uuid = list_reviews(self.pull), self.kwargs["review_uuid"]
            self.review = get_or_missing(rows, "review", "this pull", uuid=uuid)

    @operation(Level.READ, response=ReviewRecord, query=RenderQuery)
    def list(self) -> Response:
        """List a pull's reviews, oldest first."""
        eligibility = Eligibility.of(self.pull)
        rows = list_reviews(self.pull)
        return self.page_with_html(self.page_of(rows, lambda row: review_record(row, eligibility)))

    @operation(
        Level.READ,
        permission=Permission.WRITE,
        request=CreateReview,
        response=ReviewRecord,
        status=201,
        query=HeadQuery,
        errors=("head_changed", "target_changed"),
    )
    def create(self) -> dict[str, Any]:
        """Review a pull. Reviews are always stored; `is_eligible` says whether they count."""
        values = {**self.validated_query, **self.validated_data}
        review = actions.create_review(access=self.access, pull=self.pull, **values)
        return self.record(list_reviews(self.pull).get(pk=review.pk))

    @operation(Level.READ, response=ReviewRecord, query=RenderQuery)
    def retrieve(self) -> dict[str, Any]:
        """Read a review."""
        return self.record_with_html(self.record(self.review))

    @operation(
        Level.READ,
        permission=Permission.WRITE,
        request=UpdateReview,
        response=ReviewRecord,
        query=HeadQuery,
        errors=(
            "head_changed",
            "invalid_transition",
            "not_creator",
            "role_required",
            "target_changed",
        ),
    )
    def update(self) -> dict[str, Any]:
        """Change one's own review. Only admins of the repository set `dismissed`."""
        values = {**self.validated_query, **self.validated_data}
        actions.update_review(access=self.access, review=self.review, **values)
        return self.record(self.review)

    def record(self, review: Review) -> dict[str, Any]:
        return review_record(review, Eligibility.of(self.pull))

    @operation(Level.READ, permission=Permission.WRITE, status=204, errors=("not_creator",))
    def destroy(self) -> None:
        """Delete a review, as its author, as an owner of the repository, or as staff."""
        actions.delete_review(access=self.access, review=self.review)


# Versions, commits, files and diffs


class ContentsPagination(PagePagination):
    """Pages by number, with further properties beside `results`."""

    properties: dict[str, dict[str, Any]] = {}
    """The schemas of these properties."""

    def set_properties(self, version: PullVersion | None, **values: Any) -> None:
        """Set the values of these properties, before the response is made."""
        self.values = {"version": version and version.version, **values}

    def link(self, **changed: object) -> str:
        """Links contain the version, so that pages do not shift when somebody pushes."""
        return super().link(**{"version": self.values["version"], **changed})

    def get_paginated_response(self, data: Any) -> Response:
        response = super().get_paginated_response(data)
        response.data |= self.values
        return response

    def get_paginated_response_schema(self, schema: Any) -> dict[str, Any]:
        whole = super().get_paginated_response_schema(schema)
        whole["required"] = [*whole["required"], *self.properties]
        whole["properties"] = whole["properties"] | self.properties
        return whole


VERSION = {"version": {"type": ["integer", "null"]}}


class CommitsPagination(ContentsPagination):
    properties = {
        **VERSION,
        "commit_count": {"type": "integer"},
        "commits_truncated": {"type": "boolean"},
    }


class FilesPagination(ContentsPagination):
    properties = {
        **VERSION,
        "changed_files": {"type": "integer"},
        "files_truncated": {"type": "boolean"},
        "is_rebased": {"type": ["boolean", "null"]},
    }


PATCHES_PER_PAGE = 30
"""Most files of a page with patches."""


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
        """Adds `from`, which cannot be an attribute because it is a keyword of Python."""
        text = (
            "The number of a version. Lists the differences between its head and that of `version`."
        )
        return {**super().get_fields(), "from": VersionParameter(required=False, help_text=text)}


class ContentsViewSet(RepoScoped):
    """The common part of the viewsets for a version of a pull."""

    schema_tags = ["pulls"]
    pull: Pull

    def load_objects(self) -> None:
        self.pull = get_pull(self.repo, self.kwargs["number"])

    @property
    def throttle_key(self) -> str:
        """The key under which a slot is held while git works."""
        return caller_of(self.http_request, self.principal)

    def version(self) -> PullVersion | None:
        """The requested version, by default the newest; None if the pull has no head. 404."""
        return versions.get_version(self.pull, self.validated_query.get("version"))

    def text_response(
        self, media_type: str, text_of: Callable[[PullVersion, str], IO[bytes]]
    ) -> HttpResponseBase:
        """The text of the requested version, empty for a pull without a head or a target."""
        version = self.version()
        names = (version.head_sha, version.base_sha, version.merge_base_sha) if version else ()

        def answer() -> HttpResponseBase:
            has_text = version and version.base_sha
            file = text_of(version, self.throttle_key) if version and has_text else BytesIO()
            return text_response(self.http_request, self.principal, file, media_type)

        return by_names(self.http_request, names, answer)


class PullVersionViewSet(ContentsViewSet):
    """…/pulls/{number}/versions"""

    @operation(Level.READ, response=PullVersionRecord)
    def list(self) -> HttpResponseBase:
        """List the versions of a pull, one for each head, oldest first.

        A push to the source creates a version, and so does reopening the pull with another head. A
        push to the target creates none. The numbers of commits, lines and files are null while they
        are not known yet, and without a target.
        """
        rows = self.paginate(versions.list_versions(self.pull))
        return self.get_paginated_response(rows)


class PullCommitViewSet(ContentsViewSet):
    """…/pulls/{number}/commits"""

    pagination_class = CommitsPagination

    @operation(Level.READ, response=PullCommitRecord, query=VersionQuery, errors=("too_expensive",))
    def list(self) -> HttpResponseBase:
        """List the commits of a pull that were not in its target at the last push, oldest first.

        Only the newest 1,000 are listed. If there are more, `commits_truncated` is true;
        `commit_count` is the number of all. A pull without a head or a target has none. 422
        `too_expensive` if git could not list them in time.
        """
        version = self.version()
        commits = versions.commits_of(version, self.throttle_key) if version else []
        count = (version and version.commit_count) or 0
        page = self.paginate(commits)
        paginator: Any = self.paginator
        truncated = len(commits) < count
        paginator.set_properties(version, commit_count=count, commits_truncated=truncated)
        records = commit_records(page, self.repo, self.principal, self.base_url)
        return self.get_paginated_response(records)


class PullFileViewSet(ContentsViewSet):
    """…/pulls/{number}/files"""

    pagination_class = FilesPagination

    @operation(Level.READ, response=PullFileRecord, query=FilesQuery, errors=("too_expensive",))
    def list(self) -> HttpResponseBase:
        """List the files that a pull changes between its merge base and its head.

        With `from`, list the files that differ between the heads of two versions. If `is_rebased`
        is true, the two versions have different merge bases, and the files also include changes
        from the target. Only the first 3,000 files are listed. If there are more,
        `files_truncated` is true; `changed_files` is the number of all. With `patch`, a page has at
        most 30 files, even if `per_page` is larger, and patches of at most 4 MiB in total; files
        without their patch have `is_too_large`. 422 `too_expensive` if git could not list them in
        time.
        """
        version = self.version()
        before = self.validated_query.get("from")
        old = versions.get_version(self.pull, before) if before else None
        names = tuple(
            (row.version, row.head_sha, row.base_sha, row.merge_base_sha, row.changed_files)
            for row in (version, old)
            if row
        )
        return by_names(self.http_request, names, lambda: self.page_between(old, version))

    def page_between(self, old: PullVersion | None, version: PullVersion | None) -> Response:
        """The page of the files that `version` changes, or in which it differs from `old`."""
        paginator: Any = self.paginator
        if self.validated_query["patch"]:
            paginator.per_page = min(paginator.per_page, PATCHES_PER_PAGE)
        if version is None:
            listing = versions.NOTHING
        elif old is None:
            listing = versions.files_of(version, self.throttle_key)
        else:
            listing = versions.files_between(old, version, self.throttle_key)
        page = self.paginate(listing.files)
        paginator.set_properties(
            version,
            changed_files=listing.total,
            files_truncated=len(listing.files) < listing.total,
            is_rebased=versions.is_rebased(old, version) if old and version else None,
        )
        if not self.validated_query["patch"]:
            return self.get_paginated_response([file_record(file) for file in page])
        patches = versions.patches_of(listing, page, self.throttle_key)
        return self.get_paginated_response([*map(patched_record, page, patches)])


class PullViewedViewSet(ContentsViewSet):
    """…/pulls/{number}/viewed"""

    http_method_names = ["get", "head", "put"]

    @operation(Level.READ, response=ViewedRecord, query=VersionQuery, errors=("too_expensive",))
    def retrieve(self) -> dict[str, Any]:
        """Read which changed files of a pull the caller has marked as viewed.

        A mark is for one change of one file: after a push, only files whose change is the same are
        still viewed. Only the caller sees it.
        """
        return self.record(self.version())

    @operation(
        Level.READ,
        permission=Permission.WRITE,
        request=SetViewed,
        response=ViewedRecord,
        errors=("invalid_path", "too_expensive"),
    )
    def update(self) -> dict[str, Any]:
        """Mark a changed file of a pull as viewed by the caller, or remove the mark.

        `head_sha` names the version whose change is meant, by default the newest one.
        """
        version = actions.set_viewed(access=self.access, pull=self.pull, **self.validated_data)
        return self.record(version)

    def record(self, version: PullVersion | None) -> dict[str, Any]:
        listing = versions.files_of(version, self.throttle_key) if version else versions.NOTHING
        return viewed_record(version, listing, progress_of(self.pull, self.principal.person_id))


class PullDiffViewSet(ContentsViewSet):
    """…/pulls/{number}/diff"""

    @operation(
        Level.READ,
        query=VersionQuery,
        media_type="text/x-diff",
        errors=("diff_too_large", "too_expensive"),
    )
    def retrieve(self) -> HttpResponseBase:
        """Read the changes of a pull as one diff, for `git apply`.

        The diff is between the merge base and the head, includes binary files, and is always
        complete. 422 `diff_too_large` if it has more than 3,000 files or 20 MiB, or takes git more
        than 10 seconds. It is empty for a pull without a head or a target.
        """
        return self.text_response(TEXTS["diff"], versions.diff_of)


class PullPatchViewSet(ContentsViewSet):
    """…/pulls/{number}/patch"""

    @operation(
        Level.READ,
        query=VersionQuery,
        media_type="text/plain",
        errors=("diff_too_large", "too_expensive"),
    )
    def retrieve(self) -> HttpResponseBase:
        """Read the commits of a pull as patches in mail format, for `git am`, oldest first.

        Merges and commits without changes are left out; the rest is always complete. 422
        `diff_too_large` for more than 1,000 commits, 3,000 files or 20 MiB, or if it takes git more
        than 10 seconds. The text is empty for a pull without a head or a target.
        """
        return self.text_response(TEXTS["patch"], versions.mails_of)
