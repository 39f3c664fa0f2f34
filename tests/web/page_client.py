"""Somebody who looks at pages: `visit(alice).get("/settings").gives(200)`."""

from __future__ import annotations

import re
from html import unescape
from typing import Any, Self

from django.test import Client
from django.test.client import ClientHandler

from apps.accounts.models import User

HANDLER = ClientHandler(enforce_csrf_checks=False)
STRICT = ClientHandler(enforce_csrf_checks=True)
"""Shared, because each one loads the middleware anew."""
PASSWORD = "correct horse battery"


class Page:
    """What came back, as a person sees it."""

    def __init__(self, response: Any) -> None:
        self.response = response
        self.status: int = response.status_code
        self.html: str = response.content.decode()

    def gives(self, status: int = 200) -> Self:
        """A page with this status."""
        assert self.status == status, f"{self.status} {self.text}"
        return self

    def leads(self, path: str, status: int = 303) -> Self:
        """A redirect to this path."""
        assert (self.status, self.header("Location")) == (status, path), self.text
        return self

    def alert(self) -> str:
        """The words of the error summary; nothing when there is none."""
        found = re.search(r'<div[^>]* role="alert".*?</div>', self.html, re.DOTALL)
        return plain(found[0]) if found else ""

    @property
    def text(self) -> str:
        """The words of the page, without its markup."""
        return plain(self.html)

    @property
    def h1(self) -> str:
        return plain("".join(re.findall(r"<h1.*?</h1>", self.html, re.DOTALL)))

    def header(self, name: str) -> str:
        return str(self.response.headers.get(name, ""))

    def value(self, name: str) -> str:
        """What the input of this name holds."""
        found = re.search(rf'<input[^>]* name="{name}"[^>]*>', self.html)
        value = re.search(r' value="([^"]*)"', found[0]) if found else None
        return unescape(value[1]) if value else ""


def plain(html: str) -> str:
    return " ".join(unescape(re.sub(r"<[^>]+>", " ", html)).split())


class PageClient:
    """A browser without JavaScript; `strict` asks for CSRF tokens."""

    def __init__(self, user: User | None = None, *, strict: bool = False) -> None:
        self.client = Client(raise_request_exception=False)
        self.client.handler = STRICT if strict else HANDLER
        if user is not None:
            self.client.force_login(user)

    def get(self, path: str, **headers: str) -> Page:
        return Page(self.client.get(path, headers=headers))

    def post(self, path: str, /, headers: dict[str, str] | None = None, **fields: Any) -> Page:
        return Page(self.client.post(path, fields, headers=headers))

    def sign_in(self, username: str, password: str = PASSWORD, **fields: Any) -> Page:
        return self.post("/signin", username=username, password=password, **fields)

    @property
    def is_signed_in(self) -> bool:
        return self.get("/settings").status == 200
