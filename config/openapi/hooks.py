"""The hooks that drf-spectacular calls with the finished document, in the order of the settings.

The first gives closed vocabularies their names: each is one schema that others refer to. The second
adds the sentences of `glossary.toml`, and an example wherever there is none. The example of a
record consists of those of its properties, and stands once, in `components.examples`.
"""

from __future__ import annotations

import tomllib
from collections.abc import Iterable, Iterator
from functools import cache
from pathlib import Path
from typing import Any
from uuid import NAMESPACE_URL, uuid5

from drf_spectacular.extensions import OpenApiSerializerFieldExtension
from drf_spectacular.plumbing import ResolvedComponent

from apps.accounts import rules as accounts
from apps.accounts.models import InviteStatus
from apps.accounts.rules import TokenStatus
from apps.browse.downloads import KINDS as KINDS_OF_ARCHIVES
from apps.browse.downloads import TEXTS
from apps.browse.refs import REF_ORDERINGS
from apps.browse.serializers import FILE_KINDS, KINDS, STATUSES
from apps.core.access import Permission
from apps.core.openapi import references, rewritten
from apps.core.slugs import USERNAME, USERNAME_MAX
from apps.events.kinds import AUDITED, Kind, PingKind
from apps.git.lines import Outdated
from apps.git.merge import Strategy
from apps.pulls import rules as pulls
from apps.pulls.draft_serializers import DRAFT_KINDS
from apps.pulls.models import AutoMergeEnd, PullStatus, ReviewStatus
from apps.pulls.review_requests import FULFILLING, PENDING
from apps.pulls.serializers import COMMENT_KINDS, PAIR_STATUSES
from apps.repos.models import ForkStatus, Visibility
from apps.repos.protection_rules import MISSING
from apps.site.kinds import USER
from apps.site.models import InviteCreators
from apps.site.rules import known_rate_scopes
from apps.site.serializers import RateScopeField
from apps.statuses.models import StatusState
from apps.statuses.serializers import COMBINED
from apps.teams.models import Role
from apps.teams.serializers import BOT_ROLES
from apps.threads import rules as threads
from apps.threads.anchors import Side
from apps.threads.models import Priority, ReplyStatus, ThreadKind, ThreadStatus
from apps.threads.serializers import DELETED
from apps.webhooks.models import DeliveryStatus, DisabledReason, Resume, State

NAMED: dict[str, Iterable[str]] = {
    "AuditKind": AUDITED,
    "ArchiveFormat": KINDS_OF_ARCHIVES,
    "BotRole": BOT_ROLES,
    "CheckState": (*StatusState, MISSING),
    "CombinedState": COMBINED,
    "CommitPairStatus": PAIR_STATUSES,
    "CommentKind": COMMENT_KINDS,
    "DraftCommentKind": DRAFT_KINDS,
    "CommitStatusState": StatusState,
    "AutoMergeEnd": AutoMergeEnd,
    "CallerPermission": ("read", "write", "admin", "owner"),
    "ComparisonFormat": ("json", *TEXTS),
    "DeliveryStatus": DeliveryStatus,
    "DisabledReason": DisabledReason,
    "DraftStatus": ("draft",),
    "EventKind": Kind,
    "FileStatus": STATUSES,
    "ForkStatus": ForkStatus,
    "FileType": FILE_KINDS,
    "InviteCreators": InviteCreators,
    "InviteOrdering": accounts.SORTS,
    "InviteStatus": InviteStatus,
    "MergeStrategy": Strategy,
    "NewPullStatus": ("open", "draft"),
    "NewThreadKind": threads.KINDS,
    "OutdatedReason": Outdated,
    "OwnerKind": ("team", "user"),
    "PingKind": PingKind,
    "PullOrdering": pulls.ORDERINGS,
    "PullStatus": PullStatus,
    "RefOrdering": REF_ORDERINGS,
    "ReplyStatus": ReplyStatus,
    "Resume": Resume,
    "ReviewDecision": pulls.DECISIONS,
    "ReviewRequestState": (PENDING, *FULFILLING),
    "ReviewStatus": ReviewStatus,
    "SettablePullStatus": pulls.SETTABLE,
    "ShownReplyStatus": (*ReplyStatus, DELETED),
    "Side": Side,
    "TeamRole": Role,
    "ThreadKind": ThreadKind,
    "ThreadOrdering": threads.ORDERINGS,
    "ThreadPriority": Priority,
    "ThreadStatus": ThreadStatus,
    "TokenOrdering": accounts.ORDERINGS,
    "TokenPermission": Permission,
    "TokenStatus": TokenStatus,
    "TreeEntryType": KINDS,
    "Visibility": Visibility,
    "WebhookState": State,
}
ALTERNATIVES = {"CreateDraftCommentRequest": ("parent_reply_number",)}
"""Properties that are left out of the example of a schema, because they exclude others."""
NAME_OF = {frozenset(map(str, words)): name for name, words in NAMED.items()}
FIELDS: dict[str, frozenset[str]] = {
    name: frozenset(fields.split())
    for name, fields in {
        "TokenRecord": "uuid name expires_at username",
        "NewTokenRecord": "uuid name expires_at username",
        "TeamRecord": "name slug is_active",
        "MemberRecord": "username role",
        "RepoRecord": "name slug description visibility",
        "ForkRecord": "uuid status created_at created_by_uuid created_by_username",
        "PullRecord": "number title body source_branch target_branch status",
        "ReviewRecord": "uuid status body",
        "ProtectionRecord": "uuid branch",
        "ThreadRecord": "number title body kind priority status",
        "ReplyRecord": "number parent_reply_number kind status body links created_by_uuid "
        "created_by_username",
        "RateLimitRecord": "uuid scope max_requests window_seconds is_enabled",
        "InviteRecord": "uuid email expires_at",
        "SiteSettingsRecord": "rate_limits_enabled signup_invite_creators "
        "signup_invite_max_per_24h signup_invite_min_account_age signups_enabled "
        "signups_require_invite",
        "UserRecord": "uuid username",
        "Summary": "thread_title web_url api_url",
    }.items()
}
"""The fields of records that the contract of the API names; all others are this server's own."""
EVENT_FIELDS = frozenset(
    ["id", "kind", "actor_user_uuid", "actor_user_username", "scopes", "summary", "created_at"]
)
"""The same for the schemas of all kinds of events, whose names end in `Event`."""
MARK = "x-beyond-contract"
"""Marks the properties that the contract does not name."""
BY_FORMAT = {
    "date-time": "2026-01-31T09:30:00.000000Z",
    "date": "2026-01-31",
    "uuid": "0b6b6a5e-3f0c-4a51-9a39-5d0f5f2c8f11",
    "uri": "https://guildhall.example.org/api/v1/teams",
}
JSON = "application/json"
SCHEMAS = "#/components/schemas/"
EXAMPLES = "#/components/examples/"


@cache
def glossary() -> dict[str, dict[str, list[Any]]]:
    """`properties` and `parameters`: rows of a sentence, empty if the code has it, and, for
    most, an example.
    """
    return tomllib.loads(Path(__file__).with_name("glossary.toml").read_text("utf-8"))


def name_words(result: Any, generator: Any, request: Any, public: bool) -> Any:
    """Replace every list of words by a reference to its name; a single word is a `const`."""
    named = rewritten(result, by_name)
    used = {*references(named)}
    named["components"]["schemas"] |= {
        name: {"type": "string", "enum": [str(word) for word in words]}
        for name, words in NAMED.items()
        if name in used
    }
    return named


def by_name(schema: dict[str, Any]) -> dict[str, Any]:
    """A reference to the named list of words of a schema; any other object stays."""
    if not isinstance(schema.get("enum"), list):  # a property may have this name
        return schema
    words = [word for word in schema["enum"] if word is not None]
    other = {name: text for name, text in schema.items() if name in {"description", "default"}}
    if len(words) == 1:
        return {"type": "string", "const": words[0], **other}
    name = NAME_OF.get(frozenset(words))
    if name is None:
        return schema
    reference = {"$ref": f"#/components/schemas/{name}"}
    if None in schema["enum"]:
        return {"oneOf": [reference, {"type": "null"}], **other}
    return {**reference, **other}


def add_words_and_examples(result: Any, generator: Any, request: Any, public: bool) -> Any:
    """Describe parameters and properties, each with an example."""
    Describer(result).run()
    return result


def record_of(schema: str) -> str:
    """The name by which the glossary calls a schema: kinds of events are one, `Event`."""
    return "Event" if schema.endswith("Event") else schema.removesuffix("Request")


def glossary_key(schema: str, prop: str) -> str:
    """The row of the glossary for a property: its own, or the one shared by all of its name."""
    own = f"{record_of(schema)}.{prop}"
    return own if own in glossary()["properties"] else prop


def is_beyond(schema: str, field: str) -> bool:
    """Whether the contract names the record of this schema, but not this field of it."""
    fields = EVENT_FIELDS if schema.endswith("Event") else FIELDS.get(schema)
    return fields is not None and field not in fields


class Describer:
    """Adds sentences and examples to one document."""

    def __init__(self, document: dict[str, Any]) -> None:
        self.document = document
        self.schemas: dict[str, Any] = document["components"]["schemas"]
        self.described: set[str] = set()
        self.examples: dict[str, Any] = document["components"].setdefault("examples", {})

    def run(self) -> None:
        for name in self.schemas:
            self.describe_schema(name)
        for item in self.document["paths"].values():
            for operation in item.values():
                self.describe_operation(operation)

    def describe_schema(self, name: str) -> dict[str, Any]:
        """The schema of this name, described on the first call."""
        schema: dict[str, Any] = self.schemas[name]
        if name not in self.described:
            self.described.add(name)
            if "enum" in schema:
                schema["examples"] = schema["enum"][:1]
            for prop, inner in schema.get("properties", {}).items():
                self.describe_property(name, prop, inner)
        return schema

    def describe_property(self, name: str, prop: str, schema: dict[str, Any]) -> None:
        if is_beyond(name, prop):
            schema[MARK] = True
        text, *examples = glossary()["properties"].get(glossary_key(name, prop), [None])
        if text:
            schema.setdefault("description", text)
        if "$ref" not in str(schema) and "examples" not in schema:
            is_given = examples and "const" not in schema
            schema["examples"] = examples if is_given else [self.example(schema)]

    def describe_operation(self, operation: dict[str, Any]) -> None:
        for parameter in operation.get("parameters", []):
            name = parameter["name"]
            rows = glossary()["parameters"]
            row = rows.get(f"{operation['tags'][0]}.{name}") or rows.get(name)
            text, *examples = row or [None]
            if text:
                parameter.setdefault("description", text)
            if name == "Idempotency-Key":  # each request has its own
                examples = [str(uuid5(NAMESPACE_URL, operation["operationId"]))]
            parameter["example"] = examples[0] if examples else self.example(parameter["schema"])
        for media in self.media_of(operation):
            name = media["schema"].get("$ref", "").removeprefix(SCHEMAS)
            if name in self.schemas:
                value = self.example(media["schema"])
                self.examples.setdefault(name, {"value": value})
                media["examples"] = {name: {"$ref": f"{EXAMPLES}{name}"}}

    def media_of(self, operation: dict[str, Any]) -> Iterator[dict[str, Any]]:
        """The JSON of the request body, and of successful responses."""
        responses = operation["responses"]
        parts = [operation.get("requestBody", {})]
        parts += [response for response in responses.values() if "examples" not in str(response)]
        for part in parts:
            if JSON in part.get("content", {}):
                yield part["content"][JSON]

    def example_of(self, name: str) -> Any:
        """A value that is valid for the schema of this name."""
        value = self.example(self.describe_schema(name))
        for alternative in ALTERNATIVES.get(name, ()):
            del value[alternative]
        return value

    def example(self, schema: dict[str, Any]) -> Any:  # noqa: PLR0911 - one line for each sort
        """A value that is valid for the schema."""
        if "examples" in schema:
            return schema["examples"][0]
        if "$ref" in schema:
            return self.example_of(schema["$ref"].removeprefix(SCHEMAS))
        if parts := schema.get("oneOf") or schema.get("allOf"):
            return self.example(parts[0])
        if "const" in schema:
            return schema["const"]
        if "enum" in schema:
            return schema["enum"][0]
        if "properties" in schema:
            return {name: self.example(inner) for name, inner in schema["properties"].items()}
        kind = schema.get("type")
        if isinstance(kind, list):
            kind = next(name for name in kind if name != "null")
        if kind == "array":
            return [self.example(schema["items"])]
        if schema.get("format") in BY_FORMAT:
            return BY_FORMAT[schema["format"]]
        return {"object": {}, "boolean": True, "integer": 1}.get(str(kind))


# drf-spectacular has no types for these calls, hence the ignored errors.
class RateScopes(OpenApiSerializerFieldExtension):  # type: ignore[no-untyped-call]
    """The scope of a rate limit: one of `RateScope`, a tag of this document, or a user. It refers
    to a schema of its own, because the tags are known once all routes are.
    """

    target_class = RateScopeField
    priority = 1  # before that of all strings

    def map_serializer_field(self, auto_schema: Any, direction: Any) -> Any:
        component = ResolvedComponent(  # type: ignore[no-untyped-call]
            "RateScope", ResolvedComponent.SCHEMA, rate_scope_schema(), "RateScope"
        )
        auto_schema.registry.register_on_missing(component)
        return component.ref


def rate_scope_schema() -> dict[str, Any]:
    user_scope = {
        "type": "string",
        "pattern": f"^{USER}{USERNAME.pattern}$",
        "maxLength": len(USER) + USERNAME_MAX,
    }
    words = {"type": "string", "enum": known_rate_scopes()}
    return {"anyOf": [words, user_scope], "examples": ["write"]}
