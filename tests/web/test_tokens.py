"""`/settings/tokens`: tokens are created, shown once, and revoked."""

import datetime as dt
import re

from django.utils import timezone

from apps.accounts.models import TOKEN_PREFIX, ApiToken
from tests.api import Api

PATH = "/settings/tokens"


def test_a_token_is_shown_once_and_works(visit, ada, events):
    person = visit(ada)
    with events("token-created"):
        made = person.post(PATH, name="laptop", expires_at="90 days").gives(201)
    text = re.findall(rf'value="({TOKEN_PREFIX}\w+)"', made.html)
    assert len(text) == 1 and made.header("Cache-Control") == "no-store"
    again = person.get(PATH)
    assert text[0] not in again.html and again.header("Cache-Control") == "no-store"
    assert "laptop" in again.text and "expires" in again.text
    assert Api(text[0]).get("/api-tokens/self").gives()["name"] == "laptop"


def test_a_token_without_a_name_or_with_an_invalid_expiry_is_refused_and_keeps_what_was_typed(
    visit, ada, events
):
    person = visit(ada)
    with events():
        page = person.post(PATH, name=" ", expires_at="30 days").gives(422)
        assert page.alert() == "Name : This field is required."
        assert 'value="30 days" selected' in page.html
        assert "x" * 256 in person.post(PATH, name="x" * 256).gives(422).value("name")
        person.post(PATH, name="laptop", expires_at="3 fortnights").gives(422)
        person.post(PATH, name="lap\0top").gives(422)
    assert page.header("Cache-Control") == "no-store"


def test_a_token_expires_when_the_form_says(visit, ada):
    for chosen, days in {"30 days": 30, "90 days": 90, "1y": 365.25}.items():
        visit(ada).post(PATH, name=chosen, expires_at=chosen).gives(201)
        end = timezone.now() + dt.timedelta(days=days)
        around = (end - dt.timedelta(minutes=1), end)
        assert ApiToken.objects.filter(name=chosen, expires_at__range=around).exists()
    visit(ada).post(PATH, name="never", expires_at="").gives(201)
    assert ApiToken.objects.get(name="never").expires_at is None


def test_revoking_asks_first_and_ends_the_token(visit, make, ada, events):
    text = make.token(ada)
    path = f"{PATH}/{ada.tokens.get().uuid}/revoke"
    person = visit(ada)
    with events():
        assert person.get(path).gives().h1 == "Revoke tests?"
    with events("token-revoked"):
        person.post(path).redirects_to(PATH)
    with events():
        person.post(path).redirects_to(PATH)
    assert "Token tests revoked." in person.get(PATH).text
    Api(text).get("/api-tokens/self").fails(401, "invalid_token")


def test_nobody_reaches_the_tokens_of_others_here_not_even_staff(visit, make, ada, alice, sam):
    path = f"{PATH}/{ada.tokens.get().uuid}/revoke"
    for other in (alice, sam):
        visit(other).get(path).gives(404)
        visit(other).post(path).gives(404)
        assert ada.tokens.get().token_prefix not in visit(other).get(PATH).text
    visit(ada).get(f"{PATH}/{ada.uuid}/revoke").gives(404)
    assert ada.tokens.get().revoked_at is None


def test_many_tokens_come_on_several_pages(visit, ada):
    ApiToken.objects.bulk_create(
        ApiToken(user=ada, name=f"number {n}", digest=f"{n}") for n in range(60)
    )
    person = visit(ada)
    first = person.get(PATH)
    assert first.html.count("number ") and f'href="{PATH}?page=2"' in first.html
    second = person.get(f"{PATH}?page=2").gives()
    assert "tests" in second.text and f'href="{PATH}?page=1"' in second.html
    person.get(f"{PATH}?page=x").gives(422)


def test_hostile_names_are_shown_as_text(visit, ada):
    name = '"><script>alert(1)</script>'
    page = visit(ada).post(PATH, name=name, expires_at="").gives(201)
    path = f"{PATH}/{ada.tokens.get(name=name).uuid}/revoke"
    for shown in (page, visit(ada).get(path)):
        assert name in shown.text and "<script>" not in shown.html


def test_an_invalid_page_number_is_refused_before_a_token_is_made(visit, ada, events):
    """A new token would be lost: only the response that creates it shows it."""
    with events():
        visit(ada).post("/settings/tokens?page=x", name="laptop", expires_at="1y").gives(422)
