"""A client for the web pages: `visit(alice).get("/settings").gives(200)`."""

import re
from html import unescape
from typing import Any, Self

from django.test import Client
from django.test.client import ClientHandler

from apps.accounts.models import User

HANDLER = ClientHandler(enforce_csrf_checks=False)
STRICT = ClientHandler(enforce_csrf_checks=True)
"""Shared by all clients: each handler loads the middleware again."""
PASSWORD = "correct horse battery"


class PageResponse:
    """A response, with the visible parts of its page."""

    def __init__(self, response: Any) -> None:
        self.response = response
        self.status: int = response.status_code
        self.html: str = response.content.decode()

    def gives(self, status: int = 200) -> Self:
        assert self.status == status, f"{self.status} {self.text}"
        return self

    def redirects_to(self, path: str, status: int = 303) -> Self:
        """Assert that the response redirects to this path."""
        assert (self.status, self.header("Location")) == (status, path), self.text
        return self

    def alert(self) -> str:
        """The text of the error summary; empty when there is none."""
        found = re.search(r'<div[^>]* role="alert".*?</div>', self.html, re.DOTALL)
        return plain(found[0]) if found else ""

    @property
    def text(self) -> str:
        return plain(self.html)

    @property
    def h1(self) -> str:
        return plain("".join(re.findall(r"<h1.*?</h1>", self.html, re.DOTALL)))

    def header(self, name: str) -> str:
        return str(self.response.headers.get(name, ""))

    def find(self, pattern: str) -> str:
        """The only group of this pattern, where it is first on the page."""
        found = re.search(pattern, self.html, re.DOTALL)
        assert found, self.text
        return unescape(found[1])

    def value(self, name: str) -> str:
        """The value of the input with this name."""
        found = re.search(rf'<input[^>]* name="{name}"[^>]*>', self.html)
        value = re.search(r' value="([^"]*)"', found[0]) if found else None
        return unescape(value[1]) if value else ""

    def inputs(self) -> dict[str, Any]:
        """The values that a browser would submit for the unchanged inputs of this page."""
        found = {}
        for tag in re.findall(r"<input[^>]*>", self.html):
            known = dict(re.findall(r' ([\w-]+)="([^"]*)"', tag))
            ticked, sent = known.get("type") == "checkbox", known.get("type") != "submit"
            if "name" in known and sent and (not ticked or " checked" in tag):
                found[known["name"]] = unescape(known.get("value", "on" if ticked else ""))
        return found


def plain(html: str) -> str:
    html = re.sub(r"</?bdi>", "", html)
    return " ".join(unescape(re.sub(r"<[^>]+>", " ", html)).split())


class PageClient:
    """Django's test client, signed in as this user; with `strict` it checks CSRF tokens."""

    def __init__(self, user: User | None = None, *, strict: bool = False) -> None:
        self.client = Client(raise_request_exception=False)
        self.client.handler = STRICT if strict else HANDLER
        if user is not None:
            self.client.force_login(user)

    def get(self, path: str, **headers: str) -> PageResponse:
        return PageResponse(self.client.get(path, headers=headers))

    def post(
        self, path: str, /, headers: dict[str, str] | None = None, **fields: Any
    ) -> PageResponse:
        return PageResponse(self.client.post(path, fields, headers=headers))

    def sign_in(self, username: str, password: str = PASSWORD, **fields: Any) -> PageResponse:
        return self.post("/signin", username=username, password=password, **fields)

    @property
    def is_signed_in(self) -> bool:
        return self.get("/settings").status == 200
