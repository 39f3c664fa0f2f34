"""`visit(alice)` looks at pages as alice, `visit()` as nobody; `ada` has a password."""

from __future__ import annotations

from typing import Any

import pytest

from apps.accounts.models import User
from tests.make import Make
from tests.web.visitor import PASSWORD, Visitor


@pytest.fixture
def visit(db: None) -> Any:
    return Visitor


@pytest.fixture
def ada(make: Make) -> User:
    """Somebody with a password and an e-mail address."""
    return make.user("Ada", password=PASSWORD, email="ada@example.org")
