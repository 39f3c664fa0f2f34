"""Single sign-on in a real Chromium, with and without scripts."""

import pytest
from playwright.sync_api import expect

from tests.openid_provider import CLIENT_ID, CLIENT_SECRET, Provider
from tests.web.chromium import chromium, new_page
from tests.web.live_site import DATA
from tests.web.live_site import sign_in as sign_in_by_password
from tests.web.page_client import PASSWORD
from tests.web.test_passkeys import check, use_host_name

pytestmark = [pytest.mark.browser, pytest.mark.once]


def test_a_browser_signs_in_and_links_an_account(new_server, tmp_path):
    with Provider() as provider:
        values = {"issuer": provider.issuer, "client_id": CLIENT_ID, "name": "Example"}
        values |= {"client_secret": CLIENT_SECRET, "signups": "all"}
        variables = {f"OIDC_{name.upper()}": value for name, value in values.items()}
        with new_server(tmp_path, **variables) as server, chromium(tmp_path) as browser:
            server.run(DATA)
            use_host_name(server)
            with new_page(browser, server.url) as page:
                links_and_unlinks(page, provider)
            with new_page(browser, server.url, java_script_enabled=False) as page:
                page.goto("/signin?next=/settings")
                page.get_by_role("link", name="Sign in by Example").click()
                expect(page).to_have_url(f"{server.url}/settings")
                expect(page.get_by_text("Your username is ada.l")).to_be_visible()


def links_and_unlinks(page, provider):
    """Link the person of the provider to ada, sign in by them, and unlink them."""
    page.goto("/signin")
    check(page)
    sign_in_by_password(page)
    page.goto("/settings/sign-in")
    check(page)
    page.get_by_role("link", name="Link an account").click()
    page.fill("[name=current]", PASSWORD)
    check(page)
    page.keyboard.press("Enter")
    expect(page.get_by_text("Sign in by Example now")).to_be_visible()
    check(page)
    page.get_by_role("link", name="Continue").click()
    expect(page.get_by_text("Linked. It signs you in")).to_be_visible()
    check(page)
    page.context.clear_cookies()
    provider.answers["/token"] = (500, {})
    page.goto("/signin")
    page.get_by_role("link", name="Sign in by Example").click()
    expect(page.get_by_role("heading", name="You are not signed in")).to_be_visible()
    check(page)
    provider.answers.clear()
    page.get_by_role("link", name="Back to sign-in").click()
    page.get_by_role("link", name="Sign in by Example").click()
    expect(page.get_by_text("Your username is")).to_have_count(0)
    page.goto("/settings/sign-in")
    page.get_by_role("link", name="Unlink").click()
    page.fill("[name=current]", PASSWORD)
    check(page)
    page.keyboard.press("Enter")
    expect(page.get_by_text("Unlinked.")).to_be_visible()
