"""docs/events.md describes each kind of event like its schema and its events."""

from __future__ import annotations

import re
from typing import Any

import pytest

from apps.events.kinds import Kind
from apps.events.models import Event
from apps.events.serializers import event_records
from apps.repos.protection_rules import SETTINGS
from config.openapi.events import SHAPES
from tests.server import ROOT

PAGE = (ROOT / "docs" / "events.md").read_text()
ROW = re.compile(r"^\| (`[a-z-]+-[a-z-]+`[^|]*) \| ([^|]*)\| ([^|]*)\| ([^|]*)\|$", re.MULTILINE)


SETTINGS_WORD = "the settings"
"""Stands on the page for the settings of all protection rules."""


def words(cell: str) -> set[str]:
    named = {*re.findall(r"`([a-z_-]+)`", cell)}
    return named | {*SETTINGS} if SETTINGS_WORD in cell else named


def documented() -> dict[str, tuple[set[str], set[str], set[str]]]:
    """The fields of the target and data of each kind, and the forms of its event scopes."""
    rows = [[words(cell) for cell in row] for row in ROW.findall(PAGE)]
    return {kind: (target, data, forms) for kinds, target, data, forms in rows for kind in kinds}


def test_every_kind_stands_on_the_page_once_and_no_other():
    named = [kind for kinds, *_ in ROW.findall(PAGE) for kind in words(kinds)]
    assert sorted(named) == sorted(Kind)


def test_the_page_has_the_fields_of_every_kind():
    described = {}
    for kind in Kind:
        target, data = SHAPES[kind]
        described[str(kind)] = ({*target().fields}, {*data().fields} if data else set())
    assert {kind: (target, data) for kind, (target, data, _) in documented().items()} == described


@pytest.mark.django_db
def test_events_are_in_the_scopes_that_the_page_names(sample):
    """The sample data has events of most kinds."""
    table, checked = documented(), set()
    for event in event_records(Event.objects.all().rows(), ""):
        actual = forms(event)
        _, _, named = table[event["kind"]]
        assert actual <= named, event
        checked.add(event["kind"])
    assert len(checked) >= 9


def forms(event: dict[str, Any]) -> set[str]:
    return {scope.partition(":")[0] for scope in event["scopes"]} - {"user"}
