"""`/settings`: account, appearance, tokens, and e-mail about pings with the link that ends it."""

import datetime as dt
import re
from urllib.parse import quote, urlencode

import pytest
from django.utils import timezone

from apps.accounts import actions
from apps.accounts.actions import deactivate_user
from apps.accounts.models import DISPLAY_NAME_MAX, TOKEN_PREFIX, ApiToken, User
from apps.accounts.proofs import address_proof, unsubscribe_proof
from tests.api import Api
from tests.factories import UserFactory
from tests.principals import principal_of
from tests.web.page_client import PASSWORD, PageClient
from tests.web.test_signin import link_in, mails

NEW = "lovelace@example.org"


@pytest.fixture
def named(ada, settings):
    """ada with the name that `save` sends, on a site that sends mail."""
    settings.SENDS_MAIL = True
    ada.display_name = "Ada L."
    ada.save()


def save(person, **changed):
    fields = {"display_name": "Ada L.", "email": "ada@example.org", "current": ""} | changed
    return person.post("/settings", **fields)


def test_a_name_is_changed_without_the_password(visit, ada, events):
    person = visit(ada)
    with events():
        assert "x" * 101 in save(person, display_name="x" * (DISPLAY_NAME_MAX + 1)).gives(422).html
    with events("user-updated"):
        save(person).redirects_to("/settings")
    with events():
        save(person).redirects_to("/settings")
    shown = person.get("/settings")
    assert shown.value("display_name") == "Ada L." and "Account saved" in shown.text
    assert "Ada L." in person.get("/users/ada").h1


def test_letters_that_look_alike_are_another_address(visit, ada, named):
    """U+212A is the Kelvin sign; its lower case is a small k."""
    User.objects.filter(pk=ada.pk).update(email="kevin@example.org", email_key="kevin@example.org")
    person = visit(ada)
    for address in ("\u212aevin@example.org", "Kevin@example.org"):
        assert "Wrong password" in save(person, email=address).gives(422).alert()
    assert User.objects.get(pk=ada.pk).email == "kevin@example.org"


@pytest.mark.parametrize("address", [NEW, ""])
def test_an_address_is_changed_with_the_password_only(visit, ada, named, events, address):
    person = visit(ada)
    with events():
        for wrong in ("", "wrong"):
            page = save(person, email=address, current=wrong).gives(422)
            assert "Wrong password" in page.alert() and page.value("email") == address
    assert not mails()
    with events(*([] if address else ["user-updated"])):
        save(person, email=address, current=PASSWORD).redirects_to("/settings")
    assert person.get("/settings").value("email") == ("ada@example.org" if address else "")
    assert [message.to for message in mails()] == ([[address]] if address else [])


def test_an_address_is_the_accounts_when_its_link_is_opened_there(visit, ada, alice, named, events):
    person = visit(ada)
    save(person, email=NEW, current=PASSWORD).redirects_to("/settings")
    link = link_in(mails()[0])
    with events():
        visit().get(link).redirects_to(f"/signin?next={quote(link)}", 302)
        assert "another account" in visit(alice).get(link).gives(404).text
        page = person.get(link).gives(200)
        assert NEW in page.text and page.header("Cache-Control") == "no-store"
        assert person.get("/settings").value("email") == "ada@example.org"
        for wrong in (link[:-1], "/settings/email", "/settings/email?token=\0"):
            person.get(wrong).gives(404)
    with events("user-updated"):
        person.post("/settings/email", token=page.value("token")).redirects_to("/settings")
    shown = person.get("/settings")
    assert shown.value("email") == NEW and "address confirmed" in shown.text
    person.get(link).gives(404)
    person.post("/settings/email", token=page.value("token")).gives(404)


def test_the_page_says_the_same_whether_the_address_is_known_or_not(visit, ada, named, events):
    UserFactory.create(username="bob", email="bob@example.org")
    person, said = visit(ada), []
    with events():
        for address in ("nobody@example.org", "BOB@example.org"):
            save(person, email=address, current=PASSWORD).redirects_to("/settings")
            shown = person.get("/settings").text
            assert f"sent a link to {address}" in shown
            said.append(shown.replace(address, "…"))
        assert said[0] == said[1]
        assert [message.to for message in mails()] == [["nobody@example.org"], ["BOB@example.org"]]
        link = link_in(mails()[1])
        page = person.post("/settings/email", token=person.get(link).value("token"))
        assert "Another account" in page.gives(422).alert()
    assert person.get("/settings").value("email") == "ada@example.org"


def test_where_no_mail_is_sent_the_page_says_so(visit, ada, named, settings):
    settings.SENDS_MAIL = False
    person = visit(ada)
    save(person, email=NEW, current=PASSWORD).redirects_to("/settings")
    assert "sends no e-mail" in person.get("/settings").text


def test_a_text_that_is_no_address_is_refused_at_its_field(visit, ada, events):
    with events():
        page = save(visit(ada), email="nonsense", current=PASSWORD).gives(422)
    assert 'href="#id_email"' in page.html and page.value("email") == "nonsense"
    assert not mails()


def test_the_address_is_shown_to_its_owner_only(visit, ada, alice):
    visit().get("/settings").redirects_to("/signin?next=/settings", 302)
    assert "ada@example.org" in visit(ada).get("/settings").html
    for path in ("/", "/settings"):
        assert "ada@example.org" not in visit(alice).get(path).html


def test_an_old_page_writes_only_what_the_person_has_changed_on_it(visit, ada, sam, named, events):
    person = visit(ada)
    first, second = (person.get("/settings").inputs() for _ in range(2))
    person.post("/settings", **first | {"display_name": "Countess"}).redirects_to("/settings")
    actions.update_user(principal=principal_of(sam), user=ada, email=NEW)
    with events():
        person.post("/settings", **second).redirects_to("/settings")
    with events("user-updated"):
        person.post("/settings", **second | {"email": "", "current": PASSWORD})
    assert User.objects.filter(display_name="Countess", email="").exists()
    assert not mails()


def test_what_was_typed_into_a_form_that_has_grown_old_is_still_a_change(ada, named):
    person = PageClient(ada, strict=True)
    typed = person.get("/settings").inputs() | {"display_name": "Countess"}
    del typed["csrfmiddlewaretoken"]
    ours = {"Sec-Fetch-Site": "same-origin"}
    again = person.post("/settings", headers=ours, **typed).gives(403)
    assert again.value("display_name") == "Countess"
    person.post("/settings", **again.inputs()).redirects_to("/settings")
    assert User.objects.get(pk=ada.pk).display_name == "Countess"


def test_who_is_signed_out_is_shown_what_they_typed_and_nothing_else(visit, ada, named):
    typed = visit(ada).get("/settings").inputs() | {"display_name": "Countess"}
    page = visit().post("/settings", **typed).gives(401)
    assert "Countess" in page.text and "Ada L." not in page.text and "nitial" not in page.text


APPEARANCE = "/settings/appearance"


def look_of(page):
    """The `<html>` tag, without the attributes for drafts."""
    return re.sub(r' data-(user|sent)="[^"]*"', "", "".join(re.findall(r"<html[^>]*>", page.html)))


@pytest.mark.once
def test_an_account_keeps_its_colours_and_shortcuts_in_every_browser(visit, ada, events):
    person = visit(ada)
    assert look_of(person.get("/")) == '<html lang="en">'
    with events():
        assert person.post(APPEARANCE, theme="green").gives(422).alert()
    with events("user-updated") as recorded:
        person.post(APPEARANCE, theme="dark").redirects_to(APPEARANCE)
    assert sorted(recorded[0].data["changed"]) == ["has_shortcuts", "theme"]
    dark = '<html lang="en" data-theme="dark" data-shortcuts="off">'
    for page in (person.get(APPEARANCE), visit(ada).get("/nowhere"), visit(ada).get("/teams")):
        assert look_of(page) == dark
    with events("user-updated"):
        person.post(APPEARANCE, theme="system", has_shortcuts="on").redirects_to(APPEARANCE)
    assert look_of(person.get(APPEARANCE)) == '<html lang="en">'


@pytest.mark.once
def test_a_browser_keeps_the_colours_for_who_is_signed_out(visit, ada, events):
    nobody = visit()
    assert "shortcuts" not in nobody.get(APPEARANCE).gives().text
    with events():
        nobody.post(APPEARANCE, theme="light", has_shortcuts="on").redirects_to(APPEARANCE)
    assert nobody.client.cookies["theme"]["httponly"]
    assert look_of(nobody.get("/signin")) == '<html lang="en" data-theme="light">'
    User.objects.filter(pk=ada.pk).update(theme="dark")
    nobody.sign_in("Ada", PASSWORD)
    assert 'data-theme="dark"' in look_of(nobody.get("/"))
    nobody.post("/signout")
    nobody.post(APPEARANCE, theme="system").redirects_to(APPEARANCE)
    nobody.client.cookies["theme"] = 'x"><script>'
    assert look_of(nobody.get("/")) == '<html lang="en">'


TOKENS = "/settings/tokens"


def test_a_token_is_shown_once_and_works(visit, ada, events):
    person = visit(ada)
    with events("token-created"):
        made = person.post(TOKENS, name="laptop", expires_at="90 days").gives(201)
    text = re.findall(rf'value="({TOKEN_PREFIX}\w+)"', made.html)
    assert len(text) == 1 and made.header("Cache-Control") == "no-store"
    again = person.get(TOKENS)
    assert text[0] not in again.html and again.header("Cache-Control") == "no-store"
    assert "laptop" in again.text and "expires" in again.text
    assert Api(text[0]).get("/api-tokens/self").gives()["name"] == "laptop"


def test_a_token_gets_a_scope_on_the_page(visit, make, ada):
    make.repo(ada, "notes", by=ada)
    person, scope = visit(ada), {"permission": "read", "expires_at": "90 days"}
    refused = person.post(TOKENS, name="x", repo_paths="users/ada/missing", **scope).gives(422)
    assert "users/ada/missing" in refused.alert()
    made = person.post(TOKENS, name="x", repo_paths="users/ada/notes\r\n", **scope).gives(201)
    assert "It reads, only in users/Ada/notes" in made.text
    text = re.findall(rf'value="({TOKEN_PREFIX}\w+)"', made.html)[0]
    record = Api(text).get("/api-tokens/self").gives()
    assert (record["permission"], record["repo_paths"]) == ("read", ["users/Ada/notes"])


def test_the_page_proposes_a_token_that_reads_named_repositories_for_90_days(visit, ada, events):
    person = visit(ada)
    form = person.get(TOKENS).html
    proposed = dict(
        re.findall(r'<input type="radio" name="(\w+)" value="(\w+)"[^>]* checked', form)
    )
    proposed |= dict(
        re.findall(r'<select name="(\w+)".*?value="([^"]+)" selected', form, re.DOTALL)
    )
    read = {"permission": "read", "reach": "listed", "expires_at": "90 days"}
    assert proposed == read
    with events():
        page = person.post(TOKENS, **proposed | {"name": "x"}).gives(422)
        assert "Name at least one" in page.alert()
        both = {"name": "x", "reach": "all", "repo_paths": "users/ada/x"}
        assert "remove these" in person.post(TOKENS, **proposed | both).gives(422).alert()
    person.post(TOKENS, **proposed | {"name": "x", "reach": "all"}).gives(201)
    token = ApiToken.objects.get(name="x")
    assert (token.permission, token.is_limited) == ("read", False)
    assert token.expires_at is not None
    assert token.expires_at > timezone.now() + dt.timedelta(days=89)


def test_the_list_says_what_each_token_can_do(visit, make, ada):
    repo = make.repo(ada, "notes", by=ada)
    for permission in ("read", "write", "admin"):
        make.scoped_token(ada, permission=permission)
    make.scoped_token(ada, repo, permission="write")
    text = visit(ada).get(TOKENS).text
    for words in ("reads.", "reads and writes.", "does everything that you may do."):
        assert f"It {words}" in text
    assert "It reads and writes, only in users/Ada/notes" in text
    ada.tokens.get(is_limited=True).repos.clear()
    assert "It can do nothing" in visit(ada).get(TOKENS).text


def test_a_token_is_rotated_on_its_page_with_an_overlap(visit, make, ada, alice, events):
    old, token = make.token(ada), ada.tokens.get()
    path, person = f"{TOKENS}/{token.uuid}/rotate", visit(ada)
    with events():
        assert person.get(path).gives().h1 == "Rotate tests?"
        assert 'value="24 hours" selected' in person.get(path).html
        visit(alice).get(path).gives(404)
        visit(alice).post(path).gives(404)
        person.post(path, keep_old="73 hours").gives(422)
    with events("token-rotated"):
        page = person.post(path, keep_old="1 hour").gives(201)
    assert page.header("Cache-Control") == "no-store" and "The old text works until" in page.text
    [new] = re.findall(rf'value="({TOKEN_PREFIX}\w+)"', page.html)
    for text in (old, new):
        Api(text).get("/api-tokens/self").gives()
    assert "the old text works until" in person.get(TOKENS).text
    page = person.post(path, keep_old="0s").gives(201)
    assert "does not work any more" in page.text and new not in person.get(TOKENS).html
    Api(new).get("/api-tokens/self").fails(401, "invalid_token")
    actions.revoke_token(principal=None, token=token)
    assert "has ended" in person.post(path, keep_old="0s").gives(409).alert()


def test_a_token_without_a_name_or_with_an_invalid_expiry_is_refused_and_keeps_what_was_typed(
    visit, ada, events
):
    person = visit(ada)
    with events():
        page = person.post(TOKENS, name=" ", expires_at="30 days").gives(422)
        assert page.alert() == "Name : This field is required."
        assert 'value="30 days" selected' in page.html
        assert "x" * 256 in person.post(TOKENS, name="x" * 256).gives(422).value("name")
        person.post(TOKENS, name="laptop", expires_at="3 fortnights").gives(422)
        person.post(TOKENS, name="lap\0top").gives(422)
    assert page.header("Cache-Control") == "no-store"


def test_a_token_expires_when_the_form_says(visit, ada):
    for chosen, days in {"30 days": 30, "90 days": 90, "1y": 365.25}.items():
        visit(ada).post(TOKENS, name=chosen, expires_at=chosen).gives(201)
        end = timezone.now() + dt.timedelta(days=days)
        around = (end - dt.timedelta(minutes=1), end)
        assert ApiToken.objects.filter(name=chosen, expires_at__range=around).exists()
    visit(ada).post(TOKENS, name="never", expires_at="").gives(201)
    assert ApiToken.objects.get(name="never").expires_at is None


def test_revoking_asks_first_and_ends_the_token(visit, make, ada, events):
    text = make.token(ada)
    path = f"{TOKENS}/{ada.tokens.get().uuid}/revoke"
    person = visit(ada)
    with events():
        assert person.get(path).gives().h1 == "Revoke tests?"
    with events("token-revoked"):
        person.post(path).redirects_to(TOKENS)
    with events():
        person.post(path).redirects_to(TOKENS)
    assert "Token tests revoked." in person.get(TOKENS).text
    Api(text).get("/api-tokens/self").fails(401, "invalid_token")


def test_nobody_reaches_the_tokens_of_others_here_not_even_staff(visit, make, ada, alice, sam):
    path = f"{TOKENS}/{ada.tokens.get().uuid}/revoke"
    for other in (alice, sam):
        visit(other).get(path).gives(404)
        visit(other).post(path).gives(404)
        assert ada.tokens.get().token_prefix not in visit(other).get(TOKENS).text
    visit(ada).get(f"{TOKENS}/{ada.uuid}/revoke").gives(404)
    assert ada.tokens.get().revoked_at is None


def test_many_tokens_come_on_several_pages(visit, ada):
    ApiToken.objects.bulk_create(
        ApiToken(user=ada, name=f"number {n}", digest=f"{n}") for n in range(60)
    )
    person = visit(ada)
    first = person.get(TOKENS)
    assert first.html.count("number ") and f'href="{TOKENS}?page=2"' in first.html
    second = person.get(f"{TOKENS}?page=2").gives()
    assert "tests" in second.text and f'href="{TOKENS}?page=1"' in second.html
    person.get(f"{TOKENS}?page=x").gives(422)


def test_hostile_names_are_shown_as_text(visit, ada):
    name = '"><script>alert(1)</script>'
    page = visit(ada).post(TOKENS, name=name, expires_at="").gives(201)
    path = f"{TOKENS}/{ada.tokens.get(name=name).uuid}/revoke"
    for shown in (page, visit(ada).get(path)):
        assert name in shown.text and "<script>" not in shown.html


def test_an_invalid_page_number_is_refused_before_a_token_is_made(visit, ada, events):
    """A new token would be lost: only the response that creates it shows it."""
    with events():
        visit(ada).post("/settings/tokens?page=x", name="laptop", expires_at="1y").gives(422)


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
