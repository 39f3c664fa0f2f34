"""Every row of `contract.csv` is routed and documented as written, and nothing else is routed.

`source` is the part of the API that a row belongs to; rows of `docs/api.md` come last, and were
added after the others. `{owner}` stands for both kinds of owner. In `query` and `body`, `?` means
optional and a bare name is a string; `+` marks a query parameter that was added later. A page has
`with` what stands beside its records.
"""

from __future__ import annotations

import csv
import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from tests.routes import Routed, described_paths, resolved, routed

pytestmark = pytest.mark.once

OWNERS = ("teams/{team_slug}", "users/{username}")
OPEN = {"/check-username", "/check-team-slug", "/suggest-users", "/openapi.json"}

BRANCH = (
    "name sha is_default:boolean is_protected:boolean open_pull_numbers:array commit:object "
    "updated_at pushed_by_username:string|null"
)
RECORDS = {
    "API token": "name expires_at:string|null username:string|null",
    "Team": "name slug is_active:boolean second_factor_required:boolean",
    "Team member": "username role",
    "Bot": "uuid username display_name role is_active:boolean created_at "
    "created_by_username:string|null web_url",
    "Repo": "name slug description:string|null visibility",
    "Branch protection": "uuid branch required_approvals:integer is_satisfiable:boolean",
    "Deletion": "path deleted_by_username deleted_at purge_at",
    "Fork": "uuid status created_at created_by_uuid created_by_username",
    "Pull": "number:integer title body source_branch target_branch status",
    "Applied suggestions": "commit_sha comments:array pull:object",
    "Pull review": "uuid status body",
    "Thread": "number:integer title body kind priority status",
    "Reply": "number:integer parent_reply_number?:integer kind status body links:array "
    "created_by_uuid:string|null created_by_username:string|null",
    "Thread version": "version:integer title body edited_by_uuid:string|null "
    "edited_by_username:string|null created_at",
    "Reply version": "version:integer kind status body links:array edited_by_uuid:string|null "
    "edited_by_username:string|null created_at",
    "Webhook": "uuid url kinds:array is_active:boolean state disabled_reason:string|null "
    "description secret_hint cursor_event_id:integer lag:integer consecutive_failures:integer "
    "next_attempt_at:string|null last_success_at:string|null created_by_uuid created_by_username "
    "created_by_is_bot:boolean "
    "created_at updated_at",
    "Delivery": "uuid event_id:integer|null kind attempt:integer is_redelivery:boolean status "
    "response_status:integer|null error:string|null duration_ms:integer created_at",
    "Rate limit": "uuid scope max_requests:integer window_seconds:integer is_enabled:boolean",
    "Site settings": "rate_limits_enabled:boolean signup_invite_creators "
    "signup_invite_max_per_24h:integer signup_invite_min_account_age signups_enabled:boolean "
    "signups_require_invite:boolean",
    "Signup invite": "uuid email:string|null expires_at status",
    "SSH key": "uuid title key fingerprint created_at last_used_at:string|null",
    "Deploy key": "uuid title key fingerprint created_at last_used_at:string|null "
    "can_write:boolean created_by_uuid created_by_username created_by_is_bot:boolean",
    "Session": "uuid device user_agent address created_at last_seen_at expires_at",
    "Offboarding": "username dry_run:boolean tokens:array sessions:array invite_uuids:array "
    "teams:array approver_rules:array repo_paths:array open_pulls:array open_threads:array "
    "truncated:array",
    "User": "uuid username",
    "File upload": "uuid filename content_type size:integer sha256 url created_by_uuid "
    "created_by_username created_at",
    "User ping": "uuid kind event_id:integer thread_title:string|null web_url:string|null "
    "api_url:string|null is_read:boolean created_at",
    "Commit status": "uuid sha context state description target_url:string|null created_by_uuid "
    "created_by_username created_at",
    "Combined status": "sha state contexts:array contexts_truncated:boolean",
    "Commit": "sha tree_sha parents:array message subject author:object committer:object web_url "
    "api_url",
    "Comparison": "base_sha head_sha merge_base_sha:string|null ahead_by:integer "
    "behind_by:integer stats:object commits:array commits_truncated:boolean files:object "
    "files_truncated:boolean",
    "Draft review": "uuid pull_number:integer status body comments:array created_at updated_at",
    "Draft comment": "uuid kind body parent_reply_number:integer|null anchor:object|null "
    "created_at updated_at",
    "Pull comparison": "from:integer to:integer is_rebased:boolean commits:array "
    "changed_files:integer files:object",
    "Blame": "commit_sha path from:integer to:integer total_lines:integer ranges:array",
    "Tree entry": "name path type mode sha size:integer|null",
    "Content": "path name type mode sha size:integer|null encoding:string|null "
    "content:string|null is_binary:boolean|null lfs:object|null target:string|null ref "
    "commit_sha raw_url web_url",
    "Availability response": "available:boolean suggestion:string|null",
    "Branch": BRANCH,
    "Single branch": f"{BRANCH} ahead_by:integer|null behind_by:integer|null protections:array",
    "Tag": "name sha:string|null tag_sha:string|null message:string|null tagger:object|null "
    "commit:object|null",
    "Audit entry": "id:integer kind actor_user_uuid:string|null actor_user_username:string|null "
    "actor_user_is_bot:boolean|null token_uuid:string|null token_name address program "
    "repo_path:string|null team_slug:string|null target:object data:object created_at",
    "Event": "id:integer kind actor_user_uuid:string|null actor_user_username:string|null "
    "scopes:array summary:object created_at",
}
"""The fields that each record must have, with their types; `|null` where it may be null."""


@dataclass(frozen=True)
class Property:
    """A parameter or property of the contract."""

    required: bool
    types: frozenset[str]


@dataclass(frozen=True)
class Row:
    """One endpoint of the contract."""

    source: str
    method: str
    path: str
    status: str
    query: str
    body: str
    record: str

    def __str__(self) -> str:
        return f"{self.method} {self.path}"


def read_rows() -> list[Row]:
    with Path(__file__).with_name("contract.csv").open(newline="") as lines:
        return [
            Row(**{**row, "path": row["path"].replace("{owner}", owner)})
            for row in csv.DictReader(lines)
            for owner in (OWNERS if "{owner}" in row["path"] else OWNERS[:1])
        ]


ROWS = read_rows()


def properties(text: str) -> dict[str, Property]:
    """`name expires_at?:string|null` as a table."""
    found = {}
    for name, optional, types in re.findall(r"\+?(\w+)(\??):?(\S*)", text):
        found[name] = Property(not optional, frozenset((types or "string").split("|")))
    return found


def types_of(schema: dict[str, Any]) -> frozenset[str]:
    schema = resolved(schema)
    for choice in ("oneOf", "anyOf"):
        if choice in schema:
            return frozenset().union(*map(types_of, schema[choice]))
    if "type" not in schema and "allOf" in schema:
        return frozenset.intersection(*map(types_of, schema["allOf"]))
    kinds = schema.get("type", "object")
    return frozenset([kinds] if isinstance(kinds, str) else kinds)


@cache
def operation_at(row: Row) -> Routed:
    found = [one for one in routed() if (one.method, one.path) == (row.method, row.path)]
    assert found, f"{row} is not routed"
    return found[0]


def of_each(wanted: Callable[[Row], Any], rows: Iterable[Row] = ROWS) -> dict[str, Any]:
    """The rows of the contract, or of the document: differences are whole rows."""
    return {str(row): wanted(row) for row in rows}


def test_each_row_of_the_contract_answers_with_its_status():
    """A GET whose path has a slug may also answer 301: the slug may be a former one. And 304 where
    its answers have an `ETag`.
    """

    def meant(row: Row) -> set[str]:
        below_a_slug = row.method == "GET" and re.search(r"\{(team|repo)_slug\}", row.path)
        others = ["301"] if below_a_slug else []
        others += ["304"] if operation_at(row).operation.has_etag(row.method) else []
        return {row.status, *others}

    def documented(row: Row) -> set[str]:
        return {status for status in operation_at(row).described["responses"] if status < "400"}

    assert of_each(documented) == of_each(meant)


def test_each_row_of_the_contract_takes_its_query_parameters_and_no_others():
    def documented(row: Row) -> dict[str, Property]:
        described = operation_at(row).described.get("parameters", [])
        return {one["name"]: of_parameter(one) for one in described if one["in"] == "query"}

    assert of_each(documented) == of_each(lambda row: properties(row.query))


def of_parameter(parameter: dict[str, Any]) -> Property:
    """A parameter that may be repeated is an array of what the contract names."""
    schema = parameter["schema"]
    types = types_of(schema.get("items", schema))
    return Property(parameter.get("required", False), types)


def test_each_row_of_the_contract_takes_its_properties_and_no_others():
    taking = [row for row in ROWS if row.body]
    assert [row for row in ROWS if "requestBody" in operation_at(row).described] == taking

    def documented(row: Row) -> tuple[dict[str, Property], bool, bool]:
        body = operation_at(row).described["requestBody"]
        schema = resolved(body["content"]["application/json"]["schema"])
        required = schema.get("required", [])
        known = {
            name: Property(name in required, types_of(one))
            for name, one in schema["properties"].items()
        }
        return known, body["required"], schema["additionalProperties"]

    assert of_each(documented, taking) == of_each(
        # The body itself is required, and takes nothing else.
        lambda row: (properties(row.body), True, False),
        taking,
    )


def test_each_row_of_the_contract_gives_its_record():
    """The known fields are as the contract has them; a page has a list of records."""
    giving = [row for row in ROWS if row.status != "204"]
    assert of_each(record_given, giving) == of_each(record_meant, giving)


def record_meant(row: Row) -> tuple[set[str], dict[str, Property]]:
    _, of, name = row.record.rpartition("Page of ")
    name, _, beside = name.partition(" with ")
    page = {"results", "next", "previous", *beside.split()} if of else set()
    if row.path.partition("{repo_slug}")[2].startswith("/tree"):
        page.add("is_truncated")
    return page, properties(RECORDS.get(name, ""))


def record_given(row: Row) -> tuple[set[str], dict[str, Property]]:
    page, known = record_meant(row)
    answer = operation_at(row).described["responses"][row.status]["content"]
    schema = resolved(next(iter(answer.values()))["schema"])
    if page:
        page = set(schema["required"])
        schema = resolved(schema["properties"]["results"]["items"])
    schema = resolved(schema.get("oneOf", [schema])[0])  # of events: one of any kind
    shown, required = schema.get("properties", {}), schema.get("required", [])
    return page, {
        field: Property(field in required, types_of(shown[field]))
        for field in known
        if field in shown
    }


def test_each_row_of_the_contract_asks_for_a_token_unless_it_is_open():
    """Or, where pages show what it answers, for the session of who is signed in."""
    token: list[Any] = [{"bearer": []}, {"basic": []}]
    of_pages = ("/tail-events", "/uploads/{uuid}/content")
    for_pages = {path: [*token, {"session": []}] for path in of_pages}
    assert of_each(lambda row: operation_at(row).described["security"]) == of_each(
        lambda row: [] if row.path in OPEN else for_pages.get(row.path, token)
    )


def test_numbers_in_a_path_are_integers_and_everything_else_is_a_string():
    numbers = {"number", "reply_number", "version", "id"}
    kinds = {
        (str(row), parameter["name"]): parameter["schema"]["type"]
        for row in ROWS
        for parameter in operation_at(row).described.get("parameters", [])
        if parameter["in"] == "path"
    }
    assert kinds == {(row, name): "integer" if name in numbers else "string" for row, name in kinds}


def test_the_rows_of_the_contract_are_routed_and_nothing_else():
    assert {str(one) for one in routed()} == {str(row) for row in ROWS}
    assert len({str(row) for row in ROWS}) == len(ROWS)


def test_what_is_routed_is_what_is_documented():
    documented = {
        f"{method.upper()} {path}" for path, item in described_paths().items() for method in item
    }
    assert documented == {str(one) for one in routed()}
