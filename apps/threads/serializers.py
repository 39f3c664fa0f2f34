"""Request serializers and records of threads, replies, versions and participants."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from django.db.models import Case, F, QuerySet, TextField, When
from django.db.models.functions import Length
from rest_framework import serializers

from apps.browse.names import path_fields
from apps.core import markdown
from apps.core.query import QuerySerializer
from apps.core.serializers import (
    NameField,
    RecordSerializer,
    RequestSerializer,
    RuleCharField,
    StrictCharField,
    StrictChoiceField,
    StrictIntegerField,
    TimestampField,
)
from apps.core.slugs import PREFIX
from apps.git.lines import Outdated
from apps.repos.access import RepoAccess
from apps.repos.models import Repo, RepoPath
from apps.threads import queries, references, rules
from apps.threads.anchors import ANCHOR_ROW, Side
from apps.threads.models import (
    ANCHORED_ROW,
    CREATOR,
    REPLY_ROW,
    THREAD_ROW,
    Priority,
    Reply,
    ReplyStatus,
    Thread,
    ThreadKind,
    ThreadStatus,
    parent_number,
    segment,
)

TITLE_MAX = 255
BODY_MAX = 65_536
REPLIES_MAX = 500
"""Maximum number of replies in the single read of a thread; the paged list has all of them."""
BODIES_MAX = 2 * 1024 * 1024
"""Maximum bytes of these replies' bodies together."""
HTML_MAX = 2 * 1024 * 1024
"""Maximum bytes of HTML in one answer. The HTML of a single body is smaller."""
DELETED = "deleted"
WHOLE_ONLY = ("uuid", "version", "edited_at", "created_at", "updated_at")
"""The fields that the placeholder of a deleted reply lacks."""


class KindField(RuleCharField):
    """The kind of a reply or link: any well-formed word, also one without a known meaning."""

    def __init__(self, **options: Any) -> None:
        super().__init__(
            problem=rules.word_problem,
            max_length=rules.WORD_MAX,
            pattern=rules.WORD.pattern,
            **options,
        )


class CreateThread(RequestSerializer):
    title = NameField(max_length=TITLE_MAX)
    body = StrictCharField(max_length=BODY_MAX, allow_blank=True)
    kind = StrictChoiceField([*rules.KINDS])
    priority = StrictChoiceField(Priority, required=False)
    status = StrictChoiceField(ThreadStatus, required=False)


class UpdateThread(RequestSerializer):
    title = NameField(max_length=TITLE_MAX, required=False)
    body = StrictCharField(max_length=BODY_MAX, allow_blank=True, required=False)
    kind = StrictChoiceField([*rules.KINDS], required=False)
    priority = StrictChoiceField(Priority, required=False)
    status = StrictChoiceField(ThreadStatus, required=False)


class Link(RequestSerializer):
    kind = KindField()
    target = StrictCharField(max_length=rules.TARGET_MAX)

    def validate(self, link: dict[str, str]) -> dict[str, str]:
        problem = rules.link_problem(link["kind"], link["target"])
        if problem is not None:
            raise serializers.ValidationError({"target": problem})
        return dict(link)


class Links(serializers.ListField):
    def __init__(self, **options: Any) -> None:
        super().__init__(child=Link(), max_length=rules.LINKS_MAX, **options)


class CreateReply(RequestSerializer):
    kind = KindField()
    body = StrictCharField(max_length=BODY_MAX)
    parent_reply_number = StrictIntegerField(required=False, allow_null=True)
    status = StrictChoiceField(ReplyStatus, required=False)
    links = Links(required=False)


class UpdateReply(RequestSerializer):
    kind = KindField(required=False)
    body = StrictCharField(max_length=BODY_MAX, required=False)
    status = StrictChoiceField(ReplyStatus, required=False)
    links = Links(required=False)


class RenderQuery(QuerySerializer):
    render = StrictChoiceField(
        ["html"], required=False, help_text="`html`: each record has `body_html` as well."
    )


class Html(serializers.CharField):
    """The body as HTML, in answers to `render=html`; null if the answer reached `HTML_MAX`."""

    def __init__(self) -> None:
        super().__init__(required=False, allow_blank=True, allow_null=True)


class LinkRecord(RecordSerializer):
    kind = serializers.CharField()
    target = serializers.CharField()


class PlaceRecord(RecordSerializer):
    """Lines of a file at a commit."""

    commit_sha = serializers.CharField()
    path = serializers.CharField()
    path_base64 = serializers.CharField(required=False)
    start_line = serializers.IntegerField()
    line = serializers.IntegerField()


class AnchorRecord(RecordSerializer):
    """The lines that a reply is about."""

    commit_sha = serializers.CharField()
    path = serializers.CharField()
    path_base64 = serializers.CharField(required=False)
    side = serializers.ChoiceField([*map(str, Side)])
    start_line = serializers.IntegerField()
    line = serializers.IntegerField()
    snippet = serializers.ListField(child=serializers.CharField(allow_blank=True))
    review_uuid = serializers.UUIDField(allow_null=True)
    current = PlaceRecord(allow_null=True)
    is_outdated = serializers.BooleanField()
    outdated_reason = serializers.ChoiceField([*map(str, Outdated)], allow_null=True)


class ReplyRecord(RecordSerializer):
    """A live reply, or the placeholder of a deleted one, without the optional fields."""

    number = serializers.IntegerField()
    parent_reply_number = serializers.IntegerField(required=False)
    depth = serializers.IntegerField()
    is_deleted = serializers.BooleanField()
    status = serializers.ChoiceField([*map(str, ReplyStatus), DELETED])
    kind = serializers.CharField()
    body = serializers.CharField(allow_blank=True)
    body_html = Html()
    links = LinkRecord(many=True)
    created_by_uuid = serializers.UUIDField(allow_null=True)
    created_by_username = serializers.CharField(allow_null=True)
    created_by_is_bot = serializers.BooleanField(allow_null=True)
    deleted_at = TimestampField(allow_null=True)
    anchor = AnchorRecord(allow_null=True)
    uuid = serializers.UUIDField(required=False)
    thread_number = serializers.IntegerField(required=False)
    version = serializers.IntegerField(required=False)
    edited_at = TimestampField(allow_null=True, required=False)
    created_at = TimestampField(required=False)
    updated_at = TimestampField(required=False)


class ThreadRecord(RecordSerializer):
    number = serializers.IntegerField()
    uuid = serializers.UUIDField()
    repo_path = serializers.CharField()
    title = serializers.CharField()
    body = serializers.CharField(allow_blank=True)
    body_html = Html()
    kind = serializers.ChoiceField([*map(str, ThreadKind)])
    priority = serializers.ChoiceField([*map(str, Priority)])
    status = serializers.ChoiceField([*map(str, ThreadStatus)])
    created_by_uuid = serializers.UUIDField()
    created_by_username = serializers.CharField()
    created_by_is_bot = serializers.BooleanField()
    reply_count = serializers.IntegerField()
    participant_count = serializers.IntegerField()
    last_activity_at = TimestampField()
    closed_at = TimestampField(allow_null=True)
    version = serializers.IntegerField()
    created_at = TimestampField()
    updated_at = TimestampField()
    web_url = serializers.CharField()
    api_url = serializers.CharField()


class WholeThread(ThreadRecord):
    """A thread with its replies in tree order."""

    replies = ReplyRecord(many=True)
    replies_truncated = serializers.BooleanField()


class ThreadVersionRecord(RecordSerializer):
    version = serializers.IntegerField()
    title = serializers.CharField()
    body = serializers.CharField(allow_blank=True)
    body_html = Html()
    edited_by_uuid = serializers.UUIDField(allow_null=True)
    edited_by_username = serializers.CharField(allow_null=True)
    edited_by_is_bot = serializers.BooleanField(allow_null=True)
    created_at = TimestampField()


class ReplyVersionRecord(RecordSerializer):
    version = serializers.IntegerField()
    kind = serializers.CharField()
    status = serializers.ChoiceField([*map(str, ReplyStatus)])
    body = serializers.CharField(allow_blank=True)
    body_html = Html()
    links = LinkRecord(many=True)
    edited_by_uuid = serializers.UUIDField(allow_null=True)
    edited_by_username = serializers.CharField(allow_null=True)
    edited_by_is_bot = serializers.BooleanField(allow_null=True)
    created_at = TimestampField()


class ParticipantRecord(RecordSerializer):
    user_uuid = serializers.UUIDField()
    username = serializers.CharField()
    display_name = serializers.CharField(allow_blank=True)
    is_bot = serializers.BooleanField()
    is_author = serializers.BooleanField()
    reply_count = serializers.IntegerField()
    first_at = TimestampField()
    last_at = TimestampField()


def thread_record(row: Sequence[Any], repo: Repo | RepoPath, base: str) -> dict[str, Any]:
    """`row`: the values of `THREAD_ROW`; `repo`: with its owner loaded."""
    record = dict(zip(THREAD_ROW, row, strict=True))
    number = record["number"]
    record["repo_path"] = repo.path
    record["web_url"] = f"{base}/{repo.path}{segment(record['kind'], number)}"
    record["api_url"] = f"{base}{PREFIX}{repo.api_path}/threads/{number}"
    return record


def replies_of(thread: Thread) -> dict[str, Any]:
    """The fields that `WholeThread` adds."""
    rows, truncated = queries.first_replies(thread, REPLIES_MAX, BODIES_MAX)
    return {
        "replies": [reply_record(row, thread.number) for row in rows],
        "replies_truncated": truncated,
    }


def reply_record(row: Sequence[Any], thread_number: int) -> dict[str, Any]:
    """`row`: the values of `ANCHORED_ROW`, or of `REPLY_ROW` for a reply without an anchor. A
    deleted reply becomes a placeholder.
    """
    record = dict(zip(REPLY_ROW, row[: len(REPLY_ROW)], strict=True))
    record["anchor"] = anchor_record(row[len(REPLY_ROW) :])
    parent = parent_number(record.pop("path"))
    if parent is not None:
        record["parent_reply_number"] = parent
    record["is_deleted"] = record["deleted_at"] is not None
    if not record["is_deleted"]:
        record["thread_number"] = thread_number
        return record
    for name in WHOLE_ONLY:
        del record[name]
    return record | {"status": DELETED, **dict.fromkeys(CREATOR)}


def anchor_record(row: Sequence[Any]) -> dict[str, Any] | None:
    """`row`: the values of `ANCHOR_ROW`. None if it is empty, or all values are null."""
    if not row or row[0] is None:
        return None
    anchor = dict(zip(ANCHOR_ROW, row, strict=True))
    reason, current = anchor["outdated_reason"], None
    if anchor["current_path"] is not None:
        current = {
            "commit_sha": anchor["current_commit_sha"],
            **path_fields(bytes(anchor["current_path"])),
            "start_line": anchor["current_start_line"],
            "line": anchor["current_line"],
        }
    return {
        "commit_sha": anchor["commit_sha"],
        **path_fields(bytes(anchor["path"])),
        "side": anchor["side"],
        "start_line": anchor["start_line"],
        "line": anchor["line"],
        "snippet": anchor["snippet"],
        "review_uuid": anchor["review_uuid"],
        "current": current,
        "is_outdated": reason is not None,
        "outdated_reason": reason,
    }


def shown_replies(
    numbers: Mapping[int, Collection[int]],
) -> dict[tuple[int, int], dict[str, Any]]:
    """The records of the replies with these numbers that readers see, by thread id and number.
    `to`: the username of the author of its parent, if it is not deleted. Two queries.
    """
    rows = Reply.objects.filter(queries.named_replies(numbers), thread__deleted_at=None)
    rows = rows.filter(queries.SHOWN)
    records = {}
    for thread, number, *row in rows.values_list(
        "thread", "thread__number", *ANCHORED_ROW.values()
    ):
        record = reply_record(row, number)
        records[thread, record["number"]] = record
    parents = defaultdict[int, set[int]](set)
    for (thread, _), record in records.items():
        parents[thread].add(record.get("parent_reply_number", 0))
    authors = {}
    if parents:
        live = Reply.objects.live().filter(queries.named_replies(parents))
        for thread, number, name in live.values_list("thread", "number", "created_by__username"):
            authors[thread, number] = name
    for (thread, _), record in records.items():
        record["to"] = authors.get((thread, record.get("parent_reply_number", 0)))
    return records


def add_html(
    access: RepoAccess, base: str, records: Sequence[dict[str, Any]], *sources: StoredHtml
) -> None:
    """Add `body_html` to records of one repository, with links that the caller may follow. Renders
    bodies of which `sources` have no current HTML. At most two queries, and those of `urls`.

    The records get at most `HTML_MAX` bytes, the first ones first. HTML beyond is None; links stay
    text.
    """
    stored = stored_html(records, sources)
    left = HTML_MAX
    for record in records:
        record["body_html"] = _html_within(left, record, stored)
        left -= _size(record["body_html"])
    rendered = [record for record in records if record["body_html"] is not None]
    urls = references.urls(access, base, (record["body_html"] for record in rendered))
    for record in rendered:
        left += _size(record["body_html"])
        linked = markdown.with_links(record["body_html"], urls)
        fits = _size(linked) <= left
        record["body_html"] = linked if fits else markdown.with_links(record["body_html"], {})
        left -= _size(record["body_html"])


def _html_within(
    size: int, record: Mapping[str, Any], stored: Mapping[UUID, str | None]
) -> str | None:
    """The stored or rendered HTML of a record; None if it has more than `size` bytes."""
    if len(record["body"]) > size:
        return None
    uuid = record.get("uuid")
    html = stored[uuid] if uuid and uuid in stored else markdown.render(record["body"])
    return html if _size(html) <= size else None


def _size(html: str | None) -> int:
    return len((html or "").encode())


@dataclass(frozen=True)
class StoredHtml:
    """Where the HTML of records is stored: in rows with the records' uuids."""

    rows: Any
    """The manager of the rows."""
    via: str = ""
    """The path from a row to the row with `body_html`, such as `thread__`."""

    def read(self, uuids: Collection[UUID], longest: int) -> QuerySet[Any, Any]:
        """Uuid, size and HTML by the current renderer, None beyond `longest` characters."""
        html = f"{self.via}body_html"
        short = When(html_size__lte=longest, then=F(html))
        current = {"uuid__in": uuids, f"{self.via}html_version": markdown.VERSION}
        rows: QuerySet[Any] = self.rows.filter(**current).annotate(html_size=Length(html))
        return rows.values_list("uuid", "html_size", Case(short, output_field=TextField()))


def stored_html(
    records: Sequence[Mapping[str, Any]], sources: Sequence[StoredHtml]
) -> dict[UUID, str | None]:
    """The stored HTML of these records by uuid, up to `HTML_MAX` characters in all; None for HTML
    beyond. One query, or two if some HTML is long.
    """
    uuids = [record["uuid"] for record in records if "uuid" in record]
    rows = _read_all(sources, uuids, HTML_MAX // len(uuids)) if uuids and sources else {}
    left, long = HTML_MAX, list[UUID]()
    for uuid in uuids:
        size, html = rows.get(uuid, (0, ""))
        if size <= left:
            left -= size
            long += [uuid] if html is None else []
    rows |= _read_all(sources, long, HTML_MAX) if long else {}
    return {uuid: html for uuid, (_, html) in rows.items()}


def _read_all(
    sources: Sequence[StoredHtml], uuids: Sequence[UUID], longest: int
) -> dict[UUID, tuple[int, str | None]]:
    first, *others = (source.read(uuids, longest) for source in sources)
    rows = first.union(*others, all=True) if others else first
    return {uuid: (size, html) for uuid, size, html in rows}
