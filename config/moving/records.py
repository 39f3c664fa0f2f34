"""The fields of an archive's records that are imported, with their limits. Others are ignored."""

from __future__ import annotations

from typing import Any

from rest_framework import serializers

from apps.browse.names import PATH_MAX, path_in_tree
from apps.core.controls import has_controls
from apps.core.errors import Invalid
from apps.core.serializers import (
    NameField,
    RuleCharField,
    StrictBooleanField,
    StrictCharField,
    StrictChoiceField,
    StrictIntegerField,
)
from apps.core.slugs import REPO_SLUG_MAX, USERNAME, USERNAME_MAX, repo_slug_problem
from apps.git.merge import Strategy
from apps.git.refs import valid_branch_name
from apps.git.repo import is_sha
from apps.pulls.models import REF_MAX, PullStatus, ReviewStatus
from apps.pulls.places import SNIPPET_BEFORE, SNIPPET_LINES, SNIPPET_WIDTH
from apps.pulls.serializers import LINE_MAX
from apps.repos.models import PATTERN_MAX, Visibility
from apps.repos.protection_rules import Fields, with_request_fields
from apps.repos.rules import pattern_problem
from apps.repos.serializers import DESCRIPTION_MAX
from apps.threads.anchors import ANCHOR_PATH_MAX, Side
from apps.threads.models import STEP_WIDTH, Priority, ReplyStatus, ThreadKind, ThreadStatus
from apps.threads.serializers import BODY_MAX, DELETED, TITLE_MAX, KindField, Links
from apps.uploads.models import FILENAME_MAX
from apps.uploads.rules import filename_problem

NUMBER_MAX = 10**12
REPLY_MAX = 36**STEP_WIDTH - 1


def text_field(most: int = BODY_MAX, **options: Any) -> StrictCharField:
    return StrictCharField(max_length=most, allow_blank=True, **options)


def number_field(most: int = NUMBER_MAX, least: int = 1, **options: Any) -> StrictIntegerField:
    return StrictIntegerField(min_value=least, max_value=most, **options)


def username_field(**options: Any) -> RuleCharField:
    """A username of the source; the reserved names are valid."""

    def problem(name: str) -> str | None:
        return None if USERNAME.fullmatch(name) else "This is no username."

    return RuleCharField(problem=problem, max_length=USERNAME_MAX, **options)


def address_field() -> RuleCharField:
    def problem(address: str) -> str | None:
        return "This is no address." if has_controls(address) else None

    return RuleCharField(problem=problem, max_length=500)


def sha_field(**options: Any) -> RuleCharField:
    def problem(name: str) -> str | None:
        return None if is_sha(name) else "This is no full name of a commit."

    return RuleCharField(problem=problem, max_length=40, **options)


def branch_field() -> RuleCharField:
    def problem(name: str) -> str | None:
        return None if valid_branch_name(name) else "This is no valid name of a branch."

    return RuleCharField(problem=problem, max_length=REF_MAX)


def time_field(**options: Any) -> serializers.DateTimeField:
    return serializers.DateTimeField(**options)


class ManifestRecord(serializers.Serializer[Any]):
    format = number_field()
    source = address_field()  # type: ignore[assignment] # DRF has such an attribute
    path = address_field()
    last_number = number_field(least=0)


class RepoRecord(serializers.Serializer[Any]):
    name = NameField(max_length=255)
    slug = RuleCharField(problem=repo_slug_problem, max_length=REPO_SLUG_MAX)
    description = StrictCharField(max_length=DESCRIPTION_MAX, allow_blank=True, allow_null=True)
    visibility = StrictChoiceField(Visibility)
    default_branch = branch_field()
    is_archived = StrictBooleanField()
    pushed_at = time_field(allow_null=True)
    created_at = time_field()
    updated_at = time_field()


class ThreadLine(serializers.Serializer[Any]):
    number = number_field()
    title = NameField(max_length=TITLE_MAX)
    body = text_field()
    kind = StrictChoiceField(ThreadKind)
    priority = StrictChoiceField(Priority)
    status = StrictChoiceField(ThreadStatus)
    created_by_username = username_field()
    last_activity_at = time_field()
    closed_at = time_field(allow_null=True)
    version = number_field()
    created_at = time_field()
    updated_at = time_field()


class VersionLine(serializers.Serializer[Any]):
    thread_number = number_field()
    version = number_field()
    body = text_field()
    edited_by_username = username_field(allow_null=True)
    created_at = time_field()


class ThreadVersionLine(VersionLine):
    title = NameField(max_length=TITLE_MAX)


class ReplyVersionLine(VersionLine):
    reply_number = number_field(REPLY_MAX)
    kind = KindField()
    status = StrictChoiceField(ReplyStatus)
    links = Links()


class AnchorLine(serializers.Serializer[Any]):
    """The lines that a reply is about. The worker looks for them at the pull's head."""

    commit_sha = sha_field()
    path = text_field(PATH_MAX)
    path_base64 = text_field(2 * PATH_MAX, default=None)
    side = StrictChoiceField(Side)
    start_line = number_field(LINE_MAX)
    line = number_field(LINE_MAX)
    snippet = serializers.ListField(
        child=text_field(SNIPPET_WIDTH), max_length=SNIPPET_LINES + SNIPPET_BEFORE
    )
    review_uuid = serializers.UUIDField(allow_null=True)

    def validate(self, anchor: dict[str, Any]) -> dict[str, Any]:
        """Replaces the texts of the path by its bytes."""
        try:
            path = path_in_tree(anchor["path"], anchor.pop("path_base64"))
        except Invalid as error:
            raise serializers.ValidationError({"path": error.detail}) from None
        if not 0 < len(path) <= ANCHOR_PATH_MAX or anchor["start_line"] > anchor["line"]:
            raise serializers.ValidationError("These are no lines of a file.")
        return {**anchor, "path": path}


class ReplyLine(serializers.Serializer[Any]):
    """A reply. The last fields are missing if it is deleted."""

    thread_number = number_field()
    number = number_field(REPLY_MAX)
    parent_reply_number = number_field(REPLY_MAX, default=None)
    is_deleted = StrictBooleanField()
    kind = KindField()
    status = StrictChoiceField([*map(str, ReplyStatus), DELETED])
    body = text_field()
    links = Links()
    created_by_username = username_field(allow_null=True)
    deleted_at = time_field(allow_null=True)
    anchor = AnchorLine(allow_null=True, default=None)
    version = number_field(default=1)
    edited_at = time_field(allow_null=True, default=None)
    created_at = time_field(default=None)
    updated_at = time_field(default=None)

    def validate(self, line: dict[str, Any]) -> dict[str, Any]:
        needed = ("deleted_at",) if line["is_deleted"] else ("created_at", "updated_at")
        author = () if line["is_deleted"] else ("created_by_username",)
        if missing := [name for name in (*needed, *author) if line[name] is None]:
            raise serializers.ValidationError(f"It has no {missing[0]}.")
        if line["is_deleted"] != (line["status"] == DELETED):
            raise serializers.ValidationError("status and is_deleted disagree.")
        return line


class PullLine(serializers.Serializer[Any]):
    number = number_field()
    repo_path = address_field()
    source_repo_path = RuleCharField(problem=lambda _: None, max_length=500, allow_null=True)
    source_branch = branch_field()
    target_branch = branch_field()
    source_moved = StrictBooleanField()
    status = StrictChoiceField(PullStatus)
    head_sha = sha_field(allow_null=True)
    base_sha = sha_field(allow_null=True)
    merge_commit_sha = sha_field(allow_null=True)
    merge_strategy = StrictChoiceField(Strategy, allow_null=True)
    merged_at = time_field(allow_null=True)
    merged_by_username = username_field(allow_null=True)
    closed_at = time_field(allow_null=True)
    commit_count = number_field(least=0)
    additions = number_field(least=0)
    deletions = number_field(least=0)
    changed_files = number_field(least=0)
    updated_at = time_field()


class PullVersionLine(serializers.Serializer[Any]):
    pull_number = number_field()
    version = number_field()
    head_sha = sha_field()
    base_sha = sha_field(allow_null=True)
    pushed_by_username = username_field(allow_null=True)
    created_at = time_field()
    is_forced = serializers.BooleanField(allow_null=True)


class ReviewLine(serializers.Serializer[Any]):
    uuid = serializers.UUIDField()
    pull_number = number_field()
    status = StrictChoiceField(ReviewStatus)
    body = text_field()
    commit_sha = sha_field(allow_null=True)
    dismissed_by_username = username_field(allow_null=True)
    created_by_username = username_field()
    created_at = time_field()
    updated_at = time_field()


class ProtectionLine(serializers.Serializer[Any]):
    branch = RuleCharField(problem=pattern_problem, max_length=PATTERN_MAX)
    created_by_username = username_field()
    created_at = time_field()
    updated_at = time_field()

    def get_fields(self) -> Fields:
        """Adds the settings of all rules."""
        return with_request_fields(super().get_fields())


class ApproverLine(serializers.Serializer[Any]):
    branch = RuleCharField(problem=pattern_problem, max_length=PATTERN_MAX)
    username = username_field()
    added_by_username = username_field(allow_null=True)
    created_at = time_field()


class UploadLine(serializers.Serializer[Any]):
    uuid = serializers.UUIDField()
    filename = RuleCharField(problem=filename_problem, max_length=FILENAME_MAX)
    sha256 = serializers.RegexField(r"^[0-9a-f]{64}\Z")
    created_by_username = username_field()
    created_at = time_field()


LINES: dict[str, type[serializers.Serializer[Any]]] = {
    "threads": ThreadLine,
    "thread_versions": ThreadVersionLine,
    "replies": ReplyLine,
    "reply_versions": ReplyVersionLine,
    "pulls": PullLine,
    "pull_versions": PullVersionLine,
    "reviews": ReviewLine,
    "protections": ProtectionLine,
    "approvers": ApproverLine,
    "uploads": UploadLine,
}
"""The files whose lines are imported."""
