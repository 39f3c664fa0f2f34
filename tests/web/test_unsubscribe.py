"""E-mail about pings: turned on at `/settings`, turned off there or by the link in each mail."""

from __future__ import annotations

from urllib.parse import urlencode

import pytest

from apps.accounts.actions import deactivate_user
from apps.accounts.models import User
from apps.accounts.proofs import address_proof, unsubscribe_proof
from tests.principals import principal_of
from tests.web.page_client import PageClient


def link(person):
    return f"/unsubscribe?{urlencode({'token': unsubscribe_proof(person)})}"


@pytest.fixture
def told(ada, settings):
    """ada, who gets mail about pings."""
    settings.SENDS_MAIL = True
    User.objects.filter(pk=ada.pk).update(wants_mail=True)
    return ada


def wants(person):
    return User.objects.get(pk=person.pk).wants_mail


def test_mail_is_off_until_somebody_asks_for_it(visit, ada, settings, events):
    person = visit(ada)
    assert 'name="wants_mail"' not in person.get("/settings").html
    settings.SENDS_MAIL = True
    page = person.get("/settings")
    assert "wants_mail" not in page.inputs() and not wants(ada)
    with events("user-updated") as recorded:
        person.post("/settings", **page.inputs(), wants_mail="on").redirects_to("/settings")
    assert wants(ada) and recorded[0].data == {"changed": ["wants_mail"], "before": {}, "after": {}}
    ticked = person.get("/settings").inputs()
    assert ticked.pop("wants_mail") == "on"
    person.post("/settings", **ticked).redirects_to("/settings")
    assert not wants(ada)


def test_a_page_without_the_choice_leaves_it_as_it_is(visit, told, settings):
    person = visit(told)
    settings.SENDS_MAIL = False
    person.post("/settings", **person.get("/settings").inputs()).redirects_to("/settings")
    assert wants(told)


def test_the_link_ends_the_mail_by_its_button_and_never_by_being_opened(visit, told, events):
    stranger = visit()
    with events():
        for _ in range(2):
            page = stranger.get(link(told)).gives()
            assert page.header("Cache-Control") == "no-store"
        stranger.client.head(link(told))
    assert wants(told)
    with events("user-updated"):
        done = stranger.post("/unsubscribe", token=page.value("token")).gives(200)
    assert "no more e-mail" in done.h1 and not wants(told)
    with events():
        stranger.post(link(told)).gives(200)


def test_a_provider_ends_it_with_one_request_that_has_no_token_of_ours(told):
    provider = PageClient(strict=True)
    body = {"List-Unsubscribe": "One-Click"}
    provider.post(link(told), {"Origin": "https://mail.example.org"}, **body).gives(200)
    assert not wants(told)


def test_the_link_works_whoever_is_signed_in_and_for_its_person_alone(visit, told, alice):
    User.objects.filter(pk=alice.pk).update(wants_mail=True)
    visit(alice).post(link(told)).gives(200)
    assert not wants(told) and wants(alice)
    User.objects.filter(pk=told.pk).update(wants_mail=True)
    visit(alice).post(link(told)).gives(200)
    assert not wants(told)


def test_another_text_is_no_link(visit, told, sam, events):
    with events():
        for text in ("", "x", link(told)[:-1], address_proof(told, "ada@example.org")):
            address = text if text.startswith("/") else f"/unsubscribe?{urlencode({'token': text})}"
            for answer in (visit().get(address), visit().post(address)):
                answer.gives(404)
    assert wants(told)
    deactivate_user(principal=principal_of(sam), user=told)
    visit().post(link(told)).gives(404)
