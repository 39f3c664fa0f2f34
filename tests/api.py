"""A client of the API for tests, which checks all answers against the OpenAPI document."""

from __future__ import annotations

import re
from functools import cache, lru_cache
from typing import Any

import orjson
from django.test import Client
from django.test.client import ClientHandler
from django.urls import Resolver404
from jsonschema_rs import Draft202012Validator

from apps.core.openapi import text
from apps.core.slugs import PREFIX

HANDLER = ClientHandler(enforce_csrf_checks=False)
"""Shared, because each client loads the middleware again."""


def plain_client() -> Client:
    """Django's client, without the document; an error of the server is an answer."""
    client = Client(raise_request_exception=False)
    client.handler = HANDLER
    return client


class Answer:
    """An answer, with the checks of tests."""

    def __init__(self, response: Any) -> None:
        self.response = response
        self.status = response.status_code
        has_json = response.content and response.headers.get("Content-Type") != "application/jsonl"
        self.json = orjson.loads(response.content) if has_json else None

    def gives(self, status: int = 200) -> Any:
        """The body of a success with this status."""
        assert self.status == status, f"{self.status} {self.json}"
        return self.json

    def fails(self, status: int, code: str) -> str:
        """The detail of a refusal with this status and code."""
        body = self.json or {}
        assert (self.status, body.get("error")) == (status, code), f"{self.status} {body}"
        detail: str = body["detail"]
        return detail

    def header(self, name: str) -> str:
        value: str = self.response.headers[name]
        return value


class Api:
    """A client for one person; paths are relative to /api/v1."""

    def __init__(self, token: str | None) -> None:
        self.headers = {"Authorization": f"Bearer {token}"} if token else {}
        self.client = plain_client()

    def get(self, path: str) -> Answer:
        return self.send("GET", path)

    def delete(self, path: str) -> Answer:
        return self.send("DELETE", path)

    def post(self, path: str, /, **body: Any) -> Answer:
        return self.send("POST", path, body)

    def post_once(self, key: str, path: str, **body: Any) -> Answer:
        """The same client with an `Idempotency-Key`."""
        return self.send("POST", path, body, {"Idempotency-Key": key})

    def put(self, path: str, **body: Any) -> Answer:
        return self.send("PUT", path, body)

    def patch(self, path: str, **body: Any) -> Answer:
        return self.send("PATCH", path, body)

    def send(
        self, method: str, path: str, body: Any = None, headers: dict[str, str] | None = None
    ) -> Answer:
        """Send any JSON body, or bytes unchanged; checks the answer against the document."""
        raw = body if isinstance(body, bytes) else b"" if body is None else orjson.dumps(body)
        path = path.removeprefix("http://testserver").removeprefix(PREFIX)
        response = self.client.generic(
            method,
            PREFIX + path,
            raw,
            "application/json",
            headers={**self.headers, **(headers or {})},
        )
        answer = Answer(response)
        check_documented(method, response, answer)
        return answer


def check_documented(method: str, response: Any, answer: Answer) -> None:
    """The status is documented for this route, and the body is exactly as described."""
    if method == "HEAD" or answer.status in {304, 405}:
        return
    try:
        route = response.resolver_match.route
    except Resolver404:
        return
    schema, codes = described_answer(route, method.lower(), str(answer.status))
    code = (answer.json or {}).get("error") if answer.status >= 301 else None
    where = f"{method} {template(route)}"
    assert code is None or code in codes, f"{where} does not describe {answer.status} {code}"
    if schema is None:
        assert answer.json is None, f"a body where none is described: {answer.json}"
        return
    found = problems(schema, response.content)
    assert not found, found


@lru_cache(1000)
def problems(schema: bytes, content: bytes) -> list[str]:
    """The errors of a body; those of common refusals are cached."""
    body = orjson.loads(content) if content else None
    return [f"{one.instance_path}: {one.message}" for one in validator(schema).iter_errors(body)]


@cache
def closed_document() -> dict[str, Any]:
    """The document with closed records, in which an undescribed field is an error."""
    closed: dict[str, Any] = orjson.loads(text())
    for name, schema in closed["components"]["schemas"].items():
        if schema.get("properties"):
            schema["additionalProperties"] = False
        if name.endswith("Event") and "$ref" not in schema["properties"]["data"]:
            schema["properties"]["data"] = {"type": "object", "maxProperties": 0}
    return closed


@cache
def described_answer(route: str, method: str, status: str) -> tuple[bytes | None, frozenset[str]]:
    """The schema of an answer as text, and its possible codes, by its examples."""
    described = closed_document()
    path = "/" + template(route)
    answers = described["paths"][path][method]["responses"]
    assert status in answers, f"{method} {path} does not describe {status}"
    answer = answers[status]
    if "$ref" in answer:
        answer = described["components"]["responses"][answer["$ref"].rpartition("/")[2]]
    if "application/json" not in answer.get("content", ()):
        return None, frozenset()
    body = answer["content"]["application/json"]
    return orjson.dumps(body["schema"]), frozenset(body.get("examples", ()))


@cache
def validator(schema: bytes) -> Draft202012Validator:
    """Cached."""
    components = closed_document()["components"]
    return Draft202012Validator({**orjson.loads(schema), "components": components})


def template(route: str) -> str:
    """`api/v1/teams/<team_slug:team_slug>` in the form of the document: `teams/{team_slug}`."""
    return re.sub(r"<\w+:(\w+)>", r"{\1}", route.removeprefix(PREFIX.removeprefix("/") + "/"))
