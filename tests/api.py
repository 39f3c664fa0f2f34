"""A client of the API for tests. Every answer is checked against the OpenAPI document."""

from __future__ import annotations

import copy
import re
from functools import cache, lru_cache
from typing import Any

import orjson
from django.test import Client
from django.test.client import ClientHandler
from django.urls import Resolver404
from jsonschema import Draft202012Validator

from apps.core.openapi import document
from apps.core.slugs import PREFIX

HANDLER = ClientHandler(enforce_csrf_checks=False)
"""Shared, because each one loads the middleware anew."""


def plain_client() -> Client:
    """Django's own, which says nothing of the document; a defect is an answer."""
    client = Client(raise_request_exception=False)
    client.handler = HANDLER
    return client


class Answer:
    """What came back, with the two questions tests ask."""

    def __init__(self, response: Any) -> None:
        self.response = response
        self.status = response.status_code
        self.json = orjson.loads(response.content) if response.content else None

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
    """Speaks for one person; paths are relative to /api/v1."""

    def __init__(self, token: str | None) -> None:
        self.headers = {"Authorization": f"Bearer {token}"} if token else {}
        self.client = plain_client()

    def get(self, path: str) -> Answer:
        return self.send("GET", path)

    def delete(self, path: str) -> Answer:
        return self.send("DELETE", path)

    def post(self, path: str, **body: Any) -> Answer:
        return self.send("POST", path, body)

    def put(self, path: str, **body: Any) -> Answer:
        return self.send("PUT", path, body)

    def patch(self, path: str, **body: Any) -> Answer:
        return self.send("PATCH", path, body)

    def send(self, method: str, path: str, body: Any = None) -> Answer:
        """Any JSON body, or bytes as they are; checks the answer against the document."""
        raw = body if isinstance(body, bytes) else b"" if body is None else orjson.dumps(body)
        path = path.removeprefix("http://testserver").removeprefix(PREFIX)
        response = self.client.generic(
            method, PREFIX + path, raw, "application/json", headers=self.headers
        )
        answer = Answer(response)
        check_documented(method, response, answer)
        return answer


def check_documented(method: str, response: Any, answer: Answer) -> None:
    """The status is documented for this route, and the body is exactly as described."""
    if method == "HEAD" or answer.status in {301, 405}:
        return
    try:
        route = response.resolver_match.route
    except Resolver404:
        return
    schema = schema_of(route, method.lower(), str(answer.status))
    if schema is None:
        assert answer.json is None, f"a body where none is described: {answer.json}"
        return
    found = problems(schema, response.content)
    assert not found, found


@lru_cache(1000)
def problems(schema: bytes, content: bytes) -> list[str]:
    """What is wrong with a body; most refusals have one that was looked at before."""
    body = orjson.loads(content) if content else None
    return [f"{error.json_path}: {error.message}" for error in validator(schema).iter_errors(body)]


@cache
def closed_document() -> dict[str, Any]:
    """The document with every record closed, so that an undescribed field is seen too."""
    closed = copy.deepcopy(document())
    for schema in closed["components"]["schemas"].values():
        if schema.get("properties"):
            schema["additionalProperties"] = False
    return closed


@cache
def schema_of(route: str, method: str, status: str) -> bytes | None:
    """What one answer has to fit, as text; the refusals of all routes have one in common."""
    described = closed_document()
    path = "/" + template(route)
    answers = described["paths"][path][method]["responses"]
    assert status in answers, f"{method} {path} does not describe {status}"
    answer = answers[status]
    if "$ref" in answer:
        answer = described["components"]["responses"][answer["$ref"].rpartition("/")[2]]
    content = answer.get("content")
    return None if content is None else orjson.dumps(content["application/json"]["schema"])


@cache
def validator(schema: bytes) -> Draft202012Validator:
    """Made once."""
    components = closed_document()["components"]
    return Draft202012Validator({**orjson.loads(schema), "components": components})


def template(route: str) -> str:
    """`api/v1/teams/<team_slug:team_slug>` as the document writes it: `teams/{team_slug}`."""
    return re.sub(r"<\w+:(\w+)>", r"{\1}", route.removeprefix(PREFIX.removeprefix("/") + "/"))
