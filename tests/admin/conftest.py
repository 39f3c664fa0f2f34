"""`staff` is a client for the pages, signed in as sam, a member of staff; `visit(bob)` as bob."""

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
