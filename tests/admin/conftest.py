"""`staff` is sam at the admin's pages; `visit(bob)` somebody else."""

from __future__ import annotations

from typing import Any

import pytest

from apps.accounts.models import User
from tests.web.page_client import PageClient


@pytest.fixture
def visit(db: None) -> Any:
    return PageClient


@pytest.fixture
def staff(sam: User) -> PageClient:
    return PageClient(sam)
