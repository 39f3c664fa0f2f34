"""THE page table: each line leads from an address to the function that answers it."""

from __future__ import annotations

from django.urls import path

from apps.web import (
    branches,
    commits,
    compare,
    files,
    home,
    invites,
    passwords,
    pull_contents,
    pulls,
    reference,
    replies,
    repo,
    settings,
    signin,
    teams,
    threads,
    tokens,
    users,
)

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
    path("teams", teams.teams, name="teams"),
    path("teams/<team_slug:team_slug>", teams.team),
    path("teams/<team_slug:team_slug>/~members", teams.members),
    path("teams/<team_slug:team_slug>/~members/<username:member>/role", teams.set_role),
    path("teams/<team_slug:team_slug>/~members/<username:member>/remove", teams.remove_member),
    path("users/<username:username>", users.user),
]
for owner in ("teams/<team_slug:team_slug>", "users/<username:username>"):
    below = f"{owner}/<repo_slug:repo_slug>"
    urlpatterns += [
        path(f"{below}.git", repo.clone_address),
        path(below, repo.repo),
        path(f"{below}/files", files.files),
        path(f"{below}/files/<tree_path:path>", files.files),
        path(f"{below}/raw/<tree_path:path>", files.raw),
        path(f"{below}/commits", commits.commits),
        path(f"{below}/commits/<segment:sha>", commits.commit),
        path(f"{below}/branches", branches.branches),
        path(f"{below}/compare", compare.compare),
        path(f"{below}/pulls", pulls.pulls),
        path(f"{below}/pulls/new", pulls.new_pull),
        path(f"{below}/pulls/<number:number>", pulls.pull),
        path(f"{below}/pulls/<number:number>/commits", pull_contents.pull_commits),
        path(f"{below}/pulls/<number:number>/files", pull_contents.pull_files),
        path(f"{below}/pulls/<number:number>/reviews", pulls.review),
        path(f"{below}/pulls/<number:number>/merge", pulls.merge),
        path(f"{below}/pulls/<number:number>/status", pulls.status),
        path(f"{below}/pulls/<number:number>/edit", pulls.edit_pull),
        path(f"{below}/threads", threads.threads),
        path(f"{below}/threads/new", threads.new_thread),
        path(f"{below}/threads/<number:number>", threads.thread),
        path(f"{below}/threads/<number:number>/edit", threads.edit_thread),
        path(f"{below}/threads/<number:number>/delete", threads.delete_thread),
        path(f"{below}/threads/<number:number>/versions", threads.thread_versions),
        path(f"{below}/threads/<number:number>/replies", replies.reply),
        path(f"{below}/threads/<number:number>/replies/<number:to>", replies.reply_link),
        path(f"{below}/threads/<number:number>/replies/<number:to>/reply", replies.reply),
        path(f"{below}/threads/<number:number>/replies/<number:to>/edit", replies.edit_reply),
        path(f"{below}/threads/<number:number>/replies/<number:to>/delete", replies.delete_reply),
        path(
            f"{below}/threads/<number:number>/replies/<number:to>/versions", replies.reply_versions
        ),
    ]
