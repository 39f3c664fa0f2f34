"""docs/api.md is correct: its examples run, and its tables equal those of the code.

The ```sh blocks run in order in one bash, against a server of their own. `# 201` after a call is
the status that `api` prints for it. The fields of a ```json block are compared with the last line
of JSON that the block before it printed; a ```text block is the end of that output. `…` in both
matches any text. The ```python block is a client of the live stream.
"""

from __future__ import annotations

import ast
import csv
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from threading import Timer
from typing import Any
from urllib.parse import urlsplit

import orjson
import pytest

from apps.core import errors, refusals
from apps.repos.protection_rules import RULES
from tests.server import PATIENCE, ROOT, Server

pytestmark = pytest.mark.once

PAGE = (ROOT / "docs" / "api.md").read_text()
BLOCK = re.compile(r"^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
BLOCKS = BLOCK.findall(PAGE)
EVENTS = (ROOT / "docs" / "events.md").read_text()
CODES = re.findall(r"`([^`\n]+)`", PAGE + EVENTS)
WORDS = {*CODES, *(word for code in CODES for word in re.split(r'[\s=":{},]+', code))}
"""All code spans of both pages, and each word in them."""
DESCRIPTION = orjson.loads((ROOT / "docs" / "openapi.json").read_bytes())
END = "-- end of the block --"
STATUS = re.compile(r"^[1-5][0-9]{2}$", re.MULTILINE)
SAID = re.compile(r"  # ([0-9]{3})$", re.MULTILINE)
NEEDS = ("nobody", "signed in", "reader", "viewer", "writer", "admin", "owner", "staff", "author")
COLUMNS = ("An", "S0", "S1", "V", "M", "D", "O", "St")
"""The columns of permissions.csv, in the order of NEEDS: each of the first eight also admits all
columns after its own.
"""
OF_ONESELF = ("own", "of own", "in own", "oneself", "deleted already")
"""Cases in permissions.csv that depend on the author of a resource, not on a level."""
OWNERS = ("teams/{team_slug}", "users/{username}")
SAME = "the same fields"
"""Stands in the row of a PUT for those of the POST above it, or of the record."""
NO_WORDS_OF_THE_API = {"Service", "Theme"}
"""Enums with words that the API does not use: git's services, and the themes of pages."""


# The output of the examples


@pytest.mark.slow
def test_the_examples_give_what_they_show(tmp_path):
    examples = list(shown_blocks())
    script = "".join(f"{code}echo '{END}'\n" for code, _, _ in examples)
    assert ".venv/bin/python" in script and "http://127.0.0.1:8000" in script
    with Server(tmp_path) as server:
        printed = run(script, server, tmp_path)
    outputs = printed.split(f"{END}\n")
    assert len(outputs) == len(examples) + 1, printed
    for output, (code, kind, shown) in zip(outputs, examples, strict=False):
        statuses = SAID.findall(code)
        assert STATUS.findall(output)[: len(statuses)] == statuses, f"{code}\nprinted\n{output}"
        if kind == "json":
            last = [line for line in output.splitlines() if line.startswith("{")][-1]
            assert fits(orjson.loads(shown), orjson.loads(last)), f"{shown}\nis not in\n{last}"
        elif kind == "text":
            assert re.search(pattern(shown) + r"\Z", output), f"{shown}\nis not in\n{output}"


def shown_blocks() -> Iterator[tuple[str, str, str]]:
    """Each shell block, with the kind and text of the block of its output, if there is one."""
    for index, (kind, code) in enumerate(BLOCKS):
        following = BLOCKS[index + 1] if index + 1 < len(BLOCKS) else ("", "")
        if kind == "sh":
            yield code, *(following if following[0] in {"json", "text"} else ("", ""))


def run(script: str, server: Server, folder: Path) -> str:
    """The output of the script in bash, with the address of the server."""
    script = script.replace(".venv/bin/python", sys.executable)
    done = subprocess.run(
        ["bash", "-ec", script.replace("http://127.0.0.1:8000", server.url)],
        env={**server.environment, "HOME": str(folder), "TMPDIR": str(folder)},
        cwd=ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=10 * PATIENCE,
        check=False,
    )
    assert done.returncode == 0, done.stdout
    return done.stdout


def fits(shown: Any, actual: Any) -> bool:
    """Whether the actual value has all shown fields of objects, and the same items of lists."""
    if isinstance(shown, dict):
        return isinstance(actual, dict) and all(
            name in actual and fits(value, actual[name]) for name, value in shown.items()
        )
    if isinstance(shown, list):
        return (
            isinstance(actual, list) and len(shown) == len(actual) and all(map(fits, shown, actual))
        )
    if isinstance(shown, str) and isinstance(actual, str):
        return re.fullmatch(pattern(shown), actual) is not None
    return type(shown) is type(actual) and bool(shown == actual)


def pattern(text: str) -> str:
    return re.escape(text).replace("…", ".*")


def test_an_answer_that_differs_does_not_fit():
    actual = {"a": 1, "b": ["x", "y"], "c": "http://host/path", "d": None}
    assert fits({"a": 1, "b": ["x", "…"], "c": "…/path"}, actual)
    wrong: list[Any] = [{"a": 2}, {"a": True}, {"b": ["x"]}, {"c": "/path"}, {"d": {}}, {"e": None}]
    assert not [shown for shown in wrong if fits(shown, actual)]


@pytest.mark.slow
def test_the_client_misses_nothing_while_it_or_the_server_is_away(tmp_path):
    [code] = [code for kind, code in BLOCKS if kind == "python"]
    (tmp_path / "follow.py").write_text(code)
    assert len(code.splitlines()) <= 40
    printed: list[int] = []
    with Server(tmp_path) as server:
        server.environment["PORT"] = str(urlsplit(server.url).port)
        alice = server.api("alice")
        alice.post("/teams", name="Acme", slug="followed").gives(201)
        with client(tmp_path, server) as ids:
            take(ids, printed, create_repos(server, "one", "two"))
            server.kill()
            server.start()
            take(ids, printed, create_repos(server, "three"))
        newest = create_repos(server, "four", "five")
        with client(tmp_path, server) as ids:
            take(ids, printed, newest)
        page = alice.get("/events?scope=team:followed&per_page=100").gives()
        recorded = sorted(event["id"] for event in page["results"])
    assert list(dict.fromkeys(printed)) == recorded


@contextmanager
def client(folder: Path, server: Server) -> Iterator[Iterator[int]]:
    """Run the client of the page; yields the ids that it prints. Kills the client at the end."""
    process = subprocess.Popen(
        [sys.executable, "follow.py", "team:followed"],
        cwd=folder,
        env={
            "PATH": os.environ["PATH"],
            "API": f"{server.url}/api/v1",
            "TOKEN": server.token("alice"),
        },
        stdout=subprocess.PIPE,
        text=True,
    )
    late = Timer(PATIENCE, process.kill)
    late.start()
    with process:
        assert process.stdout is not None
        try:
            yield (int(line.split()[0]) for line in process.stdout)
        finally:
            late.cancel()
            process.kill()


def create_repos(server: Server, *slugs: str) -> int:
    """Create repositories; returns the id of the last event."""
    alice = server.api("alice")
    for slug in slugs:
        alice.post("/teams/followed/repos", name=slug, slug=slug).gives(201)
    newest = alice.get("/events?scope=team:followed&per_page=1").gives()
    return int(newest["results"][0]["id"])


def take(ids: Iterator[int], printed: list[int], last: int) -> None:
    """Read ids into `printed` until the client has printed `last`."""
    while last not in printed:
        event_id = next(ids, None)
        assert event_id is not None, f"event {last} has not come, but {printed}"
        printed.append(event_id)


# The tables


def test_every_error_stands_on_the_page_with_its_status_and_no_other():
    documented = {(int(status), code.strip("`")) for status, code, _ in table("Status", "`error`")}
    assert documented == raised()
    assert documented == {(status, code) for code, (status, _) in refusals.CODES.items()}


def raised() -> set[tuple[int, str]]:
    """The status and the code of every error that `apps/` raises."""
    statuses = {error.__name__: error.status for error in errors.ApiError.__subclasses__()}
    status_of = {**statuses, "Blocker": 409}
    raised_errors = {(status, code) for status, (code, _) in errors.PLAIN.items()}
    raised_errors |= {(409, rule.code) for rule in RULES}
    for tree in trees():
        raised_errors |= {
            (status_of[name], code) for name, code in calls(tree) if name in status_of
        }
    return raised_errors


def calls(tree: ast.AST) -> Iterator[tuple[str, str]]:
    """The names and first arguments of all calls with a string as first argument. In a class,
    `super().__init__` counts as a call of the class.
    """
    for node in ast.walk(tree):
        if isinstance(node, ast.ClassDef):
            for name, text in calls(ast.Module(node.body, [])):
                if name == "__init__":
                    yield node.name, text
        elif isinstance(node, ast.Call) and node.args:
            first = node.args[0]
            name = getattr(node.func, "id", "") or getattr(node.func, "attr", "")
            if isinstance(first, ast.Constant) and isinstance(first.value, str):
                yield name, first.value


def test_every_word_of_a_closed_vocabulary_stands_on_the_page():
    missing = {*words_of_enums(), *map(str, enums(DESCRIPTION))} - WORDS - {"None"}
    assert not missing


def words_of_enums() -> Iterator[str]:
    for tree in trees():
        for node in ast.walk(tree):
            if not isinstance(node, ast.ClassDef) or node.name in NO_WORDS_OF_THE_API:
                continue
            if any(getattr(base, "id", "") == "StrEnum" for base in node.bases):
                values = [child.value for child in node.body if isinstance(child, ast.Assign)]
                yield from (str(child.value) for child in values if isinstance(child, ast.Constant))


def enums(part: Any) -> Iterator[Any]:
    """All values of all `enum`s in the description."""
    if isinstance(part, dict):
        yield from part["enum"] if isinstance(part.get("enum"), list) else ()
    for inner in (
        part.values() if isinstance(part, dict) else part if isinstance(part, list) else ()
    ):
        yield from enums(inner)


def test_every_field_tag_and_parameter_of_the_description_stands_on_the_page():
    schemas = DESCRIPTION["components"]["schemas"].items()
    described = [schema for name, schema in schemas if name != "Document"]
    names = {name for schema in described for name in schema.get("properties", {})}
    for operations in DESCRIPTION["paths"].values():
        for operation in operations.values():
            names |= {*operation["tags"]}
            names |= {
                item["name"] for item in operation.get("parameters", []) if item["in"] != "path"
            }
    missing = names - WORDS
    assert not missing


NOT_IN_THE_ROW = {"body_html", "path_base64", "oid", "pushed_by_uuid", "pushed_by_username"}
"""Fields that the text describes for several records, and of records inside records."""


def test_every_record_has_a_row_with_all_its_fields():
    rows = [{*re.findall(r"`([a-z_0-9]+)`", line)} for line in PAGE.splitlines() if line[:1] == "|"]
    missing = {}
    for name, schema in DESCRIPTION["components"]["schemas"].items():
        fields = {*schema.get("properties", {})} - NOT_IN_THE_ROW
        if name.endswith("Record") and not any(fields <= row for row in rows):
            missing[name] = min((fields - row for row in rows), key=len)
    assert missing == {}


def test_the_row_of_an_operation_has_the_fields_of_its_body():
    missing = {}
    for code, operation in operations_of_teams():
        fields = {*body_of(operation).get("properties", {})}
        for row in rows_of(code) if fields else ():
            lacking = fields - {*re.findall(r"`([a-z_0-9]+)`", row)}
            if lacking and SAME not in row:
                missing[code] = lacking
    assert missing == {}


def test_exactly_the_required_fields_and_parameters_of_an_operation_are_bold():
    bold, required = {}, {}
    for code, operation in operations_of_teams():
        parameters = operation.get("parameters", [])
        needed = {one["name"] for one in parameters if one.get("required") and one["in"] != "path"}
        required[code] = needed | {*body_of(operation).get("required", [])}
        bold[code] = {*re.findall(r"\*\*`([a-z_0-9]+)`\*\*", "".join(rows_of(code)))}
    assert bold == required
    assert bold["PUT /teams/{team_slug}"] == {"name", "slug"}


def operations_of_teams() -> Iterator[tuple[str, dict[str, Any]]]:
    """Each operation by its name on the page, without the twins below users."""
    for path, operations in DESCRIPTION["paths"].items():
        if path.startswith((f"/{OWNERS[1]}/repos", f"/{OWNERS[1]}/check")):
            continue
        short = path.replace(f"/{OWNERS[0]}/repos/{{repo_slug}}", "…")
        short = re.sub(r"^/teams/{team_slug}(?=/(repos|check-repo-slug)$)", "/{owner}", short)
        for method, operation in operations.items():
            yield f"{method.upper()} {short}", operation


def rows_of(code: str) -> list[str]:
    """The lines of the page about an operation: at least one."""
    rows = [line for line in PAGE.splitlines() if line.startswith(f"| `{code}` |")]
    assert rows, code
    return rows


def body_of(operation: dict[str, Any]) -> dict[str, Any]:
    """The schema of the body of an operation; empty if it takes none."""
    content = operation.get("requestBody", {}).get("content", {})
    reference = content.get("application/json", {}).get("schema", {}).get("$ref", "")
    schemas: dict[str, Any] = DESCRIPTION["components"]["schemas"]
    return schemas[reference.rpartition("/")[2]] if reference else {}


def test_every_operation_stands_on_the_page_with_what_it_needs():
    documented = {code.strip("`"): needs for code, needs, _ in table("Operation", "Needs", "Note")}
    documented = {
        short.replace("…", "/{owner}/repos/{repo_slug}"): documented[short] for short in documented
    }
    with (ROOT / "tests" / "permissions.csv").open() as file:
        cases = [row for row in csv.DictReader(file) if not row["case"].startswith(OF_ONESELF)]
    allowed_by_operation: dict[str, set[str]] = {}
    for row in cases:
        allowed = {name for name in COLUMNS if row[name] not in {"401", "403", "404"}}
        allowed_by_operation.setdefault(row["operation"], set()).update(allowed)
    assert documented == {name: least(columns) for name, columns in allowed_by_operation.items()}


def least(columns: set[str]) -> str:
    """The need that admits exactly these columns."""
    first = min((COLUMNS.index(name) for name in columns), default=len(COLUMNS))
    assert columns == {*COLUMNS[first:]}
    return NEEDS[first]


def test_every_operation_of_the_description_stands_on_the_page():
    documented = {code.strip("`") for code, _, _ in table("Operation", "Needs", "Note")}
    documented = {operation.replace("…", "/{owner}/repos/{repo_slug}") for operation in documented}
    expanded = {operation.replace("{owner}", owner) for operation in documented for owner in OWNERS}
    routed = {
        f"{method.upper()} {path}"
        for path, operations in DESCRIPTION["paths"].items()
        for method in operations
    }
    assert expanded == routed


def table(*header: str) -> Iterator[list[str]]:
    """The rows of all tables whose header begins with these cells."""
    inside = False
    for line in PAGE.splitlines():
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        if not line.startswith("|"):
            inside = False
        elif not inside:
            inside = cells[: len(header)] == list(header)
        elif set(line) - set("|-"):
            yield cells


def trees() -> Iterator[ast.Module]:
    for path in sorted((ROOT / "apps").rglob("*.py")):
        yield ast.parse(path.read_text())
