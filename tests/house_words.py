"""House rules about what the tree says: words, references, names of others. See house_rules.py."""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Collection, Iterator

from tests.house_rules import Source, dotted

PRIVATE_BUT_DOCUMENTED = {"_meta", "_state", "_default_manager", "_base_manager", "_fields"}
"""Django's and Python's own documents name these: Model._meta API, Model._state, managers,
namedtuple."""
OWNERS = {"self", "cls", "super()"}
OLD_WORDS = re.compile(
    r"\b(?:doors?\b|knock|pour\b|departure|Wish\b|Seats\b|Visit\b|see_path|seeing_path"
    r"|find_place|takes=|gives=|charged_as|charge_(?:api|git|page)|self\.(?:caller|params|input)\b"
    r"|Standing\b|standing_of|bring\(|BOXES|SERVICE_BOX|Str\(most|gitperson|gitstream|githttp\b"
    r"|gitpush|scope_source)"
)
"""Words that have given way to those of Django, DRF and git."""
ABSENT_DOCUMENT = re.compile(r"\b(?:behaviour|engine|reading|pages|contract)\.md\b|\btrap \d|§")
PATH = re.compile(
    r"(?<![\w/.-])(?:apps|config|tests|bench|docs|bin|deploy|templates)/[\w./-]*\.\w+"
    r"|(?<=\()[\w./-]+\.md\b"
)
"""A file of the tree in prose: from the root, or a link beside the page."""
ACCESSES = {"RepoAccess", "TeamAccess", "UserAccess", "ResourceAccess"}


def no_old_words(source: Source) -> Iterator[str]:
    """The field's own words, in code, tests and prose alike."""
    for number, line in enumerate(source.text.splitlines(), 1):
        if found := OLD_WORDS.search(line):
            yield f"{number}: says {found[0]}"


def no_reference_to_what_is_absent(source: Source) -> Iterator[str]:
    """The tree explains itself: no document and no paragraph that a reader does not have."""
    for number, line in enumerate(source.text.splitlines(), 1):
        found = ABSENT_DOCUMENT.search(line)
        if found and f"docs/{found[0]}" not in line and f"({found[0]})" not in line:
            yield f"{number}: refers to {found[0]}"


def referred_files_exist(exists: Callable[[str], bool]) -> Callable[[Source], Iterator[str]]:
    """Every file that prose or code names is there; `exists` is asked by its path from the root."""

    def rule(source: Source) -> Iterator[str]:
        folder = source.path.rpartition("/")[0]
        for number, line in enumerate(source.text.splitlines(), 1):
            for name in PATH.findall(line):
                beside = f"{folder}/{name}" if folder else name
                if not exists(name) and not exists(beside):
                    yield f"{number}: names {name}, which is not there"

    return rule


def nothing_private_of_others(source: Source) -> Iterator[str]:
    """No private attribute but one's own: what a library may change any day is not built upon."""
    if not source.within("apps/", "config/"):
        return
    for node in ast.walk(source.tree):
        if not isinstance(node, ast.Attribute) or not re.match(r"_[^_]", node.attr):
            continue
        owner = ast.unparse(node.value)
        own = f"def {node.attr}(" in source.text or f"self.{node.attr}" in source.text
        if owner not in OWNERS and node.attr not in PRIVATE_BUT_DOCUMENTED and not own:
            yield f"{node.lineno}: asks for {owner}.{node.attr}"


def accesses_are_granted_in_one_place(source: Source) -> Iterator[str]:
    """Whoever holds an access has asked for it: only `access.py` makes one."""
    if source.within("apps/", "config/") and source.names[-1] != "access":
        for call, called in source.calls:
            if called.rpartition(".")[2] in ACCESSES:
                yield f"{call.lineno}: makes a {called}"


def views_list_by_queries(source: Source) -> Iterator[str]:
    """No list query inside a viewset: pages and the admin list the same."""
    if not source.within("apps/") or "views" not in source.names:
        return
    for node in ast.walk(source.tree):
        if isinstance(node, ast.FunctionDef) and node.name == "list":
            for inner in ast.walk(node):
                if ".objects" in dotted(inner):
                    yield f"{inner.lineno}: {dotted(inner)} in list()"  # type: ignore[attr-defined]


PARENTS = {"repo", "team", "thread", "pull", "protection", "owner", "space", "upstream"}


def queries_are_filtered(known: Collection[str]) -> Callable[[Source], Iterator[str]]:
    """What a list shows is below a parent that was opened, or cut down by `visible_to`."""

    def rule(source: Source) -> Iterator[str]:
        if not source.within("apps/") or source.names[-1] != "queries":
            return
        for node in source.tree.body:
            if not isinstance(node, ast.FunctionDef) or not node.name.startswith("list_"):
                continue
            parameters = {one.arg for one in (*node.args.args, *node.args.kwonlyargs)}
            seen = parameters & PARENTS or "visible_to" in ast.unparse(node)
            if not seen and f"{source.path}:{node.name}" not in known:
                yield f"{node.lineno}: {node.name}() lists without visible_to()"

    return rule
