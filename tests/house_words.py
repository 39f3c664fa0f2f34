"""House rules about words, references and names of other packages. See house_rules.py."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from inspect import isfunction
from pathlib import Path

from tests.house_rules import Source, dotted, imports, public_functions

ROOT = Path(__file__).resolve().parent.parent

PRIVATE_BUT_DOCUMENTED = {"_meta", "_state", "_db", "_default_manager", "_base_manager"}
PRIVATE_BUT_DOCUMENTED |= {"_fields", "_replace", "_value_", "_exit", "_open", "_save"}
"""Django and Python document these: of models, managers, namedtuples, enums, exit and storages."""
PRIVATE = re.compile(r"_[^_]")
OWNERS = {"self", "cls", "super()"}
OLD_WORDS = re.compile(
    r"\b(?:doors?\b|knock|pour\b|departure|Wish\b|Seats\b|Visit\b|see_path|seeing_path"
    r"|find_place|takes=|gives=|charged_as|charge_(?:api|git|page)|self\.(?:caller|params|input)\b"
    r"|Standing\b|standing_of|bring\(|BOXES|SERVICE_BOX|Str\(most|gitperson|gitstream|githttp\b"
    r"|gitpush|scope_source)"
)
"""Old words, replaced by those of Django, DRF and git."""
ABSENT_DOCUMENT = re.compile(r"\b(?:behaviour|engine|reading|contract)\.md\b|\btrap \d|§")
PATH = re.compile(
    r"(?<![\w/.-])(?:apps|config|tests|bench|docs|bin|deploy|templates)/[\w./-]*\.\w+"
    r"|(?<=\()[\w./-]+\.md\b"
)
"""A file of the tree that prose names, from the root or relative to the page."""
HEADING_LINK = re.compile(r"\]\((?P<page>[\w./-]+\.md)?#(?P<heading>[^)]+)\)")
ACCESSES = {"RepoAccess", "TeamAccess", "UserAccess", "ResourceAccess"}


EXAMPLES = {"docs/setup.md", "tests/test_hello.py"}
EXAMPLES |= {"bin/print-week.sh", "bin/week.sh", "tests/test_harmonics.py"}
EXAMPLES |= {"docs/README.md", "docs/curve.png", "docs/how-it-works.md"}
"""Files of other repositories: of the demo, and in examples of links."""


def no_old_words(source: Source) -> Iterator[str]:
    """No old words in code, tests and prose."""
    for number, found in matches(OLD_WORDS, source):
        yield f"{number}: says {found}"


def no_reference_to_what_is_absent(source: Source) -> Iterator[str]:
    """No references to documents or paragraphs that are not in the tree."""
    for number, found in matches(ABSENT_DOCUMENT, source):
        yield f"{number}: refers to {found}"


def referred_files_exist(source: Source) -> Iterator[str]:
    """All files that prose or code names exist, from the root or relative to the page."""
    if source.path.endswith("package-lock.json"):  # contains names of files inside packages
        return
    for number, name in matches(PATH, source):
        beside = (ROOT / source.path).parent / name
        if name not in EXAMPLES and not (ROOT / name).exists() and not beside.exists():
            yield f"{number}: names {name}, which is not there"


def linked_headings_exist(source: Source) -> Iterator[str]:
    """All headings exist that links between pages name, as GitHub and Guildhall spell them."""
    if not source.path.endswith(".md"):
        return
    for link in HEADING_LINK.finditer(source.text):
        page = (ROOT / source.path).parent / link["page"] if link["page"] else None
        if page and not page.exists():
            continue  # reported by referred_files_exist
        if link["heading"] not in headings(page.read_text() if page else source.text):
            number = source.text.count("\n", 0, link.start()) + 1
            yield f"{number}: links to the heading {link['heading']}, which is not there"


def headings(page: str) -> set[str]:
    """The anchors of a page: letters, digits, `-` and `_` in lower case, and `-` for spaces."""
    titles = re.findall(r"^#+ (.+)$", page, re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", title).lower().replace(" ", "-") for title in titles}


def matches(pattern: re.Pattern[str], source: Source) -> Iterator[tuple[int, str]]:
    """The number of the line and the text of each match."""
    for match in pattern.finditer(source.text):
        yield source.text.count("\n", 0, match.start()) + 1, match[0]


def nothing_private_of_others(source: Source) -> Iterator[str]:
    """No private names of packages, which may change them any day."""
    if source.within("tests/"):
        return
    for line, name in imports(source):
        private = any(PRIVATE.match(part) for part in name.split("."))
        if private and not name.startswith(("apps.", "config.")):
            yield f"{line}: imports {name}"
    for node in ast.walk(source.tree):
        if not isinstance(node, ast.Attribute) or not PRIVATE.match(node.attr):
            continue
        owner = ast.unparse(node.value)
        own = f"def {node.attr}(" in source.text or f"self.{node.attr}" in source.text
        if owner not in OWNERS and node.attr not in PRIVATE_BUT_DOCUMENTED and not own:
            yield f"{node.lineno}: asks for {owner}.{node.attr}"
    for call, called in source.calls:
        for named in call.args[1:2] if called in {"getattr", "setattr"} else []:
            text = named.value if isinstance(named, ast.Constant) else None
            if isinstance(text, str) and PRIVATE.match(text):
                yield f"{call.lineno}: asks for {text}"


def private_members_taken_over(cls: type, body: ast.ClassDef) -> Iterator[str]:
    """Private members of base classes from other packages that a class, written as `body`,
    overrides or uses.
    """
    below = [one for one in cls.__mro__ if not one.__module__.startswith(("apps.", "config."))]
    members = {name: member for one in below for name, member in vars(one).items()}
    asked = {name for one in filter(isfunction, members.values()) for name in one.__code__.co_names}
    for node in ast.walk(body):
        name = ""
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            name = node.name
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            name = node.id
        elif isinstance(node, ast.Attribute) and ast.unparse(node.value) in OWNERS:
            name = node.attr
        if PRIVATE.match(name) and name in (asked | {*members}) - PRIVATE_BUT_DOCUMENTED:
            yield f"{cls.__name__}.{name} is private to a class of others"


def accesses_are_granted_in_one_place(source: Source) -> Iterator[str]:
    """Only `access.py` grants an access."""
    if source.within("apps/", "config/") and source.names[-1] != "access":
        for call, called in source.calls:
            if called.rpartition(".")[2] in ACCESSES:
                yield f"{call.lineno}: makes a {called}"


def views_list_by_queries(source: Source) -> Iterator[str]:
    """No list query inside a viewset: pages and the admin use the same queries."""
    if not source.within("apps/") or "views" not in source.names:
        return
    for node in ast.walk(source.tree):
        if isinstance(node, ast.FunctionDef) and node.name == "list":
            for inner in ast.walk(node):
                if ".objects" in dotted(inner):
                    yield f"{inner.lineno}: {dotted(inner)} in list()"  # type: ignore[attr-defined]


PARENTS = {"repo", "team", "thread", "reply", "pull", "protection", "owner", "space", "upstream"}
PARENTS |= {"access", "webhook"}


def queries_are_filtered(source: Source) -> Iterator[str]:
    """A list is below a parent that was opened, or filtered by `visible_to`."""
    if not source.within("apps/") or source.names[-1] != "queries":
        return
    for node in public_functions(source):
        if node.name.startswith("list_"):
            parameters = {one.arg for one in (*node.args.args, *node.args.kwonlyargs)}
            seen = parameters & PARENTS or "visible_to" in ast.unparse(node)
            if not seen:
                yield f"{node.lineno}: {node.name}() lists without visible_to()"
