"""A client for the pages of a real server. It keeps cookies and fills in forms."""

import re
from html import unescape
from http.cookies import SimpleCookie
from typing import Self
from urllib.parse import urlencode, urlsplit

from tests.server import Server


class FormClient:
    """`status`, `location` and `html` are those of the latest response."""

    def __init__(self, server: Server) -> None:
        self.server = server
        self.cookies: dict[str, str] = {}
        self.seen: set[str] = set()
        """The values of all cookies so far, replaced ones included."""
        self.status = 0
        self.location = self.html = ""

    def get(self, path: str) -> Self:
        return self.ask("GET", path)

    def send(self, path: str, /, **fields: str) -> Self:
        """Get the page, fill in its last form, and submit it."""
        self.get(path)
        form = re.findall(r"<form.*?</form>", self.html, re.DOTALL)[-1]
        hidden = re.findall(r'type="hidden" name="(\w+)" value="([^"]*)"', form)
        target = re.search(r'action="([^"]+)"', form)
        known = {name: unescape(value) for name, value in hidden}
        return self.ask("POST", target[1] if target else path, {**known, **fields})

    def ask(self, method: str, path: str, fields: dict[str, str] | None = None) -> Self:
        parts = urlsplit(path)
        connection = self.server.connect()
        headers = {"Cookie": "; ".join(f"{name}={value}" for name, value in self.cookies.items())}
        headers |= {"Content-Type": "application/x-www-form-urlencoded"} if fields else {}
        body = urlencode(fields) if fields else None
        connection.request(method, parts._replace(scheme="", netloc="").geturl(), body, headers)
        answer = connection.getresponse()
        self.status, self.location = answer.status, answer.headers.get("Location", "")
        self.html = answer.read().decode()
        connection.close()
        for line in answer.headers.get_all("Set-Cookie", []):
            for name, morsel in SimpleCookie(line).items():
                self.cookies[name] = morsel.value
                self.seen |= {morsel.value} if len(morsel.value) > 8 else set()
        return self
