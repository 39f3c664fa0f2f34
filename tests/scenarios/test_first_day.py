"""From an invite to a closed account, with the API and pages of a real server, without logging
secrets.
"""

import re
from pathlib import Path

import pytest

from tests.server import Server
from tests.waiting import eventually
from tests.web.form_client import FormClient

ADDRESS, PASSWORD, NEXT = "zoe@example.org", "first horse battery", "second horse battery"
STAFF = "third horse battery"
GIVE_SAM_A_PASSWORD = f"""
from apps.accounts.actions import change_password
from apps.accounts.models import User
from apps.accounts.principal import Principal
sam = User.objects.get(username="sam")
change_password(principal=Principal(sam), user=sam, password={STAFF!r})
"""


def token_in(html):
    return re.findall(r'value="(ght_\w+)"', html)[0]


def link_in(folder: Path, page: str) -> str:
    """Wait for a message in the folder with a link to this page; returns the link."""

    def links() -> list[str]:
        messages = "\n".join(message.read_text() for message in folder.glob("*"))
        return re.findall(rf"http\S+{page}\S+", messages)

    return eventually(links)[0]


def join(server, person):
    """Staff invite a person by the API, who signs up on the page; returns the invite's secret."""
    made = server.api("sam").post("/signup-invites", expires_at="1 day", email=ADDRESS).gives(201)
    fields = {"username": "zoe", "password": PASSWORD, "again": PASSWORD}
    assert person.send(made["invite_url"], **fields, email="eve@example.org").status == 422
    assert person.send(made["invite_url"], **fields, email=ADDRESS).location == "/"
    assert person.get(made["invite_url"]).status == 409
    return made["uuid"]


def confirm(person, folder):
    """The account gets the address only when the link that was sent to it is opened."""
    assert person.send("/reset", email=ADDRESS).status == 303
    assert ADDRESS not in person.get("/settings").html
    link = link_in(folder, "/settings/email")
    assert person.send(link).location == "/settings"
    assert ADDRESS in person.get("/settings").html
    assert person.get(link).status == 404
    return re.findall(r"token=(\S+)", link)[0]


def forget(person, folder):
    """Reset the password by mail. The link works only once."""
    person.ask("POST", "/signout", {"csrfmiddlewaretoken": person.cookies["csrftoken"]})
    assert person.get("/settings").status == 302
    assert person.send("/signin", username="zoe", password="guessed wrong").status == 422
    assert person.send("/reset", email=ADDRESS).status == 303
    link = link_in(folder, "/reset/new")
    assert person.ask("POST", link, {"password": NEXT, "again": NEXT}).status == 403
    assert person.send(link, password=NEXT, again=NEXT).location == "/signin"
    assert person.get(link).status == 404
    assert person.send("/signin", username="Zoe", password=NEXT).location == "/"
    return re.findall(r"token=(\S+)", link)[0]


def deactivate(staff):
    """Staff deactivate zoe's account in the admin. The form needs its CSRF token."""
    assert staff.get("/admin/accounts/user/?q=zoe").status == 302
    assert staff.send("/signin?next=/admin/", username="sam", password=STAFF).location == "/admin/"
    paths = re.findall(r"/admin/accounts/user/\d+/", staff.get("/admin/accounts/user/?q=zoe").html)
    assert staff.ask("POST", f"{paths[0]}deactivate/", {"csrfmiddlewaretoken": "x"}).status == 403
    assert staff.send(f"{paths[0]}deactivate/").location == f"{paths[0]}change/"


@pytest.mark.slow
@pytest.mark.parametrize("kind", [pytest.param("serve", marks=pytest.mark.once), "gunicorn"])
def test_a_first_day_that_ends_early(tmp_path, kind):
    folder = tmp_path / "mail"
    with Server(tmp_path, kind, EMAIL_URL=f"file://{folder}") as server:
        person = FormClient(server)
        invite = join(server, person)
        made = person.send("/settings/tokens", name="laptop", expires_at="90 days")
        assert made.status == 201
        server.tokens["zoe"] = token_in(made.html)
        zoe = server.api("zoe")
        assert zoe.get("/users/self").gives()["username"] == "zoe"
        proof = confirm(person, folder)
        reset = forget(person, folder)
        zoe.get("/users/self").gives()

        staff = FormClient(server)
        server.run(GIVE_SAM_A_PASSWORD)
        deactivate(staff)
        zoe.get("/users/self").fails(401, "inactive_user")
        assert person.get("/settings").status == 302
        assert person.send("/signin", username="zoe", password=NEXT).status == 422

    secrets = {ADDRESS, "eve@example.org", PASSWORD, NEXT, "guessed wrong", invite, reset, proof}
    secrets |= {*server.tokens.values(), *person.seen, *staff.seen, STAFF}
    assert len(person.seen) >= 4 and all(secrets)
    assert not [secret for secret in secrets if secret in server.log], server.log
