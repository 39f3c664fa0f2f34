"""Repositories themselves depend on their owner: names, lists, constraints."""

from __future__ import annotations

import pytest

from apps.accounts.models import User
from apps.repos.models import Repo
from tests.by_actions import MakeByActions
from tests.conftest import repo_below


@pytest.fixture(params=["team", pytest.param("user", marks=pytest.mark.slow)])
def repo(request: pytest.FixtureRequest, make: MakeByActions, alice: User) -> Repo:
    """As everywhere, but CI tries both owners on both databases."""
    return repo_below(request, make, alice)
