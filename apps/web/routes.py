"""THE page table: each line leads from an address to the function that answers it."""

from __future__ import annotations

from django.urls import path

from apps.web import home, invites, passwords, reference, settings, signin, tokens

urlpatterns = [
    path("", home.home, name="home"),
    path("api/", reference.reference, name="reference"),
    path("signin", signin.signin, name="signin"),
    path("signup", signin.signup, name="signup"),
    path("signout", signin.signout, name="signout"),
    path("admin/login/", signin.admin_signin, name="admin-signin"),
    path("reset", passwords.reset, name="reset"),
    path("reset/sent", passwords.reset_sent, name="reset-sent"),
    path("reset/new", passwords.new_password, name="new-password"),
    path("settings", settings.settings, name="settings"),
    path("settings/email", settings.confirm_email, name="confirm-email"),
    path("unsubscribe", settings.unsubscribe, name="unsubscribe"),
    path("settings/password", passwords.password, name="password"),
    path("settings/invites", invites.invites, name="invites"),
    path("settings/invites/<uid:uid>/delete", invites.delete_invite, name="delete-invite"),
    path("settings/tokens", tokens.tokens, name="tokens"),
    path("settings/tokens/<uid:uid>/revoke", tokens.revoke_token, name="revoke-token"),
]
