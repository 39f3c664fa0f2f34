"""Each rule of protections is complete, and a merge checks all of them."""

from __future__ import annotations

import pytest

from apps.core.refusals import CODES
from apps.pulls import approval
from apps.repos.models import Protection
from apps.repos.protection_rules import RULES, SETTINGS
from tests.pulls import paths


class HeadBuilt:
    """A rule like commit statuses: it depends on the head commit alone."""

    code = "approval_required"
    settings = ()
    met = remedy = ""

    def __init__(self) -> None:
        self.built: set[str | None] = set()

    def blocks(self, candidate):
        return None if candidate.head_sha in self.built else "The head has not been built."


@pytest.fixture
def rule(monkeypatch):
    rule = HeadBuilt()
    monkeypatch.setattr(approval, "RULES", (*RULES, rule))
    return rule


def test_another_rule_blocks_the_merge_until_it_is_satisfied(api, make, pull, alice, bob, rule):
    make.protection(pull.repo, by=alice)
    make.review(pull, by=bob)

    def read():
        return api(alice).get(f"{paths.pull(pull)}/protection").gives()

    assert read()["blocked_reasons"] == ["approval_required"] and not read()["is_mergeable"]
    said = api(alice).post(f"{paths.pull(pull)}/merge").fails(409, "approval_required")
    assert said == "The head has not been built."
    rule.built.add(pull.head_sha)
    assert read()["blocked_reasons"] == []
    api(alice).post(f"{paths.pull(pull)}/merge").gives()


def test_no_rule_is_asked_without_a_protection(api, pull, alice, rule):
    api(alice).post(f"{paths.pull(pull)}/merge").gives()


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.code)
def test_each_rule_has_a_documented_code_and_texts_for_pages(rule):
    assert CODES[rule.code][0] == 409
    assert rule.met and rule.remedy


@pytest.mark.parametrize("name", SETTINGS)
def test_each_setting_is_a_column_with_its_default_and_a_sentence(name):
    assert getattr(Protection(), name) == SETTINGS[name].default
    assert SETTINGS[name].description.endswith(".")
