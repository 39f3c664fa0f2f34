"""`visit(alice)` is a client for the pages, signed in as alice; `visit()` is not signed in."""

from collections.abc import Iterator
from typing import Any

import pytest

from apps.accounts.models import User
from apps.accounts.openid import provider as openid_provider
from apps.repos.models import Repo
from apps.site.models import SiteSettings
from tests.browse.code import Code, code_of
from tests.by_actions import MakeByActions
from tests.factories import UserFactory
from tests.openid_provider import CLIENT_ID, CLIENT_SECRET, Provider
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


@pytest.fixture
def provider(settings: Any, db: None) -> Iterator[Provider]:
    """A small OpenID provider, by which this site signs people in."""
    openid_provider.provider.cache_clear()
    SiteSettings.load()
    SiteSettings.objects.update(signups_require_invite=False)
    with Provider() as running:
        settings.OIDC_ISSUER, settings.OIDC_NAME = running.issuer, "Example SSO"
        settings.OIDC_CLIENT_ID, settings.OIDC_CLIENT_SECRET = CLIENT_ID, CLIENT_SECRET
        backend = "apps.accounts.openid.backend.OpenIdBackend"
        settings.AUTHENTICATION_BACKENDS = [*settings.AUTHENTICATION_BACKENDS, backend]
        settings.ROOT_URLCONF = "tests.web.openid_urls"
        yield running
