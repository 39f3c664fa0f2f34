"""Hostile requests for the API as data, used in the process and over real servers.

Each is answered with ErrorBody, and none with a 5xx.
"""

from __future__ import annotations

import base64
import json
from dataclasses import dataclass, field

MIB = 1024 * 1024
TEAMS = "/teams"
TOKENS = "/api-tokens"
REPLIES = "/teams/acme/repos/private/threads/1/replies"
MERGE = "/teams/acme/repos/x/pulls/1/merge"
VIC = "/teams/acme/members/vic"


@dataclass(frozen=True)
class OddRequest:
    """One request and its expected refusal; an empty `code` means success."""

    name: str
    status: int
    code: str
    method: str = "GET"
    path: str = TEAMS
    body: bytes = b""
    content_type: str | None = "application/json"
    headers: dict[str, str] = field(default_factory=dict)

    def __str__(self) -> str:
        return self.name


def team(**changed: object) -> bytes:
    return json.dumps({"name": "Fresh", "slug": "fresh", **changed}).encode()


def limit(scope: str) -> bytes:
    about = {"max_requests": 1, "window_seconds": 1, "is_enabled": True}
    return json.dumps({"scope": scope, **about}).encode()


def post(name: str, body: bytes, status: int, code: str, **options: str | None) -> OddRequest:
    return OddRequest(f"POST {name}", status, code, "POST", TEAMS, body, **options)  # type: ignore[arg-type]


def reply(name: str, value: str, status: int, code: str) -> OddRequest:
    body = b'{"kind": "comment", "body": "b", "parent_reply_number": %s}' % value.encode()
    return OddRequest(f"POST parent {name}", status, code, "POST", REPLIES, body)


BAD, UNKNOWN, INVALID = "malformed_request", "unknown_field", "validation_failed"
MEDIA, LARGE = "unsupported_media_type", "payload_too_large"

BODIES = [
    post("nothing", b"", 400, BAD),
    post("white space", b" \n", 400, BAD),
    post("no JSON", b"name=x", 400, BAD),
    post("a key twice", b'{"name": 1, "name": "x", "slug": "fresh"}', 400, BAD),
    post("an escaped key twice", b'{"name": "x", "n\\u0061me": "x", "slug": "fresh"}', 400, BAD),
    post("an inner key twice", b'{"name": [{"inner": {"a": 1, "b": 2, "a": 1}}]}', 400, BAD),
    post("half an object", b'{"name": "x"', 400, BAD),
    post("two objects", team() + team(), 400, BAD),
    post("a list", b"[]", 400, BAD),
    post("null", b"null", 400, BAD),
    post("a string", b'"x"', 400, BAD),
    post("100,000 open brackets", b"[" * 100_000, 400, BAD),
    post("100,000 nested objects", b'{"name":' * 100_000, 400, BAD),
    post("1,000 lists in each other", b'{"name":' + b"[" * 1000 + b"]" * 1000 + b"}", 400, BAD),
    post("1,000 objects in each other", b'{"name":' * 1000 + b"1" + b"}" * 1000, 400, BAD),
    post("NaN", b'{"name": NaN, "slug": "x"}', 400, BAD),
    post("Infinity", b'{"name": Infinity, "slug": "x"}', 400, BAD),
    post("bad UTF-8", b'{"name": "\xff", "slug": "x"}', 400, BAD),
    post("UTF-16", team().decode().encode("utf-16"), 400, BAD),
    post("a byte order mark", b"\xef\xbb\xbf" + team(), 400, BAD),
    post("a lone surrogate", b'{"name": "\\ud800", "slug": "x"}', 400, BAD),
    post("an encoded surrogate", b'{"name": "\xed\xa0\x80", "slug": "x"}', 400, BAD),
    post("NUL in text", team(name="a\0b"), 422, INVALID),
    post("NUL in a slug", team(slug="a\0b"), 422, INVALID),
    post("an unknown property", team(color="red"), 422, UNKNOWN),
    post("an empty property", team(**{"": 1}), 422, UNKNOWN),
    post(
        "60,000 unknown properties",
        json.dumps(dict.fromkeys(map(str, range(60_000)))).encode(),
        422,
        UNKNOWN,
    ),
    post("a number for a string", team(name=1), 422, INVALID),
    post("true for a string", team(name=True), 422, INVALID),
    post("null for a string", team(name=None), 422, INVALID),
    post("a list for a string", team(name=["x"]), 422, INVALID),
    post("an object for a string", team(name={"a": 1}), 422, INVALID),
    post("1e400 for a string", b'{"name": 1e400, "slug": "fresh"}', 400, BAD),
    post("a blank name", team(name=" \u3000\t"), 422, INVALID),
    post("an empty name", team(name=""), 422, INVALID),
    post("a name of 256", team(name="x" * 256), 422, INVALID),
    post("a name of a million", team(name="x" * 1_000_000), 422, INVALID),
    post("a reserved slug", team(slug="new"), 422, INVALID),
    post("an upper-case slug", team(slug="Fresh"), 422, INVALID),
    post("a slug with a line end", team(slug="fresh\n"), 422, INVALID),
    post("a slug in Arabic digits", team(slug="\u0663"), 422, INVALID),
    post("1 MiB and a byte", team(name="x") + b" " * (MIB + 1 - len(team(name="x"))), 413, LARGE),
    post("a form", b"name=x&slug=y", 415, MEDIA, content_type="application/x-www-form-urlencoded"),
    post("multipart", b"--x--", 415, MEDIA, content_type="multipart/form-data; boundary=x"),
    post("plain text", team(), 415, MEDIA, content_type="text/plain"),
    post("JSON in Latin-1", team(), 415, MEDIA, content_type="application/json; charset=latin-1"),
    post("no content type", team(), 415, MEDIA, content_type=None),
    post("a content type of junk", team(), 415, MEDIA, content_type=";;;=,"),
    reply("1e400", "1e400", 400, BAD),
    reply("-1e400", "-1e400", 400, BAD),
    reply("1e308", "1e308", 422, "parent_reply_not_found"),
    reply("10 to the 30th", "1" + "0" * 30, 422, "parent_reply_not_found"),
    reply("2 to the 63rd", str(2**63), 422, "parent_reply_not_found"),
    reply("-1", "-1", 422, "parent_reply_not_found"),
    reply("1.5", "1.5", 422, INVALID),
    reply("a string", '"1"', 422, INVALID),
    reply("true", "true", 422, INVALID),
    reply("a list", "[1]", 422, INVALID),
    OddRequest("a scope on two lines", 422, INVALID, "POST", "/rate-limits", limit("a\nb")),
    OddRequest(
        "a person on two lines", 422, "user_not_found", "POST", "/rate-limits", limit("user:a\nb")
    ),
    OddRequest("PUT a flag of 1", 422, INVALID, "PUT", "/teams/acme", team(is_active=1)),
    OddRequest("PUT a flag of text", 422, INVALID, "PUT", "/teams/acme", team(is_active="true")),
    OddRequest("PUT a flag of null", 422, INVALID, "PUT", "/teams/acme", team(is_active=None)),
    OddRequest("DELETE with junk", 400, BAD, "DELETE", VIC, b"junk"),
    OddRequest("DELETE with a list", 400, BAD, "DELETE", VIC, b"[]"),
    OddRequest("DELETE with text", 415, MEDIA, "DELETE", VIC, b"x", "text/plain"),
    OddRequest("DELETE with a body", 422, UNKNOWN, "DELETE", VIC, b'{"a": 1}'),
]


def query(text: str, status: int = 422, code: str = INVALID, path: str = TEAMS) -> OddRequest:
    return OddRequest(f"GET {path}?{text[:60]}", status, code, path=f"{path}?{text}")


PAGES = ["abc", "0", "-1", "", "1.0", "1e1", "%201", "%2B1", "0x1", "%D9%A3", "1" + "0" * 30, "%00"]
QUERIES = [
    *(query(f"{name}={page}") for name in ("page", "per_page") for page in PAGES),
    query("all=TRUE"),
    query("all=1"),
    query("all="),
    query("search=%00"),
    query("ordering=size", path=TOKENS),
    query("ordering=", path=TOKENS),
    query("ordering=created_at%00", path=TOKENS),
    query("name=%00", path=TOKENS),
    query("username=%00", path=TOKENS),
    query("username=nobody", 422, "user_not_found", TOKENS),
    query("username=no%0Abody", 422, "user_not_found", TOKENS),
    query("ordering=created%0Aat", path=TOKENS),
    query("scope=team%0A", 422, "invalid_scope", "/events"),
    query("scope=self&kind=a%0Ab", path="/events"),
    query("scope=self&before_id=1%0A", 422, "invalid_cursor", "/events"),
    query("", 422, INVALID, "/events"),
    query("scope=junk", 422, "invalid_scope", "/events"),
    query("scope=repo:%00", path="/events"),
    query("scope=team:%00", path="/events"),
    query("scope=thread:teams/acme/private/99999999999", 404, "not_found", "/events"),
    query("scope=self&before_id=x", 422, "invalid_cursor", "/events"),
    query("scope=self&after_id=-1", 422, "invalid_cursor", "/events"),
    query("scope=self&kind=A%00", 422, INVALID, "/events"),
    query("expected_head_sha=%3Cscript%3E", 405, "method_not_allowed", MERGE),
]

GONE = "not_found"
PATHS = [
    OddRequest(f"GET {path[:60]}", 404, GONE, path=path)
    for path in (
        "/teams/%00",
        "/teams/acme%00",
        "/teams/%FF%FE",
        "/teams/%C0%80",
        "/teams/%ED%A0%80",
        "/teams/acme%0A",
        "/teams/acme%0D%0AX-Evil:%201",
        "/teams/..%2F..%2Fetc%2Fpasswd",
        "/teams/acme%2Fmembers%2F..",
        "/teams/" + "a" * 65,
        "/teams/acme/",
        "/teams//members",
        "/teams/acme/members/%00",
        "/teams/acme/members/" + "a" * 40,
        "/teams/acme/repos/%00",
        "/users/%00/repos",
        "/users/alice/repos/%F0%9F%92%A3",
        "/api-tokens/1",
        "/api-tokens/%00",
        "/api-tokens/00000000-0000-0000-0000-00000000000g",
        "/api-tokens/00000000-0000-0000-0000-000000000000",
        "/teams/acme/repos/private/threads/0",
        "/teams/acme/repos/private/threads/-1",
        "/teams/acme/repos/private/threads/1.0",
        "/teams/acme/repos/private/threads/%D9%A3",
        "/teams/acme/repos/private/threads/1" + "0" * 30,
        "/teams/acme/repos/private/threads/999999999999999",
        "/teams/acme/repos/private/threads/1/replies/%00",
        "/events/1" + "0" * 30,
        "/events/999999999999999",
        "/nothing",
        "/nothing%00",
        "/openapi.json/x",
    )
]


def basic(text: bytes) -> str:
    return "Basic " + base64.b64encode(text).decode()


REFUSED = "invalid_token"
CREDENTIALS = [
    OddRequest(f"Authorization {name}", 401, REFUSED, headers={"Authorization": value})
    for name, value in {
        "without a scheme": "ght_0123456789",
        "of another scheme": "Digest username=alice",
        "bearer of nothing": "Bearer",
        "bearer of blanks": "Bearer    ",
        "bearer of junk": "Bearer \xff\xfe\x80",
        "bearer of a surrogate": "Bearer \xed\xa0\x80",
        "bearer of two": "Bearer a b",
        "bearer of 3,000": "Bearer " + "x" * 3000,
        "bearer of a control character": "Bearer a\x01b",
        "basic of nothing": "Basic",
        "basic of junk": "Basic !!!",
        "basic beyond ASCII": "Basic \xff\xfe",
        "basic of half a code": "Basic YWJj=",
        "basic without a colon": basic(b"ght_x"),
        "basic of bad UTF-8": basic(b"\xff:\xfe"),
        "basic of NUL": basic(b"a\0:b\0"),
        "basic of a password": basic(b"alice:secret"),
    }.items()
]

HEADERS = [
    OddRequest("Host of another", 400, BAD, headers={"Host": "evil.example"}),
    OddRequest("Host of junk", 400, BAD, headers={"Host": "a b"}),
    OddRequest("Host of a path", 400, BAD, headers={"Host": "localhost/../x"}),
]

LONG = [
    OddRequest("a path of 8,001", 414, "uri_too_long", path="/teams/" + "a" * 7987),
    OddRequest("a query of 8,001", 414, "uri_too_long", path="/teams?search=" + "a" * 7980),
    OddRequest("a header of 8,001", 431, "header_too_long", headers={"X-Long": "a" * 8001}),
    OddRequest("a header of 16,000", 431, "header_too_long", headers={"X-Long": "a" * 16000}),
]

REFUSALS = {
    "bodies": BODIES,
    "queries": QUERIES,
    "paths": PATHS,
    "credentials": CREDENTIALS,
    "headers": HEADERS,
    "long addresses": LONG,
}

FINE = [
    post("exactly 1 MiB", team(name="x") + b" " * (MIB - len(team(name="x"))), 201, ""),
    post("a charset", team(), 201, "", content_type='Application/JSON; charset="UTF-8"'),
    post("a name of 255 beyond the BMP", team(name="\U0001f4a3" * 255), 201, ""),
    reply("1.0", "1.0", 201, ""),
    OddRequest("DELETE with {}", 204, "", "DELETE", VIC, b"{}"),
    OddRequest("DELETE with a type", 204, "", "DELETE", VIC, b"", "text/plain"),
    query("search=%FF", 200, ""),
    query("search=%ED%A0%80", 200, ""),
    query("search=%25_%5C%27%22%3B--", 200, ""),
    query("search=" + "x" * 3000, 200, ""),
    query("a=" + "x" * 7984, 200, ""),
    OddRequest("a header of 8,000", 200, "", headers={"X-Long": "a" * 8000}),
    query("page=1&page=2", 200, ""),
    query("page=1000000000&per_page=1000000000", 200, ""),
    query("per_page=101", 200, ""),
    query("format=xml", 200, ""),
    query("a=1;b=2&&&=&%", 200, ""),
    query("name=%FF", 200, "", TOKENS),
    OddRequest("Accept of a browser", 200, "", headers={"Accept": "text/html"}),
    OddRequest("Accept of nothing", 200, "", headers={"Accept": "x/y; q=0"}),
    OddRequest("Accept of junk", 200, "", headers={"Accept": "\xff;;,"}),
    OddRequest("GET with a body", 200, "", body=b"junk"),
    OddRequest("a method override", 200, "", headers={"X-HTTP-Method-Override": "DELETE"}),
]
