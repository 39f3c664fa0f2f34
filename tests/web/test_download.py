"""`/settings/export`: a person downloads their data."""

from __future__ import annotations

import orjson

from tests.web.page_client import PageClient

PATH = "/settings/export"


def test_people_download_their_data_with_their_session(
    visit, api, make, team_repo, alice, settings
):
    settings.BASE_URL = "http://testserver"
    make.thread(team_repo, by=alice, title="Spring tide")
    visit().get(PATH).redirects_to(f"/signin?next={PATH}", 302)
    assert visit().post(PATH).status == 401
    person = visit(alice)
    assert f'href="{PATH}"' in person.get("/settings").gives().html
    assert "Spring tide" not in person.get(PATH).gives().text
    answer = person.client.post(PATH)
    assert answer.status_code == 200
    assert answer["Content-Disposition"] == 'attachment; filename="alice.jsonl"'
    assert (answer["Content-Type"], answer["Cache-Control"]) == ("application/jsonl", "no-store")
    lines = [orjson.loads(line) for line in answer.getvalue().splitlines()]
    caller = api(alice)
    whole = caller.client.get("/api/v1/users/self/export", headers=caller.headers).getvalue()
    written = [orjson.loads(line) for line in whole.splitlines()]
    assert without_tokens(lines) == without_tokens(written)
    assert "Spring tide" in {line["record"].get("title") for line in lines}


def without_tokens(lines: list[dict[str, str]]) -> list[dict[str, str]]:
    """The request over the API changes the token that it uses."""
    return [line for line in lines if line["type"] != "token"]


def test_another_site_cannot_start_it(alice):
    assert PageClient(alice, strict=True).post(PATH).status == 403
