"""Signing in by the small provider, as a browser does it."""

from urllib.parse import urlencode, urlsplit

from tests.openid_provider import visit_provider
from tests.web.page_client import PageClient

CALLBACK = "/signin/openid/callback"


def begin(person: PageClient, **parameters: str) -> str:
    """Begin at this site, and visit the provider; returns the path to come back to."""
    query = f"?{urlencode(parameters)}" if parameters else ""
    response = person.get(f"/signin/openid{query}").gives(302)
    parts = urlsplit(visit_provider(response.header("Location")))
    assert parts.path == CALLBACK
    return f"{parts.path}?{parts.query}"


def sign_in(person: PageClient, **parameters: str):
    """The response when the browser comes back from the provider."""
    return person.get(begin(person, **parameters))
