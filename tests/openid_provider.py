"""A small OpenID provider on this machine: discovery, authorization, tokens and keys over HTTP.

It signs one person in without asking, and is strict about clients, codes and PKCE. Tests change
`person`, `metadata`, `header` and `claims`, or replace whole answers by `answers`.
"""

import base64
import hashlib
import json
import secrets
import time
from contextlib import suppress
from functools import cache
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Event, Thread
from urllib.parse import parse_qsl, urlencode, urlsplit
from urllib.request import HTTPRedirectHandler, Request, build_opener

import jwt
from cryptography.hazmat.primitives.asymmetric import rsa
from jwt.algorithms import RSAAlgorithm

CLIENT_ID, CLIENT_SECRET = "guildhall", "not a: secret%"
KEY_ID = "first"


@cache
def new_key(number=0):
    """A key of RSA, the same for each number."""
    return rsa.generate_private_key(public_exponent=65537, key_size=2048)


class Server(ThreadingHTTPServer):
    daemon_threads = True
    provider: "Provider"


class Provider:
    """The provider, as a context manager. Its `issuer` is its address."""

    def __init__(self):
        self.server = Server(("127.0.0.1", 0), Handler)
        self.server.provider = self
        self.issuer = f"http://127.0.0.1:{self.server.server_port}"
        self.key = new_key()
        self.person = {"sub": "0001", "preferred_username": "ada.l", "name": "Ada Lovelace"}
        self.metadata, self.header, self.claims = {}, {"kid": KEY_ID}, {}
        self.sign = lambda claims: jwt.encode(claims, self.key, "RS256", headers=self.header)
        self.key_fields = {"use": "sig", "alg": "RS256"}
        self.answers = {}
        """Path -> a status and a body, in place of the usual answer."""
        self.grants = {}
        self.requests = []
        self.is_released = Event()

    def __enter__(self):
        Thread(target=self.server.serve_forever, args=[0.05], daemon=True).start()
        return self

    def __exit__(self, *_):
        self.is_released.set()
        self.server.shutdown()
        self.server.server_close()

    def discovery(self):
        return {
            "issuer": self.issuer,
            "authorization_endpoint": f"{self.issuer}/authorize",
            "token_endpoint": f"{self.issuer}/token",
            "jwks_uri": f"{self.issuer}/jwks",
            "response_types_supported": ["code"],
            "subject_types_supported": ["public"],
            "id_token_signing_alg_values_supported": ["RS256", "HS256", "none"],
            **self.metadata,
        }

    def key_set(self):
        public = RSAAlgorithm.to_jwk(self.key.public_key(), as_dict=True)
        return {"keys": [{**public, "kid": KEY_ID, **self.key_fields}]}

    def authorize(self, query):
        """The address to which the browser goes back, with a code for the person."""
        assert query["client_id"] == CLIENT_ID and query["response_type"] == "code"
        assert query["code_challenge_method"] == "S256"
        assert "openid" in query["scope"].split()
        code = secrets.token_urlsafe(8)
        self.grants[code] = query
        answer = {"code": code, "state": query["state"]}
        if self.metadata.get("authorization_response_iss_parameter_supported"):
            answer["iss"] = self.issuer
        return f"{query['redirect_uri']}?{urlencode(answer)}"

    def token(self, form, authorization):
        """Status and answer for a code, which works once, for its client and its verifier."""
        pair = f"{CLIENT_ID}:not+a%3A+secret%25"
        basic = f"Basic {base64.b64encode(pair.encode()).decode()}"
        ways = self.metadata.get("token_endpoint_auth_methods_supported", [])
        sent = (form.get("client_secret"), authorization)
        is_client = sent == (
            (CLIENT_SECRET, None) if "client_secret_post" in ways else (None, basic)
        )
        grant = self.grants.pop(form["code"], None)
        hashed = hashlib.sha256(form["code_verifier"].encode()).digest()
        challenge = base64.urlsafe_b64encode(hashed).decode().rstrip("=")
        if not is_client or grant is None or grant["code_challenge"] != challenge:
            return 400, {"error": "invalid_grant"}
        if grant["redirect_uri"] != form["redirect_uri"]:
            return 400, {"error": "invalid_grant"}
        now = int(time.time())
        times = {"iat": now, "exp": now + 300, "auth_time": now}
        about = {"iss": self.issuer, "aud": CLIENT_ID, "nonce": grant["nonce"]}
        claims = {**about, **times, **self.person, **self.claims}
        token = self.sign({name: value for name, value in claims.items() if value is not None})
        return 200, {"id_token": token, "access_token": "a", "token_type": "Bearer"}


class Handler(BaseHTTPRequestHandler):
    server: Server

    def do_GET(self):
        provider, parts = self.server.provider, urlsplit(self.path)
        if self.replaced(parts.path):
            return
        if parts.path == "/authorize":
            self.send_response(302)
            self.send_header("Location", provider.authorize(dict(parse_qsl(parts.query))))
            self.send_header("Content-Length", "0")
            self.end_headers()
        elif parts.path == "/jwks":
            self.answer(200, provider.key_set())
        elif parts.path == "/.well-known/openid-configuration":
            self.answer(200, provider.discovery())
        else:
            self.answer(404, {})

    def do_POST(self):
        text = self.rfile.read(int(self.headers["Content-Length"])).decode()
        if not self.replaced(self.path):
            form, authorization = dict(parse_qsl(text)), self.headers["Authorization"]
            self.answer(*self.server.provider.token(form, authorization))

    def replaced(self, path):
        """Send the answer that a test has set for this path; `None` waits until the end."""
        provider = self.server.provider
        provider.requests.append(path)
        if path not in provider.answers:
            return False
        answer = provider.answers[path]
        if answer is None:
            provider.is_released.wait(60)
        else:
            self.answer(*answer)
        return True

    def answer(self, status, body, location=""):
        content = body if isinstance(body, bytes) else json.dumps(body).encode()
        self.send_response(status)
        if location:
            self.send_header("Location", location)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        with suppress(OSError):  # the client may have read enough
            self.wfile.write(content)

    def log_message(self, *_):
        pass


class NoRedirects(HTTPRedirectHandler):
    def http_error_302(self, request, response, code, message, headers):
        return response


OPENER = build_opener(NoRedirects)


def visit_provider(address):
    """Follow the redirect to the provider; return the address to which it redirects back."""
    assert address.startswith("http://127.0.0.1:")
    with OPENER.open(Request(address), timeout=60) as response:  # noqa: S310 - our own address
        return response.headers["Location"]
