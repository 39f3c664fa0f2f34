"""The names of the closed vocabularies, each of which is one schema that others refer to."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from drf_spectacular.extensions import OpenApiSerializerFieldExtension
from drf_spectacular.plumbing import ResolvedComponent

from apps.accounts import rules as accounts
from apps.accounts.models import InviteStatus
from apps.accounts.rules import TokenStatus
from apps.browse.downloads import KINDS as KINDS_OF_ARCHIVES
from apps.browse.downloads import TEXTS
from apps.browse.refs import REF_ORDERINGS
from apps.browse.serializers import FILE_KINDS, KINDS, STATUSES
from apps.core.slugs import USERNAME, USERNAME_MAX
from apps.events.kinds import PingKind
from apps.git.merge import Strategy
from apps.pulls import rules as pulls
from apps.pulls.models import PullStatus, ReviewStatus
from apps.repos.models import ForkStatus, Visibility
from apps.site.kinds import USER
from apps.site.models import InviteCreators
from apps.site.rules import known_rate_scopes
from apps.site.serializers import RateScopeField
from apps.teams.models import Role
from apps.threads import rules as threads
from apps.threads.models import Priority, ReplyStatus, ThreadKind, ThreadStatus
from apps.threads.serializers import DELETED

NAMED: dict[str, Iterable[str]] = {
    "ArchiveFormat": KINDS_OF_ARCHIVES,
    "CallerPermission": ("read", "write", "admin", "owner"),
    "ComparisonFormat": ("json", *TEXTS),
    "FileStatus": STATUSES,
    "ForkStatus": ForkStatus,
    "FileType": FILE_KINDS,
    "InviteCreators": InviteCreators,
    "InviteOrdering": accounts.SORTS,
    "InviteStatus": InviteStatus,
    "MergeStrategy": Strategy,
    "NewPullStatus": ("open", "draft"),
    "NewThreadKind": threads.KINDS,
    "OwnerKind": ("team", "user"),
    "PingKind": PingKind,
    "PullOrdering": pulls.ORDERINGS,
    "PullStatus": PullStatus,
    "RefOrdering": REF_ORDERINGS,
    "ReplyStatus": ReplyStatus,
    "ReviewDecision": pulls.DECISIONS,
    "ReviewStatus": ReviewStatus,
    "SettablePullStatus": pulls.SETTABLE,
    "ShownReplyStatus": (*ReplyStatus, DELETED),
    "TeamRole": Role,
    "ThreadKind": ThreadKind,
    "ThreadOrdering": threads.ORDERINGS,
    "ThreadPriority": Priority,
    "ThreadStatus": ThreadStatus,
    "TokenOrdering": accounts.ORDERINGS,
    "TokenStatus": TokenStatus,
    "TreeEntryType": KINDS,
    "Visibility": Visibility,
}
NAME_OF = {frozenset(map(str, words)): name for name, words in NAMED.items()}


def with_named_words(document: Any) -> Any:
    """The document with a name for every list of words; a single word is a `const`."""
    named = replaced(document)
    used = references(named)
    named["components"]["schemas"] |= {
        name: {"type": "string", "enum": [str(word) for word in words]}
        for name, words in NAMED.items()
        if f"#/components/schemas/{name}" in used
    }
    return named


def replaced(part: Any) -> Any:
    if isinstance(part, list):
        return [replaced(item) for item in part]
    if not isinstance(part, dict):
        return part
    if isinstance(part.get("enum"), list):
        return by_name(part)
    return {name: replaced(value) for name, value in part.items()}


def by_name(schema: dict[str, Any]) -> dict[str, Any]:
    """A reference to the named list of words of this schema; an unnamed list stays."""
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


def references(part: Any) -> set[str]:
    """The references in a part of the document."""
    if isinstance(part, list):
        return set().union(*map(references, part)) if part else set()
    if not isinstance(part, dict):
        return set()
    own = {part["$ref"]} if isinstance(part.get("$ref"), str) else set()
    return own.union(*map(references, part.values()))


# The scope of a rate limit: one of `RateScope`, a tag of this document, or a user.


# drf-spectacular has no types for these calls, hence the ignored errors.


class RateScopes(OpenApiSerializerFieldExtension):  # type: ignore[no-untyped-call]
    """Refers to a schema of its own: the tags are known once all routes are."""

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
