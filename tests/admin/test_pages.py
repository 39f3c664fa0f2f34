"""All pages of the admin with rows of all kinds: they open, show no secrets and delete nothing."""

import re

import pytest
from django.conf import settings
from django.contrib import admin
from django.contrib.admin.models import LogEntry
from django.urls import NoReverseMatch

from apps.accounts.actions import create_invite
from apps.accounts.models import ApiToken, User
from apps.core.admin import StaffAdmin
from apps.core.durations import parse_future
from apps.events.models import Event
from apps.site.actions import create_rate_limit
from apps.threads.models import Reply, Thread
from tests.admin.urls import admin_url, all_urls, registered, row_url
from tests.factories import ForkFactory
from tests.principals import principal_of
from tests.test_queries import webhook_by
from tests.web.page_client import PageClient

MODELS = [(model, admin.site.get_model_admin(model)) for model in registered()]


@pytest.fixture(scope="module")
def filled(sample):
    """The sample data with at least one row of each model in the admin, shared by these tests."""
    actor = sample.people["sam"]
    create_invite(
        principal=principal_of(actor), expires_at=parse_future("1 day"), email="eve@example.org"
    )
    create_rate_limit(
        principal=principal_of(actor), scope="write", max_requests=5, window_seconds=60
    )
    ForkFactory.create(
        upstream=sample.repos["team", "public"], owner=sample.alice, created_by=sample.alice
    )
    webhook_by(sample.alice, team=sample.acme)
    User.objects.filter(pk=sample.alice.pk).update(password="md5$salt$hashed")
    return sample


@pytest.fixture
def full(filled, db):
    """The sample data for one test, whose changes are rolled back."""
    return filled


@pytest.fixture(scope="module")
def pages(filled):
    """All pages by URL, each opened once by staff."""
    staff = PageClient(filled.people["sam"])
    return {path: staff.get(path) for path in all_urls()}


def test_every_page_opens(full, pages):
    for path, page in pages.items():
        assert page.status in {200, 302}, path
        assert "no-store" in page.header("Cache-Control"), path
        assert not re.search(r"object \(\d+\)", page.html), path


def test_no_page_shows_a_secret(full, pages):
    secrets = {*full.make.tokens.values(), "md5$salt$hashed", settings.SECRET_KEY}
    secrets |= {*ApiToken.objects.values_list("digest", flat=True)}
    secrets |= {*User.objects.exclude(password="").values_list("password", flat=True)}
    for path, page in pages.items():
        assert not [secret for secret in secrets if secret in page.html], path
        assert not re.search(r"name=\"(password|digest)\"", page.html), path


def test_nothing_is_deleted_or_logged_except_by_the_actions(full):
    staff = PageClient(full.people["sam"])
    for model, pages in MODELS:
        assert isinstance(pages, StaffAdmin)
        row = model._default_manager.first()
        if row is None:
            continue
        for page in ("delete", "history"):
            with pytest.raises(NoReverseMatch):
                admin_url(model, page, row.pk)
            assert staff.post(f"{admin_url(model)}{row.pk}/{page}/", post="yes").status == 404
        before = model._default_manager.count()
        staff.post(admin_url(model), action="delete_selected", _selected_action=row.pk, post="yes")
        assert model._default_manager.count() == before
    assert not LogEntry.objects.exists()


@pytest.mark.parametrize("model", [Event, Thread, Reply, ApiToken])
def test_a_read_only_page_accepts_no_change(model, full):
    staff, row = PageClient(full.people["sam"]), model.objects.first()
    assert 'name="_save"' not in staff.get(row_url(row)).gives().html
    before = model.objects.filter(pk=row.pk).values().get()
    staff.post(row_url(row), kind="x", body="x", title="x", name="x").gives(403)
    assert model.objects.filter(pk=row.pk).values().get() == before


def test_nobody_else_opens_a_page_or_does_anything(full, events):
    bob, ina = (PageClient(full.people[name]) for name in ("bob", "ina"))
    lists = {admin_url(model) for model, _ in MODELS}
    routes = {re.sub(r"/\d+/", "/1/", path): path for path in all_urls()}  # one row is enough
    with events():
        for path in routes.values():  # an inactive user gets the same refusal on all pages
            for person in (PageClient(), bob, *([ina] if path in lists else [])):
                for page in (person.get(path), person.post(path, name="x", display_name="x")):
                    assert page.status == 302, path
                    assert page.header("Location").startswith("/admin/login/?next="), path


ODD = ["%25", "_", "'", '"', "\\", "%00", "#", "a%23b", "9" * 400, "teams//", "users/x/", "ght_"]
ODD += ["-", "user:", "%C4%B0", "%F0%9F%98%80", "teams/a%23%C2%B2"]
ODD += [f"thread:teams/acme/public/{'9' * 30}"]
QUESTIONS = [*(f"q={odd}" for odd in ODD), "p=0", "p=x", "p=99999999999999999999", "o=1.-2"]


@pytest.mark.slow
@pytest.mark.parametrize("path", [admin_url(model) for model, _ in MODELS])
def test_odd_queries_break_no_list(path, full, monkeypatch):
    monkeypatch.setattr(StaffAdmin, "list_per_page", 5)  # several pages, also short ones
    staff = PageClient(full.people["sam"])
    for question in QUESTIONS:
        assert staff.get(f"{path}?{question}").status in {200, 302}, question
    for word in ("status", "kind", "state", "account", "staff", "visibility"):
        assert staff.get(f"{path}?{word}=nothing").status in {200, 302, 400}, word


@pytest.mark.parametrize(
    ("model", "question"),
    [
        (User, "password__startswith=md5"),
        (User, "tokens__digest__startswith=0"),
        (ApiToken, "digest__startswith=0"),
        (ApiToken, "user__password__contains=a"),
        (Event, "actor__password__regex=a"),
        (Thread, "created_by__password__gt=a"),
    ],
)
def test_no_filter_tells_a_secret_bit_by_bit(model, question, full):
    staff = PageClient(full.people["sam"])
    staff.get(f"{admin_url(model)}?{question}").gives(400)
    for field in ("digest", "password"):
        staff.get(f"{admin_url(model)}?_to_field={field}&_popup=1").gives(400)


def test_a_list_has_one_order(full):
    staff = PageClient(full.people["sam"])
    usual, asked = (staff.get(admin_url(User) + query).html for query in ("", "?o=1"))
    names = [re.findall(r'change/[^"]*">(\w+)</a>', html) for html in (usual, asked)]
    assert names[0] == names[1] and names[0][0] == "sam"
