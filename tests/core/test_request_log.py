"""Ids of requests, and the line of the log for each request."""

from __future__ import annotations

import json
import logging
import re
from collections.abc import Callable, Iterator
from contextvars import Context
from types import SimpleNamespace
from typing import Any

import orjson
import pytest

from apps.core.request_log import operation_of
from config.logs import JsonFormatter, RequestId, TextFormatter
from tests.api import plain_client
from tests.gitclient import Clone
from tests.routes import routed
from tests.web.page_client import PageClient

MADE = re.compile(r"[0-9a-f]{8}")
Lines = Callable[[], list[dict[str, Any]]]


class Written(logging.Handler):
    """Formats each record when it is logged, like the handler of a server."""

    def __init__(self) -> None:
        super().__init__()
        self.addFilter(RequestId())
        self.setFormatter(JsonFormatter())
        self.lines: list[dict[str, Any]] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.lines.append(orjson.loads(self.format(record)))


@pytest.fixture
def lines(caplog: pytest.LogCaptureFixture) -> Iterator[Lines]:
    """A function that returns the logged lines. Lines for requests are switched on."""
    caplog.set_level(logging.INFO, "apps.core.request_log")
    handler = Written()
    logging.getLogger().addHandler(handler)
    yield lambda: handler.lines
    logging.getLogger().removeHandler(handler)


@pytest.mark.parametrize(
    "path",
    ["/api/v1/teams", "/api/v1/nothing", "/", "/teams/x", "/teams/x/y.git/info/refs", "/signin"],
)
def test_every_answer_has_an_id_of_its_own(db, path):
    first, second = (plain_client().get(path)["X-Request-Id"] for _ in range(2))
    assert MADE.fullmatch(first) and MADE.fullmatch(second) and first != second


@pytest.mark.parametrize(
    ("sent", "form"),
    [(sent, re.escape(sent)) for sent in ("a" * 64, "0af7651916cd43dd8448eb211c80319c", "a.B-c_1")]
    + [(sent, MADE) for sent in ("a" * 65, "", "a b", "a\nb", "a,b", "é", "<b>", "a\x7f")],
)
def test_an_id_from_a_trusted_proxy_is_used_unless_it_has_another_form(settings, db, sent, form):
    settings.TRUSTED_PROXIES = 1
    answer = plain_client().get("/signin", headers={"X-Request-Id": sent})
    assert re.fullmatch(form, answer["X-Request-Id"])


def test_an_id_from_a_client_is_replaced(db, lines):
    answer = plain_client().get("/signin", headers={"X-Request-Id": "forged"})
    assert MADE.fullmatch(answer["X-Request-Id"])
    assert lines()[0]["request_id"] == answer["X-Request-Id"]


def test_a_500_names_its_id_which_its_lines_have(settings, db, lines):
    settings.ROOT_URLCONF = "tests.core.broken"
    answer = plain_client().get("/api/v1/broken")
    request_id = answer["X-Request-Id"]
    assert orjson.loads(answer.content)["detail"].endswith(f" (request {request_id})")
    error, access, *_ = lines()
    assert error["request_id"] == access["request_id"] == request_id
    assert "ZeroDivisionError" in error["exception"] and access["status"] == 500


def test_a_request_has_one_line(api, team_repo, alice, lines):
    alice_api = api(alice)
    lines().clear()
    alice_api.get(f"{team_repo.api_path}/branches?per_page=7").gives()
    [line] = lines()
    assert line.pop("ms") > 0 and line.pop("time").endswith("Z") and line.pop("request_id")
    assert line.pop("queries") > 0
    assert line == {
        "level": "INFO",
        "logger": "apps.core.request_log",
        "person": "alice",
        "address": "127.0.0.1",
        "method": "GET",
        "path": f"/api/v1{team_repo.api_path}/branches",
        "operation": "list_team_branches",
        "status": 200,
        "gits": 0,
    }


def test_queries_and_gits_of_a_request_are_counted(
    api, team_repo, alice, tmp_path, lines, django_assert_max_num_queries
):
    Clone(tmp_path / "clone", team_repo, alice).push_commit("main", {"a": "1\n"})
    headers = api(alice).headers
    lines().clear()
    with django_assert_max_num_queries(30) as counted:
        path = f"/api/v1{team_repo.api_path}/archive?format=zip"
        answer = plain_client().get(path, headers=headers)
        assert not lines(), "it is not sent yet"
        answer.getvalue()
    [line] = lines()
    assert (line["operation"], line["status"]) == ("get_team_archive", 200)
    assert line["queries"] == len(counted) > 0 and line["gits"] > 0


def test_a_page_is_logged_by_its_name(team_repo, alice, lines):
    PageClient(alice).get(f"/{team_repo.path}/threads?kind=hush")
    line = lines()[-1]
    assert (line["person"], line["operation"]) == ("alice", "threads")
    PageClient().get("/signin?next=/hush")
    line = lines()[-1]
    assert (line["person"], line["operation"], line["path"]) == ("-", "signin", "/signin")
    assert "hush" not in str(lines())


INVITE = "7d9f3b52-0c41-4d6e-9a8b-2f1e6c5d4b3a"


@pytest.mark.parametrize(
    "path",
    [
        f"/api/v1/signup-invites/{INVITE}",
        f"/api/v1/signup-invites/{INVITE}/more",
        f"/settings/invites/{INVITE}/delete",
        f"//settings/invites/{INVITE}/delete",
        f"/settings/invites/{INVITE.upper()}",
        f"/settings/invites//%20{INVITE}",
    ],
)
def test_the_uuid_of_an_invite_is_not_logged(db, lines, path):
    plain_client().get(path)
    [line] = lines()
    assert INVITE not in str(line).lower() and "invites/-" in line["path"]


def test_an_error_about_an_invite_does_not_log_its_uuid(lines):
    request = SimpleNamespace(path=f"/settings/invites/{INVITE}/delete")
    logger = logging.getLogger("django.request")
    logger.error("%s: %s", "Internal Server Error", request.path)
    assert lines()[0]["message"] == "Internal Server Error: /settings/invites/-/delete"


def test_a_path_cannot_forge_a_line_and_is_cut(db, lines):
    plain_client().get("/x%0a%1b[1m%e2%80%a8" + "y" * 3000)
    path = lines()[0]["path"]
    assert path.startswith("/x%0A%1B") and path.isascii() and len(path) <= 500


@pytest.mark.parametrize("form", [TextFormatter, JsonFormatter])
def test_a_message_is_one_line_of_any_characters(form):
    """git quotes names of files, which have any bytes."""
    message = "a\nb\x1b\x85\u2028\udcff"
    record = logging.makeLogRecord({"msg": "%s", "args": (message,), "about": ""})
    [line] = form().format(record).splitlines()
    assert json.loads(line)["message"] == message if line[0] == "{" else r"a\nb\x1b\x85" in line


def test_operations_have_the_names_of_the_document():
    for one in routed():
        view = SimpleNamespace(actions={one.method.lower(): one.action})
        route = "api/v1" + re.sub(r"\{(\w+)\}", r"<any:\1>", one.path)
        match: Any = SimpleNamespace(func=view, route=route)
        for method in {one.method, "HEAD" if one.method == "GET" else one.method}:
            request: Any = SimpleNamespace(method=method, resolver_match=match)
            if method == "HEAD":
                view.actions["head"] = one.action
            assert operation_of(request) == one.described["operationId"]


def test_nothing_is_logged_by_default(db, caplog):
    caplog.set_level(logging.INFO)
    plain_client().get("/signin")
    assert not [one for one in caplog.records if one.name == "apps.core.request_log"]


def test_a_line_outside_a_request_has_no_id(lines):
    Context().run(logging.getLogger("apps.jobs").warning, "The worker %s", "runs")
    assert "request_id" not in lines()[-1]
    assert lines()[-1]["message"] == "The worker runs"
