"""`/settings/sessions`: the browsers of a person, and signing them out."""

from apps.accounts.models import BrowserSession
from tests.web.page_client import PageClient

FIREFOX = "Mozilla/5.0 (X11; Linux x86_64; rv:132.0) Gecko/20100101 Firefox/132.0"
SAFARI = "Mozilla/5.0 (Macintosh; Intel Mac OS X 15_0) Version/18.0 Safari/605.1.15"


def opened(user, agent):
    client = PageClient(user)
    client.get("/settings", **{"User-Agent": agent}).gives()
    return client


def uuid_of(client):
    return BrowserSession.objects.get(session=client.client.session.session_key).uuid


def test_the_page_lists_the_browsers_and_marks_this_one(ada, alice):
    here, there = opened(ada, FIREFOX), opened(ada, SAFARI)
    opened(alice, "Opera OPR/1")
    page = here.get("/settings/sessions")
    assert page.text.count("this session") == 1
    assert (
        page.find(r"<b>([^<]*)</b> <span class=\"state good\">this session") == "Firefox on Linux"
    )
    assert "Safari on macOS" in page.text and "Opera" not in page.text
    for client in (here, there):
        assert client.client.session.session_key not in page.html
    assert page.header("Cache-Control") == "no-store"


def test_another_browser_is_signed_out(ada, alice):
    here, there = opened(ada, FIREFOX), opened(ada, SAFARI)
    opened(alice, SAFARI).post(f"/settings/sessions/{uuid_of(there)}/end").gives(404)
    path = f"/settings/sessions/{uuid_of(there)}/end"
    here.post(path).redirects_to("/settings/sessions")
    assert "Safari on macOS is signed out" in here.get("/settings/sessions").text
    assert (here.is_signed_in, there.is_signed_in) == (True, False)
    here.post(path).gives(404)


def test_this_browser_is_signed_out(ada):
    here = opened(ada, FIREFOX)
    here.post(f"/settings/sessions/{uuid_of(here)}/end").redirects_to("/signin")
    assert not here.is_signed_in


def test_signing_out_everywhere_signs_out_here_too(ada, alice):
    clients = [opened(ada, FIREFOX), opened(ada, SAFARI), opened(alice, FIREFOX)]
    clients[0].post("/settings/sessions/end").redirects_to("/signin")
    assert [client.is_signed_in for client in clients] == [False, False, True]
