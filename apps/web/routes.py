"""The URL patterns of all pages."""

from __future__ import annotations

from django.conf import settings as site_settings
from django.urls import URLPattern, path

from apps.web import (
    activity,
    audit,
    bots,
    commits,
    comparisons,
    files,
    home,
    keys,
    pull_files,
    pulls,
    reference,
    repos,
    review_pages,
    search,
    second_factor,
    settings,
    signin,
    teams,
    threads,
    webhooks,
)

bot = "teams/<team_slug:team_slug>/~settings/bots/<username:bot>"
urlpatterns = [
    path("", home.home, name="home"),
    path("api/", reference.reference, name="reference"),
    path("inbox", home.inbox, name="inbox"),
    path("inbox/<uid:uid>/read", home.read_ping, name="read-ping"),
    path("inbox/read-all", home.read_all, name="read-all"),
    path("pulls", home.own_pulls, name="own-pulls"),
    path("activity", activity.activity, name="activity"),
    path("search", search.search, name="search"),
    path("avatars/users/<uid:uid>.svg", teams.avatar),
    path("avatars/teams/<uid:uid>.svg", teams.avatar),
    path("signin", signin.signin, name="signin"),
    path("signin/code", signin.signin_code, name="signin-code"),
    path("signup", signin.signup, name="signup"),
    path("signout", signin.signout, name="signout"),
    path("admin/login/", signin.admin_signin, name="admin-signin"),
    path("reset", signin.reset, name="reset"),
    path("reset/sent", signin.reset_sent, name="reset-sent"),
    path("reset/new", signin.new_password, name="new-password"),
    path("new/team", teams.new_team, name="new-team"),
    path("new/repo", repos.new_repo, name="new-repo"),
    path("settings", settings.account, name="settings"),
    path("settings/delete", settings.delete_account, name="delete-account"),
    path("settings/email", settings.confirm_email, name="confirm-email"),
    path("settings/appearance", settings.appearance, name="appearance"),
    path("unsubscribe", settings.unsubscribe, name="unsubscribe"),
    path("settings/password", signin.password, name="password"),
    path("settings/second-factor", second_factor.second_factor, name="second-factor"),
    path("settings/second-factor/app", second_factor.add_authenticator, name="add-authenticator"),
    path(
        "settings/second-factor/codes",
        second_factor.new_recovery_codes,
        name="new-recovery-codes",
    ),
    path(
        "settings/second-factor/remove",
        second_factor.remove_authenticator,
        name="remove-authenticator",
    ),
    path("settings/second-factor/passkeys", second_factor.add_passkey, name="add-passkey"),
    path(
        "settings/second-factor/passkeys/create",
        second_factor.create_passkey,
        name="create-passkey",
    ),
    path(
        "settings/second-factor/passkeys/<uid:uid>/remove",
        second_factor.remove_passkey,
        name="remove-passkey",
    ),
    path("settings/invites", settings.invites, name="invites"),
    path("settings/invites/<uid:uid>/delete", settings.delete_invite, name="delete-invite"),
    path("settings/sessions", settings.sessions, name="sessions"),
    path("settings/sessions/end", settings.end_sessions, name="end-sessions"),
    path("settings/sessions/<uid:uid>/end", settings.end_session, name="end-session"),
    path("settings/tokens", settings.tokens, name="tokens"),
    path("settings/tokens/<uid:uid>/revoke", settings.revoke_token, name="revoke-token"),
    path("settings/tokens/<uid:uid>/rotate", settings.rotate_token, name="rotate-token"),
    path("settings/keys", keys.keys, name="keys"),
    path("settings/keys/<uid:uid>/delete", keys.delete_key, name="delete-key"),
    path("teams", teams.teams, name="teams"),
    path("teams/<team_slug:team_slug>", teams.team),
    path("teams/<team_slug:team_slug>/~activity", activity.team_activity),
    path("teams/<team_slug:team_slug>/~members", teams.members),
    path("teams/<team_slug:team_slug>/~members/<username:member>/role", teams.set_role),
    path("teams/<team_slug:team_slug>/~members/<username:member>/remove", teams.remove_member),
    path("teams/<team_slug:team_slug>/~settings", teams.team_settings),
    path("teams/<team_slug:team_slug>/~settings/active", teams.deactivate_team),
    path("teams/<team_slug:team_slug>/~settings/delete", teams.delete_team),
    path("teams/<team_slug:team_slug>/~settings/bots", bots.bots),
    path(bot, bots.bot, name="bot"),
    path(f"{bot}/name", bots.rename_bot),
    path(f"{bot}/delete", bots.delete_bot),
    path(f"{bot}/tokens/<uid:uid>/rotate", bots.rotate_bot_token),
    path(f"{bot}/tokens/<uid:uid>/revoke", bots.revoke_bot_token),
    path("site/audit", audit.site_audit, name="site-audit"),
    path("site/audit/export", audit.export_site_audit),
    path("teams/<team_slug:team_slug>/~settings/audit", audit.team_audit),
    path("teams/<team_slug:team_slug>/~settings/audit/export", audit.export_team_audit),
    path("users/<username:username>", teams.user),
    path("webhooks/<uid:uid>", webhooks.find_webhook, name="find-webhook"),
]


def webhook_routes(below: str, owner: str) -> list[URLPattern]:
    """The pages of webhooks of a kind of owner, a field of `Pages`."""
    one = f"{below}/<uid:uid>"
    delivery = f"{one}/deliveries/<uid:delivery>"
    pages = {
        below: webhooks.webhooks,
        one: webhooks.webhook,
        f"{one}/state": webhooks.set_state,
        f"{one}/ping": webhooks.ping,
        f"{one}/rotate": webhooks.rotate_secret,
        f"{one}/delete": webhooks.delete_webhook,
        delivery: webhooks.delivery,
        f"{delivery}/redeliver": webhooks.redeliver,
    }
    return [path(address, getattr(page, owner)) for address, page in pages.items()]


if site_settings.OIDC_ISSUER:
    from apps.web import openid

    urlpatterns += openid.routes()
urlpatterns += [
    *webhook_routes("site/webhooks", "of_site"),
    *webhook_routes("teams/<team_slug:team_slug>/~settings/webhooks", "of_team"),
]
for owner in ("teams/<team_slug:team_slug>", "users/<username:username>"):
    below = f"{owner}/<repo_slug:repo_slug>"
    protection = f"{below}/settings/protections/<uid:uid>"
    comment = f"{below}/pulls/<number:number>/comments/<number:to>"
    draft_comment = f"{below}/pulls/<number:number>/draft/<uid:comment>"
    reply = f"{below}/threads/<number:number>/replies/<number:to>"
    urlpatterns += [
        path(f"{below}.git", repos.clone_address),
        path(below, repos.repo),
        path(f"{below}/forks", repos.forks),
        path(f"{below}/settings", repos.repo_settings),
        path(f"{below}/settings/archive", repos.archive_repo),
        path(f"{below}/settings/delete", repos.delete_repo),
        path(f"{below}/settings/protections", repos.protections),
        path(protection, repos.protection),
        path(f"{protection}/delete", repos.delete_protection),
        path(f"{protection}/approvers", repos.add_approver),
        path(f"{protection}/approvers/<uid:person>/remove", repos.remove_approver),
        path(f"{below}/settings/keys", keys.deploy_keys),
        path(f"{below}/settings/keys/<uid:uid>/delete", keys.delete_deploy_key),
        *webhook_routes(f"{below}/settings/webhooks", "of_repo"),
        path(f"{below}/activity", activity.repo_activity),
        path(f"{below}/files", files.files),
        path(f"{below}/files/<tree_path:path>", files.files),
        path(f"{below}/raw/<tree_path:path>", files.raw),
        path(f"{below}/commits", commits.commits),
        path(f"{below}/commits/<segment:sha>", commits.commit),
        path(f"{below}/branches", commits.branches),
        path(f"{below}/tags", commits.tags),
        path(f"{below}/compare", commits.compare),
        path(f"{below}/pulls", pulls.pulls),
        path(f"{below}/pulls/new", pulls.new_pull),
        path(f"{below}/pulls/<number:number>", pulls.pull),
        path(f"{below}/pulls/<number:number>/commits", pulls.pull_commits),
        path(f"{below}/pulls/<number:number>/files", pull_files.pull_files),
        path(f"{below}/pulls/<number:number>/viewed", pull_files.set_viewed),
        path(f"{below}/pulls/<number:number>/comments/<segment:place>", pull_files.comment),
        path(f"{comment}/reply", pull_files.reply_to_comment),
        path(f"{comment}/status", pull_files.set_comment_status),
        path(f"{below}/pulls/<number:number>/draft/discard", review_pages.discard_draft),
        path(f"{draft_comment}/edit", review_pages.edit_draft_comment),
        path(f"{draft_comment}/delete", review_pages.delete_draft_comment),
        path(f"{below}/pulls/<number:number>/apply-suggestions", review_pages.apply_suggestions),
        path(f"{below}/pulls/<number:number>/compare", comparisons.choose_versions),
        path(f"{below}/pulls/<number:number>/compare/<segment:text>", comparisons.compare_versions),
        path(f"{below}/pulls/<number:number>/reviews", pulls.review),
        path(f"{below}/pulls/<number:number>/reviewers", pulls.reviewers),
        path(f"{below}/pulls/<number:number>/merge", pulls.merge),
        path(f"{below}/pulls/<number:number>/auto-merge", pulls.auto_merge),
        path(f"{below}/pulls/<number:number>/auto-merge/cancel", pulls.cancel_auto_merge),
        path(f"{below}/pulls/<number:number>/update-branch", pulls.update_branch),
        path(f"{below}/pulls/<number:number>/source-branch/delete", pulls.delete_source_branch),
        path(f"{below}/pulls/<number:number>/source-branch/restore", pulls.restore_source_branch),
        path(f"{below}/pulls/<number:number>/status", pulls.status),
        path(f"{below}/pulls/<number:number>/edit", pulls.edit_pull),
        path(f"{below}/pulls/<number:number>/verdict", pulls.verdict),
        path(f"{below}/threads", threads.threads),
        path(f"{below}/threads/new", threads.new_thread),
        path(f"{below}/threads/<number:number>", threads.thread),
        path(f"{below}/threads/<number:number>/edit", threads.edit_thread),
        path(f"{below}/threads/<number:number>/delete", threads.delete_thread),
        path(f"{below}/threads/<number:number>/versions", threads.thread_versions),
        path(f"{below}/threads/<number:number>/replies", threads.reply),
        path(reply, threads.reply_link),
        path(f"{reply}/reply", threads.reply),
        path(f"{reply}/edit", threads.edit_reply),
        path(f"{reply}/delete", threads.delete_reply),
        path(f"{reply}/versions", threads.reply_versions),
    ]
