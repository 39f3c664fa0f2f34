"""`/api/`: the reference of the API, without JavaScript."""

import re

import pytest

from apps.web.templatetags.guildhall import with_code
from tests.routes import described, routed

pytestmark = pytest.mark.once


def test_the_page_names_every_operation_record_and_code(visit):
    html = visit().get("/api/").gives(200).html
    assert 'href="/api/v1/openapi.json"' in html
    for one in routed():
        assert f"<code>{one.method} {one.path}</code>" in html
    for name, schema in described()["components"]["schemas"].items():
        assert f'<details id="{name}">' in html
        for field, inner in schema.get("properties", {}).items():
            assert f"<code>{field}</code>" in html and inner["description"]
    for code in ("head_changed", "slug_taken", "rate_limited"):
        assert f"<code>{code}</code>" in html
    assert "`" not in html


@pytest.mark.parametrize(
    ("text", "html"),
    [
        ("", ""),
        ("no code", "no code"),
        ("`sha` of <b>, or `null`.", "<code>sha</code> of &lt;b&gt;, or <code>null</code>."),
        ("a `<b>`", "a <code>&lt;b&gt;</code>"),
        ("one ` alone", "one <code> alone</code>"),
    ],
)
def test_what_stands_between_backticks_is_code(text, html):
    assert with_code(text) == html


def test_its_links_lead_somewhere_and_no_place_has_two_of_one_name(visit):
    html = visit().get("/api/").html
    places = re.findall(r' id="([^"]+)"', html)
    assert len({*places}) == len(places)
    assert {*re.findall(r'href="#([^"]+)"', html)} <= {*places}


def test_the_page_is_one_load_for_a_browser_and_leads_back(visit, ada):
    assert '<a href="/api/">The API</a>' in visit().get("/").html
    person = visit(ada)
    compressed = person.client.get("/api/", headers={"accept-encoding": "gzip"})
    assert len(compressed.content) < 40_000
    assert "ada" in person.get("/api/").text.lower()


def test_the_page_is_for_reading_only(visit):
    assert visit().client.head("/api/").status_code == 200
    assert visit().client.post("/api/").status_code == 405
