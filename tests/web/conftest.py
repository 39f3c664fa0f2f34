"""`visit(alice)` is a client for the pages, signed in as alice; `visit()` is not signed in."""

from __future__ import annotations

from typing import Any

import pytest

from apps.accounts.models import User
from tests.make import Make
from tests.web.page_client import PASSWORD, PageClient


@pytest.fixture
def visit(db: None) -> Any:
    return PageClient


@pytest.fixture
def ada(make: Make) -> User:
    """Somebody with a password and an e-mail address."""
    return make.user("Ada", password=PASSWORD, email="ada@example.org")
