"""A real Chromium for tests, spoken to in the W3C WebDriver protocol: JSON over HTTP, which its own
chromedriver serves. `with Browser(folder) as browser: browser.open(url)`.
"""

from __future__ import annotations

import base64
import json
import os
import re
import shutil
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.client import HTTPConnection
from pathlib import Path
from threading import Event
from typing import Any, Self

import pytest

ELEMENT = "element-6066-11e4-a52e-4f735466cecf"
"""How WebDriver marks a reference to an element."""
LISTENS = re.compile(r"started successfully on port (\d+)")
PATIENCE = 60.0
"""Seconds after which a command is taken for broken."""
PAUSE = 0.02
"""Seconds between two looks."""
KEYS = {"Tab": "\ue004", "Enter": "\ue007", "Space": " ", "Shift": "\ue008"}
PROGRAMS = (("chromium", "chromium-browser", "google-chrome"), ("chromedriver",))


def programs() -> tuple[str, str] | None:
    """The browser and its driver; None where one of them is missing."""
    found = [next(filter(None, map(shutil.which, names)), None) for names in PROGRAMS]
    return (found[0], found[1]) if found[0] and found[1] else None


def need_browser() -> None:
    """Skip where no browser is installed, or fail where CI has promised one."""
    if programs() is None:
        why = "Chromium and its driver are not installed (Debian: chromium, chromium-driver)"
        if os.environ.get("CI"):
            pytest.fail(why)
        pytest.skip(why)


class Browser:
    """One window. Whatever the driver refuses fails the test with its words."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.session = ""

    def __enter__(self) -> Self:
        found = programs()
        assert found is not None
        self.driver = subprocess.Popen(
            [found[1], "--port=0"],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            env={**os.environ, "HOME": str(self.folder)},
        )
        assert self.driver.stdout is not None
        port = next(filter(None, map(LISTENS.search, self.driver.stdout)))[1]
        self.connection = HTTPConnection("127.0.0.1", int(port), timeout=PATIENCE)
        arguments = ["--headless=new", f"--user-data-dir={self.folder / 'profile'}"]
        arguments += ["--disable-gpu", "--disable-dev-shm-usage", "--disable-background-networking"]
        arguments += ["--no-sandbox"] if os.geteuid() == 0 else []
        options = {"binary": found[0], "args": arguments}
        wanted = {"goog:chromeOptions": options, "goog:loggingPrefs": {"browser": "ALL"}}
        made = self.ask("POST", "/session", {"capabilities": {"alwaysMatch": wanted}})
        self.session = f"/session/{made['sessionId']}"
        return self

    def __exit__(self, *_: object) -> None:
        if self.session:
            self.ask("DELETE", self.session)
        self.connection.close()
        self.driver.terminate()
        self.driver.communicate()

    def ask(self, method: str, path: str, body: Any = None) -> Any:
        """One command; its value."""
        value = self.send(method, path, body)
        assert not isinstance(value, dict) or "error" not in value, value
        return value

    def send(self, method: str, path: str, body: Any = None) -> Any:
        """One command; its value, or why the driver refuses it: a dict with `error`."""
        sent = json.dumps(body if body is not None else {}) if method == "POST" else None
        self.connection.request(method, path, sent, {"Content-Type": "application/json"})
        return json.loads(self.connection.getresponse().read())["value"]

    def command(self, name: str, **body: Any) -> Any:
        return self.ask("POST", f"{self.session}/{name}", body)

    def devtools(self, name: str, **parameters: Any) -> Any:
        """A command of Chromium's own, for what WebDriver has no words for."""
        return self.command("goog/cdp/execute", cmd=name, params=parameters)

    # What a person does

    def open(self, url: str) -> None:
        self.command("url", url=url)

    def find(self, css: str) -> str:
        found = self.command("element", using="css selector", value=css)
        return str(found[ELEMENT])

    def click(self, css: str) -> None:
        self.command(f"element/{self.find(css)}/click")

    def follow(self, css: str) -> None:
        """Click on what leads to another page, and wait for that, whatever its address.

        The click is answered before the browser has begun to leave. When it has left, the driver
        refuses to speak of what was there, in different words.
        """
        element = f"{self.session}/element/{self.find(css)}"
        self.ask("POST", f"{element}/click")
        self.wait(lambda: "error" in self.send("GET", f"{element}/name"), "led to another page")

    def fill(self, css: str, text: str) -> None:
        self.command(f"element/{self.find(css)}/value", text=text)

    def press(self, *keys: str) -> None:
        """Keys by their names in `KEYS`, others as text; those of one call one after another."""
        actions = []
        for key in (each for name in keys for each in KEYS.get(name, name)):
            actions += [{"type": "keyDown", "value": key}, {"type": "keyUp", "value": key}]
        self.command("actions", actions=[{"type": "key", "id": "keys", "actions": actions}])

    # What a person sees

    @property
    def path(self) -> str:
        return "/" + str(self.ask("GET", f"{self.session}/url")).split("/", 3)[3]

    def text(self, css: str = "main") -> str:
        return str(self.ask("GET", f"{self.session}/element/{self.find(css)}/text"))

    def wait(self, met: Callable[[], object], what: str) -> None:
        """Look again and again: nobody announces the end of a journey."""
        pause = Event()
        for _ in range(int(PATIENCE / PAUSE)):
            if met():
                return
            pause.wait(PAUSE)
        raise AssertionError(f"at {self.path} never {what}: {self.text()}")

    def until(self, condition: str) -> None:
        """Wait for this JavaScript to be true of a whole page."""
        script = f"return document.readyState === 'complete' && ({condition})"
        self.wait(lambda: self.run(script), condition)

    def arrive(self, heading: str) -> None:
        """Wait for the page with this heading."""
        self.until(f"document.querySelector('h1')?.innerText === {json.dumps(heading)}")

    def run(self, script: str, *arguments: Any) -> Any:
        """What this JavaScript returns; a promise is waited for."""
        return self.command("execute/sync", script=script, args=list(arguments))

    def console(self) -> list[str]:
        """What the browser has complained about since it was last asked."""
        entries = self.command("se/log", type="browser")
        return [entry["message"] for entry in entries]

    def picture(self, path: Path) -> None:
        path.write_bytes(base64.b64decode(self.ask("GET", f"{self.session}/screenshot")))

    # How the window is

    @contextmanager
    def looking(self, *, width: int, theme: str, height: int = 800) -> Iterator[None]:
        """A window of this width in CSS pixels, `light` or `dark`."""
        self.devtools(
            "Emulation.setDeviceMetricsOverride",
            width=width,
            height=height,
            deviceScaleFactor=1,
            mobile=False,
        )
        scheme = {"name": "prefers-color-scheme", "value": theme}
        self.devtools("Emulation.setEmulatedMedia", features=[scheme])
        try:
            yield
        finally:
            self.devtools("Emulation.clearDeviceMetricsOverride")
            self.devtools("Emulation.setEmulatedMedia", features=[])

    @contextmanager
    def without_javascript(self) -> Iterator[None]:
        self.devtools("Emulation.setScriptExecutionDisabled", value=True)
        try:
            yield
        finally:
            self.devtools("Emulation.setScriptExecutionDisabled", value=False)

    def forget(self) -> None:
        """Throw all cookies away."""
        self.ask("DELETE", f"{self.session}/cookie")
