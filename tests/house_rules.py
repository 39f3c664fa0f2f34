"""The house rules that can be checked in the source, one function each. See CONTRIBUTING.md.

A rule takes a file and yields problems as `line: text`. `RULES` in `test_house_rules.py` has a bad
example for each rule.
"""

from __future__ import annotations

import ast
import inspect
import re
import sys
import textwrap
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import PurePosixPath
from typing import Any, cast

STARTS_SERVERS = ("tests/", "bench/", "config/management/")
STARTS_PROCESSES = {"apps/git/run.py", "apps/core/lexers.py", "apps/core/postgresql/programs.py"}
STARTS_PROCESSES |= {"config/ssh.py"}
WRITERS = {"save", "create", "delete", "update", "bulk_create", "bulk_update", "get_or_create"}
WRITERS |= {"update_or_create"}
VAGUE = {"utils", "util", "helpers", "helper", "managers", "manager", "services", "service"}
VAGUE |= {"base", "common", "data", "info", "misc", "selectors", "signals"}
BACKENDS = {"apps/core/postgresql/base.py", "apps/core/sqlite3/base.py"}
"""Django imports the module of this name from a database backend."""
EXPLAINED = {"actions", "rules", "approval", "queries", "access", "principal", "authentication"}
EXPLAINED |= {"pushes", "record", "tree", "frames"}

NOT_ATOMIC = {
    "apps/accounts/actions.py:change_password": "hashing takes long, and is done before",
    "apps/accounts/actions.py:create_user": "hashing takes long, and is done before",
    "apps/accounts/actions.py:sign_up": "hashing takes long, and is done before _join()",
    "apps/pulls/actions/branches.py:update_branch": "git works before that of move_branch()",
    "apps/pulls/actions/branches.py:delete_source_branch": "it calls move_branch()",
    "apps/pulls/actions/branches.py:restore_source_branch": "git works before move_branch()",
    "apps/pulls/actions/branches.py:delete_after_merge": "it calls delete_source_branch()",
    "apps/pulls/actions/suggesting.py:apply_suggestions": "git works before move_branch()",
    "apps/pulls/actions/merging.py:merge_pull": "git works before that of _move_target()",
    "apps/pulls/actions/commenting.py:comment_on_line": "git is asked before _comment()",
    "apps/pulls/actions/commenting.py:create_comment": "it calls comment_on_line()",
    "apps/pulls/actions/drafting.py:update_draft": "the body is rendered before its transaction",
    "apps/pulls/actions/drafting.py:add_draft_comment": "git is asked before _add_comment()",
    "apps/pulls/actions/drafting.py:update_draft_comment": "the body is rendered before",
    "apps/pulls/actions/drafting.py:submit_draft": "git is asked before _submit()",
    "apps/pulls/actions/viewing.py:set_viewed": "git may be asked for the files before mark_file()",
    "apps/pulls/actions/pulls.py:create_review": "the body is rendered before _create_review()",
    "apps/pulls/actions/pulls.py:update_review": "the body is rendered before its transaction",
    "apps/statuses/actions.py:create_status": "git is asked for the commit before _add()",
    "apps/webhooks/actions.py:ping_webhook": "an attempt takes long, and stores its own row",
    "apps/webhooks/actions.py:redeliver": "an attempt takes long, and stores its own row",
    "apps/uploads/actions.py:create_upload": "the file is written before the transaction of _add()",
    "apps/pulls/actions/pulls.py:create_pull": "git is asked before _open_pull()",
    "apps/pulls/actions/pulls.py:update_pull": "git is asked before _update_pull()",
    "apps/threads/actions.py:create_thread": "the body is rendered before _open()",
    "apps/threads/actions.py:update_thread": "the body is rendered before its transaction",
    "apps/threads/actions.py:create_reply": "links are looked up before add_reply()",
    "apps/threads/actions.py:update_reply": "links are looked up before its transaction",
}
"""Public actions without one transaction around everything, with the reason."""

FACTS = {
    "apps/accounts/actions.py:warn_of_expiry": "time has passed, and nobody has asked for it",
    "apps/accounts/openid/actions.py:set_staff_by_group": "the OpenID provider says so",
    "apps/teams/actions.py:set_members_by_group": "the OpenID provider says so",
    "apps/repos/actions.py:complete_fork": "a worker copies, and asks for the creator anew",
    "apps/repos/actions.py:fail_fork": "it fails also when its creator may nothing any more",
    "apps/repos/actions.py:import_repo": "who runs the site needs no account for it",
    "apps/pulls/actions/forgetting.py:forget_commit": "who runs the site needs no account for it",
    "apps/webhooks/actions.py:disable_webhook": "the worker calls it after failures",
}
"""Actions of the system itself. Their `actor`, if any, is named by the event and has no access."""

Function = ast.FunctionDef | ast.AsyncFunctionDef
ASKED_FOR = Function | ast.ClassDef | ast.Call | ast.Import | ast.ImportFrom


@dataclass(frozen=True)
class Source:
    """A file of the tree: its path from the root, and its text."""

    path: str
    text: str = field(repr=False)

    @cached_property
    def tree(self) -> ast.Module:
        return ast.parse(self.text)

    @cached_property
    def nodes(self) -> list[ast.AST]:
        """The nodes that rules ask for, a tenth of all, collected once for all rules."""
        return [node for node in ast.walk(self.tree) if isinstance(node, ASKED_FOR)]

    @cached_property
    def calls(self) -> list[tuple[ast.Call, str]]:
        """All calls, with the dotted name of the called object."""
        return [(node, dotted(node)) for node in self.nodes if isinstance(node, ast.Call)]

    @property
    def is_python(self) -> bool:
        return self.path.endswith(".py")

    @property
    def names(self) -> tuple[str, ...]:
        """`apps/pulls/actions/merge.py` is `apps`, `pulls`, `actions`, `merge`."""
        return PurePosixPath(self.path).with_suffix("").parts

    def within(self, *prefixes: str) -> bool:
        return self.path.startswith(prefixes)

    @property
    def is_actions(self) -> bool:
        """Whether it is a module `actions`, or in a package of this name."""
        return self.within("apps/", "config/") and "actions" in self.names[2:]


def functions(source: Source) -> Iterator[Function]:
    for node in source.nodes:
        if isinstance(node, Function):
            yield node


def public_functions(source: Source) -> Iterator[Function]:
    """Functions at the top of the module, without a leading underscore."""
    for node in source.tree.body:
        if isinstance(node, Function) and not node.name.startswith("_"):
            yield node


def imports(source: Source) -> Iterator[tuple[int, str]]:
    """`(line, dotted name)` of all imports: the module, and module.name."""
    for node in source.nodes:
        if isinstance(node, ast.Import):
            yield from ((node.lineno, alias.name) for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            yield node.lineno, node.module
            yield from ((node.lineno, f"{node.module}.{alias.name}") for alias in node.names)


def dotted(node: ast.AST) -> str:
    """`transaction.atomic` for a name, an attribute, or a call of either; else an empty text."""
    if isinstance(node, ast.Call):
        return dotted(node.func)
    if isinstance(node, ast.Attribute):
        return f"{dotted(node.value)}.{node.attr}"
    return node.id if isinstance(node, ast.Name) else ""


def calls(tree: ast.AST) -> Iterator[ast.Call]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Call):
            yield node


def processes_start_in_one_place(source: Source) -> Iterator[str]:
    """Only `git/run.py` starts git, `core/lexers.py` the process of the lexers,
    `core/postgresql/programs.py` PostgreSQL's programs, and `config/ssh.py` the server of git over
    SSH. Tests and the serve command start real servers.
    """
    if source.path in STARTS_PROCESSES or source.within(*STARTS_SERVERS):
        return
    for line, name in imports(source):
        if name.partition(".")[0] in {"subprocess", "pty", "multiprocessing"}:
            yield f"{line}: imports {name}"
    for call, called in source.calls:
        if re.search(r"\bos\.(system|popen|fork|exec|spawn|posix_spawn)|create_subprocess", called):
            yield f"{call.lineno}: calls {called}"


def events_are_recorded_in_actions(source: Source) -> Iterator[str]:
    """`record()` belongs to actions and `pushes.py`; nothing else writes an event's row."""
    if not source.within("apps/", "config/") or source.path == "apps/events/record.py":
        return
    if not source.is_actions and source.names[-1] != "pushes":
        for line, name in imports(source):
            if name in {"apps.events.record.record", "apps.events.record.record_all"}:
                yield f"{line}: imports record()"
    for call, called in source.calls:
        if called.endswith(("record.record", "record.record_all")) and not source.is_actions:
            yield f"{call.lineno}: calls {called}()"
        if re.match(r"Event\.objects\.(create|bulk|get_or|update_or)", called):
            yield f"{call.lineno}: writes an event past record()"


def actions_are_atomic(source: Source) -> Iterator[str]:
    """One action, one transaction."""
    if not source.is_actions:
        return
    for function in public_functions(source):
        decorators = [dotted(decorator) for decorator in function.decorator_list]
        atomic = {"transaction.atomic", "final_transaction"} & {*decorators}
        if not atomic and f"{source.path}:{function.name}" not in NOT_ATOMIC:
            yield f"{function.lineno}: {function.name}() is not @transaction.atomic"


def actions_name_their_actor(source: Source) -> Iterator[str]:
    """Actions take keywords only; the first is the `access` or the `principal` of the caller."""
    if not source.is_actions:
        return
    for function in public_functions(source):
        given = function.args
        named = [argument.arg for argument in given.kwonlyargs]
        if given.posonlyargs or given.args or given.vararg or given.kwarg:
            yield f"{function.lineno}: {function.name}() takes other than named keywords"
        if (
            named[:1] not in (["access"], ["principal"])
            and f"{source.path}:{function.name}" not in FACTS
        ):
            yield f"{function.lineno}: {function.name}() does not begin with access or principal"


def record_comes_last(source: Source) -> Iterator[str]:
    """After `record()` only a return or another event may follow: it holds the event lock."""
    if source.is_actions:
        for function in functions(source):
            yield from _after_record(function.body, False)


def _after_record(body: list[ast.stmt], recorded: bool) -> Iterator[str]:
    for statement in body:
        records = any(dotted(call) in {"record", "record_all"} for call in calls(statement))
        if recorded and not records and not isinstance(statement, ast.Return):
            yield f"{statement.lineno}: comes after record()"
        for inner in ("body", "orelse", "handlers", "finalbody"):
            yield from _after_record(getattr(statement, inner, []), recorded)
        recorded = recorded or records


def views_only_ask(source: Source) -> Iterator[str]:
    """Views, pages and the admin change nothing themselves, and reach rows through parents."""
    asking = {"views", "consumers", "access", "queries", "admin"} & {*source.names}
    if not source.within("apps/web/") and not (asking and source.within("apps/")):
        return
    for call, called in source.calls:
        receiver, _, name = called.rpartition(".")
        if name in WRITERS and receiver not in {"", "actions", "super"}:
            yield f"{call.lineno}: {called}() writes in a view"
        if called.endswith(".objects.get"):
            yield f"{call.lineno}: {called}() reaches past the parent"


def pages_hold_nothing(source: Source) -> Iterator[str]:
    """`apps/web` has no tables of its own."""
    if source.within("apps/web/"):
        for node in source.nodes:
            if isinstance(node, ast.ClassDef) and "models.Model" in map(dotted, node.bases):
                yield f"{node.lineno}: {node.name} is a model"
        if {"models", "migrations"} & set(source.names):
            yield "1: pages have no models"


def files_and_functions_are_small(source: Source) -> Iterator[str]:
    """Files up to 600 lines, functions up to 40."""
    lines, most = source.text.count("\n"), 600
    if lines > most:
        yield f"{lines}: has {lines} lines, more than {most}"
    for function in functions(source):
        length = (function.end_lineno or 0) - function.lineno + 1
        if length > 40:
            yield f"{function.lineno}: {function.name}() has {length} lines, more than 40"


def modules_say_what_they_are_for(source: Source) -> Iterator[str]:
    """A docstring of 1 to 5 lines; in tests of any length."""
    doc = ast.get_docstring(source.tree)
    if source.tree.body and not doc:
        yield "1: the module has no docstring"
    if doc and not source.within("tests/") and len(doc.splitlines()) > 5:
        yield "1: the module's docstring has more than 5 lines"


def rules_and_actions_are_explained(source: Source) -> Iterator[str]:
    """Docstrings for actions, rules, models, viewsets and operations, on which others rely."""
    if not source.within("apps/"):
        return
    if EXPLAINED & set(source.names[2:]):
        for function in public_functions(source):
            if not ast.get_docstring(function):
                yield f"{function.lineno}: {function.name}() has no docstring"
    for node in source.nodes:
        if is_model_or_viewset(node) or is_operation(node):
            named = cast("ast.ClassDef | ast.FunctionDef", node)
            if not ast.get_docstring(named):
                yield f"{named.lineno}: {named.name} has no docstring"


def is_model_or_viewset(node: ast.AST) -> bool:
    ends = ("models.Model", "ViewSet")
    return isinstance(node, ast.ClassDef) and any(dotted(one).endswith(ends) for one in node.bases)


def is_operation(node: ast.AST) -> bool:
    return isinstance(node, Function) and "operation" in map(dotted, node.decorator_list)


def names_say_something(source: Source) -> Iterator[str]:
    """No module has a name that fits every module."""
    vague = VAGUE & set(source.names)
    if vague and source.path not in BACKENDS:
        yield f"1: {', '.join(sorted(vague))} says nothing about what is inside"


def tests_do_not_sleep(source: Source) -> Iterator[str]:
    """A test waits for the event itself."""
    if source.within("tests/"):
        for call, called in source.calls:
            if called == "time.sleep":
                yield f"{call.lineno}: sleeps instead of waiting for what it needs"


def git_stands_alone(source: Source) -> Iterator[str]:
    """`apps.git` imports the standard library and itself."""
    if source.within("apps/git/"):
        for line, name in imports(source):
            if name.split(".")[0] not in sys.stdlib_module_names | {"apps"}:
                yield f"{line}: imports {name}"
            if name.startswith("apps.") and not name.startswith("apps.git."):
                yield f"{line}: imports {name}"


MACHINE = (
    re.compile(r"/(?<![\w.]/)(?:work|root|home/\w+|tmp|Users/\w+)/[\w.]"),
    re.compile(r"(?:pypi|pythonhosted|npmjs|crates)\.(?:org|io)\b|index-url\b|piwheels\b"),
)
"""Each begins with a required letter or sign, because it would be slow otherwise."""


def nothing_of_this_machine(source: Source) -> Iterator[str]:
    """No file contains a path of a machine, or the host of a registry."""
    if not any(one.search(source.text) for one in MACHINE):
        return
    for number, line in enumerate(source.text.splitlines(), 1):
        for found in filter(None, (one.search(line) for one in MACHINE)):
            yield f"{number}: names {found[0]}"


# Fields of an input, and parameters of its action


def input_problems(
    text: str, fields: Mapping[str, bool], actions: Mapping[str, Callable[..., Any]]
) -> Iterator[str]:
    """Differences between an input and the action that it feeds.

    `text` is the source of the viewset's method; `fields` are those of the input, with whether each
    is required; `actions` are those of the app by name. A property reaches the action by
    `**self.validated_data`, or the method takes it out by name.
    """
    tree = ast.parse(textwrap.dedent(text))
    called = [call for call in calls(tree) if dotted(call).startswith("actions.")]
    if len(called) != 1:
        yield f"calls {len(called)} actions instead of one"
        return
    parameters = inspect.signature(actions[dotted(called[0])[8:]]).parameters
    given = {keyword.arg for keyword in called[0].keywords}
    taken = set(names_taken(tree))
    spread = {name: needed for name, needed in fields.items() if name not in taken}
    if None not in given:
        yield from (f"drops {name}" for name in spread)
    for name, needed in spread.items():
        if name not in parameters:
            yield f"{name} is no keyword of the action"
        elif not needed and parameters[name].default is inspect.Parameter.empty:
            yield f"{name} may be left out, but the action needs it"
    for name, parameter in parameters.items():
        if parameter.default is inspect.Parameter.empty and name not in {*given, *fields}:
            yield f"the action needs {name}"
    yield from (f"takes {name}, which the input has not" for name in taken - set(fields))


def names_taken(tree: ast.AST) -> Iterator[str]:
    """The properties that a method takes out of its input by name."""
    inputs = {"self.validated_data"}
    for node in ast.walk(tree):
        if isinstance(node, ast.Assign) and "self.validated_data" in ast.unparse(node.value):
            copied = isinstance(node.value, ast.Call) and dotted(node.value) == "dict"
            inputs |= {dotted(target) for target in node.targets} if copied else set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Subscript) and dotted(node.value) in inputs:
            yield ast.literal_eval(node.slice)
    for call in calls(tree):
        receiver, _, name = dotted(call).rpartition(".")
        if name in {"pop", "get"} and receiver in inputs:
            yield ast.literal_eval(call.args[0])
