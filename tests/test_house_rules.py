"""The house rules hold for every file, and each can fail."""

from __future__ import annotations

import argparse
import ast
import inspect
import json
import os
import re
import textwrap
import tomllib
from collections import defaultdict
from collections.abc import Iterator
from functools import cache
from importlib import import_module
from pathlib import Path

import pytest

from tests import house_prose as prose
from tests import house_rules as rules
from tests import house_words as words
from tests.house_rules import Source
from tests.routes import routed

pytestmark = pytest.mark.once

ROOT = Path(__file__).resolve().parent.parent
PYTHON = ("apps", "config", "tests", "bench", "manage.py")
FOLDERS = (".ci", "bin", "deploy", "docs", "templates")
PAPERS = ("README.md", "CHANGELOG.md", "CONTRIBUTING.md", "LICENSE", "pyproject.toml")
TEXTS = (*PYTHON, *FOLDERS, *PAPERS, "requirements.txt", "requirements-dev.txt")
SELF = ("tests/house_rules.py", "tests/house_words.py", "tests/test_house_rules.py")
"""They contain what they forbid."""
EXAMPLES = ROOT / "config/demo/files"
"""The commits of the demo: files of another repository."""


@cache
def python_sources() -> list[Source]:
    found = [source for source in sources(PYTHON) if source.is_python]
    return [source for source in found if "migrations" not in source.names]


@cache
def sources(tops: tuple[str, ...] = TEXTS) -> list[Source]:
    paths = [path for top in tops for path in files(ROOT / top)]
    return [Source(path.relative_to(ROOT).as_posix(), read(path)) for path in paths]


@pytest.fixture(scope="module", autouse=True)
def forgotten_afterwards() -> Iterator[None]:
    """A million nodes would slow the garbage collector down until the end of the run."""
    yield
    python_sources.cache_clear()
    sources.cache_clear()


def files(top: Path) -> Iterator[Path]:
    if top.is_file():
        yield top
    for path in sorted(top.rglob("*")) if top.is_dir() else []:
        if path.suffix == ".png" or "__pycache__" in path.parts or EXAMPLES in path.parents:
            continue
        if path.is_file():
            yield path


def read(path: Path) -> str:
    return path.read_bytes().decode("utf-8", "replace")


ACTIONS = "apps/teams/actions.py"
VIEWS = "apps/teams/views.py"
ANY = "apps/teams/rules.py"
PAGE = "apps/web/settings.py"

RULES = [
    (rules.processes_start_in_one_place, ANY, "import subprocess"),
    (rules.processes_start_in_one_place, ANY, "from subprocess import Popen"),
    (rules.processes_start_in_one_place, "apps/git/repo.py", "os.posix_spawn('git')"),
    (rules.events_are_recorded_in_actions, VIEWS, "from apps.events.record import record"),
    (rules.events_are_recorded_in_actions, VIEWS, "import apps.events.record\nrecord.record()"),
    (rules.events_are_recorded_in_actions, VIEWS, "from apps.events.record import record_all"),
    (rules.events_are_recorded_in_actions, ACTIONS, "Event.objects.create(kind='x')"),
    (rules.actions_are_atomic, ACTIONS, "def retire(*, by): ..."),
    (rules.actions_are_atomic, "apps/pulls/actions/merge.py", "def merge(*, by): ..."),
    (rules.actions_name_their_actor, ACTIONS, "def retire(by, *, team): ..."),
    (rules.actions_name_their_actor, ACTIONS, "def retire(*, team, by): ..."),
    (rules.actions_name_their_actor, ACTIONS, "def retire(*, actor, team): ..."),
    (rules.actions_name_their_actor, ACTIONS, "def retire(*, by, **fields): ..."),
    (rules.record_comes_last, ACTIONS, "def retire(*, by):\n  record(1)\n  team.save()"),
    (rules.record_comes_last, ACTIONS, "def f():\n  if x:\n    record(1)\n  team.save()"),
    (rules.record_comes_last, ACTIONS, "def f():\n  record(1)\n  if x:\n    team.save()"),
    (rules.views_only_ask, VIEWS, "team.save()"),
    (rules.views_only_ask, VIEWS, "Team.objects.create(name='x')"),
    (rules.views_only_ask, VIEWS, "Team.objects.get(pk=1)"),
    (rules.views_only_ask, PAGE, "token.save()"),
    (rules.views_only_ask, "apps/teams/admin.py", "obj.delete()"),
    (rules.views_only_ask, "apps/core/admin.py", "form.instance.save()"),
    (rules.views_only_ask, "apps/teams/queries.py", "team.save()"),
    (rules.views_only_ask, "apps/events/consumers.py", "Event.objects.get(pk=1)"),
    (rules.events_are_recorded_in_actions, PAGE, "from apps.events.record import record"),
    (rules.pages_hold_nothing, PAGE, "class Draft(models.Model): ..."),
    (rules.pages_hold_nothing, "apps/web/models.py", ""),
    (rules.files_and_functions_are_small, ANY, "x = 1\n" * 601),
    (rules.files_and_functions_are_small, "tests/test_x.py", "x = 1\n" * 601),
    (rules.files_and_functions_are_small, ANY, "def f():\n" + "  x = 1\n" * 40),
    (rules.modules_say_what_they_are_for, ANY, "x = 1"),
    (rules.modules_say_what_they_are_for, ANY, '"""1\n2\n3\n4\n5\n6\n"""'),
    (rules.rules_and_actions_are_explained, ACTIONS, "def retire(*, by): ..."),
    (rules.rules_and_actions_are_explained, "apps/teams/access.py", "def open_team(): ..."),
    (rules.rules_and_actions_are_explained, VIEWS, "class TeamViewSet(ApiViewSet): ..."),
    (rules.rules_and_actions_are_explained, VIEWS, "@operation(1)\ndef list(self): ..."),
    (rules.names_say_something, "apps/teams/utils.py", ""),
    (rules.names_say_something, "apps/common/models.py", ""),
    (rules.tests_do_not_sleep, "tests/test_x.py", "time.sleep(1)"),
    (rules.git_stands_alone, "apps/git/repo.py", "from django.conf import settings"),
    (rules.git_stands_alone, "apps/git/repo.py", "from apps.repos.models import Repo"),
    (rules.nothing_of_this_machine, "README.md", "cd " + "/work/main"),
    (rules.nothing_of_this_machine, "requirements.txt", "--" + "index-url https://example.org"),
    (words.no_old_words, ANY, "from apps.teams import doors"),
    (words.no_old_words, ANY, "self.params['name']"),
    (words.no_old_words, "docs/pages.md", "The door of each page."),
    (words.no_reference_to_what_is_absent, ANY, '"""As behaviour.md says."""'),
    (words.no_reference_to_what_is_absent, "docs/pulls.md", "See trap 14."),
    (words.no_reference_to_what_is_absent, "docs/pulls.md", "See §3."),
    (words.referred_files_exist, ANY, '"""See docs/absent.md."""'),
    (words.referred_files_exist, "docs/pulls.md", "See [the API](absent.md)."),
    (words.referred_files_exist, "docs/pulls.md", "Done in `apps/pulls/absent.py`."),
    (words.linked_headings_exist, "docs/pulls.md", "See [tokens](api.md#no-such-heading)."),
    (words.linked_headings_exist, "docs/pulls.md", "# Pulls\n\nSee [below](#no-such-heading)."),
    (words.nothing_private_of_others, ANY, "request._request"),
    (words.nothing_private_of_others, ANY, "getattr(request, '_request')"),
    (words.nothing_private_of_others, ANY, "from django.db.models import _private"),
    (words.nothing_private_of_others, "bench/api.py", "import gunicorn._private"),
    (words.accesses_are_granted_in_one_place, VIEWS, "TeamAccess(principal, team, Level.OWNER)"),
    (words.accesses_are_granted_in_one_place, "config/demo.py", "access.RepoAccess(1, 2)"),
    (words.views_list_by_queries, VIEWS, "def list(self):\n  return Team.objects.all()"),
    (words.queries_are_filtered, "apps/teams/queries.py", "def list_teams(principal): ..."),
]
PROSE_COUNTS = ROOT / "tests/prose_counts.json"
ALL = dict.fromkeys(rule for rule, _, _ in RULES)
OF_TEXTS = {rules.nothing_of_this_machine, words.no_old_words, words.no_reference_to_what_is_absent}
OF_TEXTS |= {words.referred_files_exist, words.linked_headings_exist}


@pytest.mark.parametrize("rule", ALL, ids=lambda rule: rule.__name__)
def test_the_house_rule_holds_everywhere(rule):
    looked_at = python_sources()
    if rule in OF_TEXTS:
        looked_at = [one for one in sources() if one.path not in SELF]
    problems = [f"{source.path}:{problem}" for source in looked_at for problem in rule(source)]
    assert not problems, "\n" + "\n".join(problems)


def test_no_folder_has_more_riddles_than_before():
    """Counts only go down: `REWRITE=1` writes lower ones. A folder without a count has none."""
    stored: dict[str, int] = json.loads(read(PROSE_COUNTS))
    problems = defaultdict[str, list[str]](list)
    for source in python_sources():
        found = [f"{source.path}:{problem}" for problem in prose.plain_prose(source)]
        problems[prose.folder_of(source.path)] += found
    counts = {folder: len(found) for folder, found in problems.items() if found}
    more = [folder for folder in counts if counts[folder] > stored.get(folder, 0)]
    lines = [f"{folder}: {counts[folder]}, not {stored.get(folder, 0)}" for folder in more]
    lines += [line for folder in more for line in problems[folder]]
    assert not more, "\n" + "\n".join(lines)
    if os.environ.get("REWRITE"):
        PROSE_COUNTS.write_text(json.dumps(counts, indent=1, sort_keys=True) + "\n")
    else:
        assert counts == stored, "There are fewer now: run this test with REWRITE=1."


@pytest.mark.parametrize(
    ("text", "problems"),
    [
        ('"""What a form needs."""', 1),
        ('"""Whoever says this has asked."""', 1),
        ("# who asks first\nx = 1  # Who asks first", 1),
        ('"""That of the first."""\nx = 1\n"""What x is, or so."""', 2),
        ('"""A list that cannot be narrowed so."""', 1),
        ("# Seen so,\n# it is the\n# same as.", 1),
        ('"""Hidden fields of a form. Whatever it does, it says so."""', 0),
        ('"""The same as above, so that it ends."""', 0),
    ],
)
def test_riddles_are_counted_in_docstrings_and_comments(text, problems):
    assert len([*prose.plain_prose(Source(ANY, text))]) == problems


@pytest.mark.parametrize(("rule", "path", "text"), RULES)
def test_the_house_rule_catches_its_bad_example(rule, path, text):
    assert list(rule(Source(path, text)))


def test_no_class_overrides_or_uses_what_a_class_of_others_keeps_private():
    problems = [
        f"{source.path}:{problem}"
        for source in python_sources()
        if source.within("apps/", "config/")
        for node in source.tree.body
        if isinstance(node, ast.ClassDef)
        for problem in words.private_members_taken_over(getattr(module_of(source), node.name), node)
    ]
    assert not problems, "\n" + "\n".join(problems)


def module_of(source):
    return import_module(".".join(source.names).removesuffix(".__init__"))


class Retired(argparse.ArgumentParser):
    pass


@pytest.mark.parametrize(
    "text",
    [
        "def _check_value(self): ...",
        "_get_values = None",
        "def parse(self):\n  self._check_value(1, 2)",
        "def parse(self):\n  super()._check_value(1, 2)",
        "def __init__(self):\n  self._positionals = None",
    ],
)
def test_a_class_that_does_so_is_caught(text):
    body = ast.parse("class Retired:\n" + textwrap.indent(text, " ")).body[0]
    assert isinstance(body, ast.ClassDef)
    assert list(words.private_members_taken_over(Retired, body))


def test_every_routed_method_declares_its_operation():
    undeclared = [one for one in routed() if not hasattr(one.function, "operation")]
    assert not undeclared


@pytest.mark.parametrize("one", [one for one in routed() if one.request], ids=str)
def test_an_input_fits_its_action(one):
    module = import_module(one.viewset.__module__)
    fields = {name: field.required for name, field in one.request().fields.items()}
    text = inspect.getsource(one.function)
    assert not list(rules.input_problems(text, fields, vars(module.actions)))


def rename(*, access, team, name, slug=None): ...


@pytest.mark.parametrize(
    ("arguments", "fields"),
    [
        ("**self.validated_data", {"name": True, "color": True}),
        ("**self.validated_data", {"name": False}),
        ("**self.validated_data", {}),
        ("name=self.validated_data['name']", {"name": True, "slug": True}),
        ("name=self.validated_data['title']", {"name": True}),
        ("name='x'", {"name": True}),
    ],
)
def test_an_input_that_does_not_fit_is_caught(arguments, fields):
    text = f"actions.rename(access=self.access, team=self.team, {arguments})"
    assert list(rules.input_problems(text, fields, {"rename": rename}))


@pytest.mark.parametrize("text", ["pass", "actions.rename()\nactions.rename()"])
def test_a_method_that_does_not_call_one_action_is_caught(text):
    assert list(rules.input_problems(text, {"name": True}, {"rename": rename}))


@pytest.mark.parametrize(
    ("text", "fields"),
    [
        ("actions.rename(access=a, team=t, **self.validated_data)", {"name": True, "slug": False}),
        ("actions.rename(access=a, team=t, **self.validated_data)", {"name": True}),
        ("actions.rename(access=a, team=t, name=self.validated_data['name'])", {"name": True}),
        (
            "sent = dict(self.validated_data)\n"
            "team = find(sent.pop('team', None))\n"
            "actions.rename(access=a, team=team, **sent)",
            {"name": True, "team": False},
        ),
    ],
)
def test_an_input_that_fits_is_left_alone(text, fields):
    assert not list(rules.input_problems(text, fields, {"rename": rename}))


@pytest.mark.parametrize("exception", [*rules.NOT_ATOMIC, *rules.FACTS], ids=str)
def test_an_exception_from_a_rule_is_still_there(exception):
    path, _, name = exception.partition(":")
    source = next(one for one in python_sources() if one.path == path)
    assert name in [function.name for function in rules.functions(source)]


def test_the_whole_tree_is_looked_at():
    seen = {source.path for source in python_sources()}
    assert {"manage.py", "apps/core/views.py", "config/api.py", "tests/conftest.py"} <= seen
    assert all(source.is_python for source in python_sources())


def test_the_picture_of_the_layers_has_those_that_are_checked():
    contracts = tomllib.loads(read(ROOT / "pyproject.toml"))["tool"]["importlinter"]["contracts"]
    [between] = [one for one in contracts if one["name"] == "Layers between apps"]
    drawn = re.findall(r'class="layer"[^>]*>(\w+)<', read(ROOT / "docs/pictures/layers.svg"))
    assert drawn == ["config", *between["layers"]]
