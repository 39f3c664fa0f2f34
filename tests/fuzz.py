"""Generates requests from the OpenAPI document, sends them and checks the answers.

Importing the library takes seconds, and only its own tests import this module.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import schemathesis
from django.db import transaction
from hypothesis import HealthCheck, settings
from schemathesis.checks import load_all_checks
from schemathesis.config import SchemathesisConfig
from schemathesis.generation.feedback import FeedbackSources
from schemathesis.pytest._test_builder import build_operation_test

from tests.api import HANDLER
from tests.routes import Routed, routed
from tests.sample_data import SampleData

USUAL = ["2xx", 301, 304, 401, 403, 404, 409]
"""301: an earlier request may have renamed the resource. 304: `If-None-Match: *`."""
REFUSED = [400, 401, 403, 404, 413, 414, 415, 422, 431]
BEYOND_A_SCHEMA = {
    "POST /api-tokens": "a time to come, a person who is there",
    "GET /api-tokens": "a person who is there",
    "GET /events": "scopes",
    "PUT /site-settings": "a duration",
    "POST /rate-limits": "scopes",
    "PUT /rate-limits/{uuid}": "scopes",
    "POST /signup-invites": "a time to come, an e-mail address",
    "PUT /signup-invites/{uuid}": "a time to come, an e-mail address",
    "PUT /users/self": "something in a name that can be seen",
    "POST /teams": "reserved names",
    "PUT /teams/{team_slug}": "reserved names",
    "POST /teams/{team_slug}/members": "a person who is there",
    "POST /teams/{team_slug}/repos": "reserved names and endings",
    "PUT /teams/{team_slug}/repos/{repo_slug}": "reserved names and endings",
    "POST /teams/{team_slug}/repos/{repo_slug}/protections": "names of branches",
    "PUT /teams/{team_slug}/repos/{repo_slug}/protections/{protection_uuid}": "names of branches",
    "POST /teams/{team_slug}/repos/{repo_slug}/protections/{protection_uuid}/approvers": "people",
    "POST /teams/{team_slug}/repos/{repo_slug}/pulls": "names of branches",
    "POST /teams/{team_slug}/repos/{repo_slug}/uploads": "types of files",
    "POST /teams/{team_slug}/repos/{repo_slug}/threads/{number}/replies": "parents, links",
    "PATCH /teams/{team_slug}/repos/{repo_slug}/threads/{number}/replies/{reply_number}": "links",
    **dict.fromkeys(
        (
            f"GET /teams/{{team_slug}}/repos/{{repo_slug}}/{name}"
            for name in (
                *("archive", "blame/{path}", "commits", "commits/{sha}", "compare/{basehead}"),
                *("contents/{path}", "raw/{path}", "tree", "tree/{path}"),
            )
        ),
        "names of refs, paths",
    ),
}
"""Valid requests that may be 422, with the reason."""
IDENTITIES = {"anonymous": None, "stranger": "carol", "member": "bob", "staff": "sam"}
"""Callers, by their names in the sample."""
PLAIN = {"Accept-Encoding": "identity"}
"""The library does not unpack gzip that it gets by WSGI."""
relaxed = settings(deadline=None, suppress_health_check=[*HealthCheck])


def application(environ: dict[str, Any], start_response: Any) -> list[bytes]:
    """The whole application by WSGI, without closing the connection of the test."""
    response: Any = HANDLER(environ)
    start_response(f"{response.status_code} {response.reason_phrase}", [*response.items()])
    return [response.content]


@cache
def schema_for(
    token: str | None,
    repo: str,
    *,
    examples: int,
    seed: int,
    guesses: bool = True,
    covering: bool = True,
) -> Any:
    """The served document, and a way to call its operations.

    `guesses`: try each operation without our token as well. `covering`: try the examples and each
    part of the schemas before generated requests.
    """
    config = {
        "seed": seed,
        "headers": PLAIN | ({"Authorization": f"Bearer {token}"} if token else {}),
        "generation": {"max-examples": examples, "database": "none"},
        "parameters": {
            "path.team_slug": "acme",
            "path.username": "alice",
            "path.repo_slug": repo,
            "path.number": 1,
            "path.reply_number": 1,
            "path.version": 1,
        },
        "checks": checks(guesses=guesses),
        "phases": {name: {"enabled": covering} for name in ("examples", "coverage")},
        "operations": [
            {
                "include-name": str(one),
                "checks": checks(*more, guesses=guesses and not has_own_headers(one)),
            }
            for one in routed()
            if (more := beyond_a_schema(one)) or has_own_headers(one)
        ],
    }
    made = SchemathesisConfig.from_dict(config)
    return schemathesis.openapi.from_wsgi("/api/v1/openapi.json", application, config=made)


def checks(*more: int, guesses: bool) -> dict[str, Any]:
    """The allowed statuses of an answer; `more` are those for a valid request."""
    return {
        "positive_data_acceptance": {"expected-statuses": [*USUAL, *more]},
        "negative_data_rejection": {"expected-statuses": [*REFUSED]},
        "ignored_auth": {"enabled": guesses},
        # A created record may have another name by now, and need not be a fork.
        "ensure_resource_availability": {"enabled": False},
    }


def beyond_a_schema(one: Routed) -> list[int]:
    """422 if more than the document decides, for both owners."""
    path = one.path.replace("users/{username}/r", "teams/{team_slug}/r")
    return [422] if f"{one.method} {path}" in BEYOND_A_SCHEMA else []


def has_own_headers(one: Routed) -> bool:
    """Whether the operation has headers besides the token: there the library takes our token for
    its own guess, and a correct answer for a hole. `tests/permissions.csv` covers access.
    """
    return any(found["in"] == "header" for found in one.described.get("parameters", []))


def schema_of(identity: str, sample: SampleData, **how: Any) -> Any:
    """The document for one of `IDENTITIES`. Strangers call the operations that they may read."""
    name = IDENTITIES[identity]
    token = sample.make.token(sample.people[name]) if name else None
    repo = "private" if identity in {"member", "staff"} else "internal"
    return schema_for(token, repo, **how)


def check(
    operation: Routed,
    sample: SampleData,
    identity: str,
    *,
    seed: int,
    examples: int,
    covering: bool = True,
) -> None:
    """Generate requests for one operation and check all answers: first with the examples of the
    document, then with each part of its schemas (`covering`), then at random.
    """
    schema = schema_of(identity, sample, examples=examples, seed=seed, covering=covering)

    @relaxed
    def send(case: Any) -> None:
        with transaction.atomic():
            case.call_and_validate()
            transaction.set_rollback(True)

    load_all_checks()
    # A private member of schemathesis: its public `from_fixture` fails with pytest 9 (no
    # `_nodeid`), and `as_strategy` omits the cases for each part of a schema.
    run = build_operation_test(
        config=schema.config,
        operation=schema[operation.path][operation.method],
        test_func=send,
        given_kwargs={},
        feedback=FeedbackSources(),
    )
    run()


def follow_links(
    sample: SampleData, identity: str, *, seed: int, examples: int, steps: int
) -> None:
    """Generate sequences of requests that use values of earlier answers. Each begins with the same
    sample: hypothesis must be able to repeat it.
    """
    schema = schema_of(identity, sample, examples=examples, seed=seed, guesses=False)
    machine: Any = schema.as_state_machine()
    machine.setup, machine.teardown = begin_conversation, take_back
    machine.before_call = leave_key_out
    limits = settings(relaxed, max_examples=examples, stateful_step_count=steps)
    machine.run(settings=limits)


def begin_conversation(conversation: Any) -> None:
    conversation.changes = transaction.atomic()
    conversation.changes.__enter__()


def leave_key_out(conversation: Any, case: Any) -> None:
    """Generated keys repeat, and a second request with one would have another body."""
    case.headers.pop("Idempotency-Key", None)


def take_back(conversation: Any) -> None:
    transaction.set_rollback(True)
    conversation.changes.__exit__(None, None, None)
