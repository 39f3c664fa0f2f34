"""The scope of a rate limit: one of our own words, a tag of this document, or a user."""

from __future__ import annotations

from typing import Any

from drf_spectacular.extensions import OpenApiSerializerFieldExtension
from drf_spectacular.plumbing import ResolvedComponent

from apps.core.slugs import USERNAME, USERNAME_MAX
from apps.site.kinds import USER
from apps.site.rules import known_rate_scopes
from apps.site.serializers import RateScopeField

# drf-spectacular does not type these calls: hence what is ignored below.


class RateScopes(OpenApiSerializerFieldExtension):  # type: ignore[no-untyped-call]
    """Refers to a schema of its own: the tags are known only once all routes are."""

    target_class = RateScopeField
    priority = 1  # before that of all strings

    def map_serializer_field(self, auto_schema: Any, direction: Any) -> Any:
        component = ResolvedComponent(  # type: ignore[no-untyped-call]
            "RateScope", ResolvedComponent.SCHEMA, schema(), "RateScope"
        )
        auto_schema.registry.register_on_missing(component)
        return component.ref


def schema() -> dict[str, Any]:
    of_user = {
        "type": "string",
        "pattern": f"^{USER}{USERNAME.pattern}$",
        "maxLength": len(USER) + USERNAME_MAX,
    }
    words = {"type": "string", "enum": known_rate_scopes()}
    return {"anyOf": [words, of_user], "examples": ["write"]}
