"""What requests about threads and replies may hold, and the records that answer them."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from django.db.models import Case, F, Q, QuerySet, TextField, When
from django.db.models.functions import Length
from rest_framework import serializers

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
from apps.repos.access import RepoAccess
from apps.repos.models import Repo, RepoPath
from apps.threads import queries, references, rules
from apps.threads.models import (
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
"""How many replies the single read of a thread holds; the paged list has the rest."""
BODIES_MAX = 2 * 1024 * 1024
"""Bytes that their bodies have together at most."""
HTML_MAX = 2 * 1024 * 1024
"""Bytes of HTML that all bodies of one answer have together at most. A single body has less."""
DELETED = "deleted"
WHOLE_ONLY = ("uuid", "version", "edited_at", "created_at", "updated_at")
"""What the placeholder of a deleted reply lacks."""


class Word(RuleCharField):
    """The kind of a reply or link: any word that is well formed, known to us or not."""

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
    kind = Word()
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
    kind = Word()
    body = StrictCharField(max_length=BODY_MAX)
    parent_reply_number = StrictIntegerField(required=False, allow_null=True)
    status = StrictChoiceField(ReplyStatus, required=False)
    links = Links(required=False)


class UpdateReply(RequestSerializer):
    kind = Word(required=False)
    body = StrictCharField(max_length=BODY_MAX, required=False)
    status = StrictChoiceField(ReplyStatus, required=False)
    links = Links(required=False)


class RenderQuery(QuerySerializer):
    render = StrictChoiceField(
        ["html"], required=False, help_text="`html`: each record has `body_html` as well."
    )


class Html(serializers.CharField):
    """The body as HTML, in answers to `render=html`; null where the answer has no room for it."""

    def __init__(self) -> None:
        super().__init__(required=False, allow_blank=True, allow_null=True)


class LinkRecord(RecordSerializer):
    kind = serializers.CharField()
    target = serializers.CharField()


class ReplyRecord(RecordSerializer):
    """A live reply has every field; a placeholder lacks those that are not required."""

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
    deleted_at = TimestampField(allow_null=True)
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
    """The single read: a thread with its replies in tree order."""

    replies = ReplyRecord(many=True)
    replies_truncated = serializers.BooleanField()


class ThreadVersionRecord(RecordSerializer):
    version = serializers.IntegerField()
    title = serializers.CharField()
    body = serializers.CharField(allow_blank=True)
    body_html = Html()
    edited_by_uuid = serializers.UUIDField(allow_null=True)
    edited_by_username = serializers.CharField(allow_null=True)
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
    created_at = TimestampField()


class ParticipantRecord(RecordSerializer):
    user_uuid = serializers.UUIDField()
    username = serializers.CharField()
    display_name = serializers.CharField(allow_blank=True)
    is_author = serializers.BooleanField()
    reply_count = serializers.IntegerField()
    first_at = TimestampField()
    last_at = TimestampField()


def thread_record(row: Sequence[Any], repo: Repo | RepoPath, base: str) -> dict[str, Any]:
    """`row`: the values of `THREAD_ROW`; `repo` has its owner loaded."""
    record = dict(zip(THREAD_ROW, row, strict=True))
    number = record["number"]
    record["repo_path"] = repo.path
    record["web_url"] = f"{base}/{repo.path}{segment(record['kind'], number)}"
    record["api_url"] = f"{base}{PREFIX}{repo.api_path}/threads/{number}"
    return record


def replies_of(thread: Thread) -> dict[str, Any]:
    """What the single read adds: the first replies in tree order, and whether there are more."""
    rows, truncated = queries.first_replies(thread, REPLIES_MAX, BODIES_MAX)
    return {
        "replies": [reply_record(row, thread.number) for row in rows],
        "replies_truncated": truncated,
    }


def reply_record(row: Sequence[Any], thread_number: int) -> dict[str, Any]:
    """`row`: the values of `REPLY_ROW`. A deleted reply is a placeholder."""
    record = dict(zip(REPLY_ROW, row, strict=True))
    parent = parent_number(record.pop("path"))
    if parent is not None:
        record["parent_reply_number"] = parent
    record["is_deleted"] = record["deleted_at"] is not None
    if not record["is_deleted"]:
        record["thread_number"] = thread_number
        return record
    for name in WHOLE_ONLY:
        del record[name]
    return record | {"status": DELETED, "created_by_uuid": None, "created_by_username": None}


def shown_replies(
    numbers: Mapping[int, Collection[int]],
) -> dict[tuple[int, int], dict[str, Any]]:
    """The records of these replies that readers see, by the id of their thread and their number.
    Each says whom it answers: `to`, None where that is nobody or is deleted. Two queries.
    """
    rows = Reply.objects.filter(queries.named_replies(numbers), thread__deleted_at=None)
    seen = rows.filter(Q(deleted_at=None) | Q(live_descendants__gt=0))
    found = {}
    for thread, number, *row in seen.values_list("thread", "thread__number", *REPLY_ROW.values()):
        record = reply_record(row, number)
        found[thread, record["number"]] = record
    above = defaultdict[int, set[int]](set)
    for (thread, _), record in found.items():
        above[thread].add(record.get("parent_reply_number", 0))
    live = (
        Reply.objects.live().filter(queries.named_replies(above)) if above else Reply.objects.none()
    )
    names = {
        (thread, number): name
        for thread, number, name in live.values_list("thread", "number", "created_by__username")
    }
    for (thread, _), record in found.items():
        record["to"] = names.get((thread, record.get("parent_reply_number", 0)))
    return found


def add_html(
    by: RepoAccess, base: str, records: Sequence[dict[str, Any]], *sources: StoredHtml
) -> None:
    """Add `body_html` to records of the repository of `by`, for whom it has links.

    HTML that `sources` do not have, or that is older than the renderer, is rendered. Two queries at
    most, and those of `references.addresses`.

    Together they get at most `HTML_MAX` bytes, the first records first: what does not fit is None,
    and links that do not fit stay text.
    """
    stored = stored_html(records, sources)
    room = HTML_MAX
    for record in records:
        record["body_html"] = _html_within(room, record, stored)
        room -= _size(record["body_html"])
    rendered = [record for record in records if record["body_html"] is not None]
    addresses = references.addresses(by, base, (record["body_html"] for record in rendered))
    for record in rendered:
        room += _size(record["body_html"])
        linked = markdown.with_links(record["body_html"], addresses)
        is_fitting = _size(linked) <= room
        record["body_html"] = linked if is_fitting else markdown.with_links(record["body_html"], {})
        room -= _size(record["body_html"])


def _html_within(
    room: int, record: Mapping[str, Any], stored: Mapping[UUID, str | None]
) -> str | None:
    """The stored or rendered HTML of a record, if it has at most `room` bytes."""
    if len(record["body"]) > room:
        return None
    uuid = record.get("uuid")
    html = stored[uuid] if uuid and uuid in stored else markdown.render(record["body"])
    return html if _size(html) <= room else None


def _size(html: str | None) -> int:
    return len((html or "").encode())


@dataclass(frozen=True)
class StoredHtml:
    """Rows by uuid that have HTML, themselves or by the relation `via`."""

    rows: Any
    """A manager."""
    via: str = ""

    def read(self, uuids: Collection[UUID], longest: int) -> QuerySet[Any, Any]:
        """Uuid, number of characters, and the HTML unless it is longer: what the present renderer
        has made.
        """
        html = f"{self.via}body_html"
        short = When(html_size__lte=longest, then=F(html))
        present = {"uuid__in": uuids, f"{self.via}html_version": markdown.VERSION}
        rows: QuerySet[Any] = self.rows.filter(**present).annotate(html_size=Length(html))
        return rows.values_list("uuid", "html_size", Case(short, output_field=TextField()))


def stored_html(
    records: Sequence[Mapping[str, Any]], sources: Sequence[StoredHtml]
) -> dict[UUID, str | None]:
    """The HTML of these records that has been stored, the first ones as far as `HTML_MAX`
    characters; None for the others. A second query where some are long.
    """
    uuids = [record["uuid"] for record in records if "uuid" in record]
    rows = _read_all(sources, uuids, HTML_MAX // len(uuids)) if uuids and sources else {}
    room, long = HTML_MAX, list[UUID]()
    for uuid in uuids:
        size, html = rows.get(uuid, (0, ""))
        if size <= room:
            room -= size
            long += [uuid] if html is None else []
    rows |= _read_all(sources, long, HTML_MAX) if long else {}
    return {uuid: html for uuid, (_, html) in rows.items()}


def _read_all(
    sources: Sequence[StoredHtml], uuids: Sequence[UUID], longest: int
) -> dict[UUID, tuple[int, str | None]]:
    """Sizes and HTML of all sources; one query."""
    first, *others = (source.read(uuids, longest) for source in sources)
    rows = first.union(*others, all=True) if others else first
    return {uuid: (size, html) for uuid, size, html in rows}
