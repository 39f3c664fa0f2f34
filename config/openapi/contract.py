"""The fields of records that the contract of the API names; all others are this server's own."""

from __future__ import annotations

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
"""By the schema of the record; `Summary` is that of an event."""
EVENT_FIELDS = frozenset(
    ["id", "kind", "actor_user_uuid", "actor_user_username", "scopes", "summary", "created_at"]
)
"""Of the schema of each kind of event; their names end in `Event`."""
MARK = "x-beyond-contract"


def is_beyond(schema: str, field: str) -> bool:
    """Whether the contract names the record of this schema, but not this field of it."""
    fields = EVENT_FIELDS if schema.endswith("Event") else FIELDS.get(schema)
    return fields is not None and field not in fields
