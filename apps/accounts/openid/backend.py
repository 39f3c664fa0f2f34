"""The authentication backend of mozilla-django-oidc, with stricter requests and tokens.

It exchanges the code of the provider for an ID token and finds the account of its subject.
"""

from __future__ import annotations

from base64 import b64encode
from typing import Any
from urllib.parse import quote_plus, urlencode

from django.conf import settings
from django.http import HttpRequest
from django.urls import reverse
from mozilla_django_oidc.auth import OIDCAuthenticationBackend

from apps.accounts.identities import Identity
from apps.accounts.models import User
from apps.accounts.openid.provider import Provider, invalid_answer, provider, request_json
from apps.accounts.openid.tokens import read_claims, verified_claims
from apps.core.views import site_url

CLAIMS = "openid_claims"
"""The attribute of a request for the `Claims` of the provider, once they are verified."""
CALLBACK = "openid-callback"
VALUES: dict[str, Any] = {
    "OIDC_RP_SCOPES": "openid profile email",
    "OIDC_RP_SIGN_ALGO": "RS256",
    "OIDC_USE_PKCE": True,
    "OIDC_MAX_STATES": 5,
    "OIDC_AUTHENTICATION_CALLBACK_URL": CALLBACK,
    "OIDC_OP_TOKEN_ENDPOINT": "",
    "OIDC_OP_USER_ENDPOINT": "",
    "OIDC_OP_JWKS_ENDPOINT": "",
}
"""Settings of the library. It needs the endpoints, but the overridden methods read those of the
metadata when they send a request.
"""


def library_setting(name: str, *default: Any) -> Any:
    """A setting of the library, which asks for each by this function instead of in the settings."""
    if name == "OIDC_OP_AUTHORIZATION_ENDPOINT":
        return current_provider().metadata().authorization_endpoint
    if name == "OIDC_RP_CLIENT_ID":
        return settings.OIDC_CLIENT_ID
    if name == "OIDC_RP_CLIENT_SECRET":
        return settings.OIDC_CLIENT_SECRET
    return VALUES[name] if name in VALUES else default[0]


def current_provider() -> Provider:
    """The provider of the settings."""
    return provider(settings.OIDC_ISSUER)


def callback_url() -> str:
    """The address of this site to which the provider redirects."""
    return f"{site_url()}{reverse(CALLBACK)}"


class OpenIdBackend(OIDCAuthenticationBackend):
    """Finds accounts by issuer and subject only. Its methods raise `SignInRefused`."""

    get_settings = staticmethod(library_setting)

    def authenticate(self, request: HttpRequest | None, **credentials: Any) -> User | None:
        """The account of the subject who has come back; None for a new one.

        None also for the credentials of other backends: passwords have no nonce.
        """
        if not credentials.get("nonce") or not credentials.get("code_verifier"):
            return None
        user: User | None = super().authenticate(request, **credentials)
        return user

    def get_token(self, payload: dict[str, str]) -> dict[str, Any]:
        """Exchange the code for tokens, as the client of the settings."""
        metadata = current_provider().metadata()
        fields = payload | {"redirect_uri": callback_url()}
        headers = {"content-type": "application/x-www-form-urlencoded"}
        if not metadata.takes_secret_in_body:
            secret, client_id = fields.pop("client_secret"), fields["client_id"]
            pair = f"{quote_plus(client_id)}:{quote_plus(secret)}"
            headers["authorization"] = f"Basic {b64encode(pair.encode()).decode()}"
        content = urlencode(fields).encode()
        status, answer = request_json(metadata.token_endpoint, headers=headers, content=content)
        if status != 200 or not isinstance(answer.get("id_token"), str):
            error = str(answer.get("error", "no ID token"))[:100]
            raise invalid_answer(f"status {status} for the code: {error!r}")
        return answer

    def verify_token(self, token: str, **expected: Any) -> dict[str, Any]:
        """Validate the ID token: signature, issuer, audience, times and nonce."""
        return verified_claims(
            token,
            nonce=expected["nonce"],
            provider=current_provider(),
            client_id=settings.OIDC_CLIENT_ID,
        )

    def get_or_create_user(
        self, access_token: str | None, id_token: str, payload: dict[str, Any]
    ) -> User | None:
        """The account of the subject, if it has one. The request gets the claims.

        All claims are those of the signed token: no request for others is sent.
        """
        claims = read_claims(payload)
        setattr(self.request, CLAIMS, claims)
        pair = {"issuer": claims.issuer, "subject": claims.subject}
        identity = Identity.objects.filter(**pair).select_related("user").first()
        return None if identity is None else identity.user
