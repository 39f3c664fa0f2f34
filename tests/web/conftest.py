"""`visit(alice)` is a client for the pages, signed in as alice; `visit()` is not signed in."""

from typing import Any

import pytest

from apps.accounts.models import User
from apps.repos.models import Repo
from tests.browse.code import Code, code_of
from tests.by_actions import MakeByActions
from tests.factories import UserFactory
from tests.web.page_client import PASSWORD, PageClient


@pytest.fixture
def visit(db: None) -> Any:
    return PageClient


@pytest.fixture
def ada(make: MakeByActions) -> User:
    """A person with a password and an e-mail address."""
    ada = UserFactory.create(username="Ada", clear_password=PASSWORD, email="ada@example.org")
    return make.with_token(ada)


@pytest.fixture
def code(team_repo: Repo) -> Code:
    return code_of(team_repo)


@pytest.fixture
def root(team_repo: Repo) -> str:
    return f"/{team_repo.path}"
