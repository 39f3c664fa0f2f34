"""`…/commits`: the list of commits, and one commit with its changes."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby
from typing import Any

from django.http import HttpResponse

from apps.accounts.principal import Principal
from apps.browse.commits import History, SingleCommit, read_commit
from apps.browse.names import Revision, invalid_ref, pulls_of_code, shown_path
from apps.browse.pushers import Push, pushers_of
from apps.browse.serializers import accounts_of
from apps.git.log import Commit
from apps.git.repo import is_sha
from apps.repos.access import RepoAccess
from apps.repos.models import Repo
from apps.web.addresses import history_address, path_address
from apps.web.bylines import shown_person
from apps.web.code import find_location, moment_of, ref_menu, who_asks
from apps.web.decorators import repo_page
from apps.web.diffs import Difference, shown_difference
from apps.web.frame import render_repo_page
from apps.web.responses import PageRequest, page_number, page_of


@repo_page()
def commits(request: PageRequest, access: RepoAccess) -> HttpResponse:
    """The commits of a branch, tag or commit, newest first; with `?path=`, those that change it."""
    repo = access.repo
    if repo.is_empty:
        return render_repo_page(request, access, "commits", tab="code")
    location = find_location(request, access, request.GET.get("path", ""))
    rows: Any = History(repo, Revision("", location.commit), who_asks(request), location.path)
    page = page_of(request, page_number(request), rows, lambda commit: commit)
    return render_repo_page(
        request,
        access,
        "commits",
        tab="code",
        location=location,
        path=shown_path(location.path),
        files=path_address(repo, "files", location.path, location.ref),
        action=f"/{repo.path}/commits",
        all_commits=history_address(repo, b"", location.ref),
        menu=ref_menu(repo, location.shown_ref),
        page=page,
        days=days_of(repo, page["results"], access.principal),
    )


def days_of(repo: Repo, commits: Sequence[Commit], principal: Principal) -> list[dict[str, Any]]:
    """The commits under the days on which they were made; two queries for accounts and pushers."""
    accounts = accounts_of((one.author.email for one in commits), principal)
    pushers = pushers_of(repo, [one.sha for one in commits])
    rows = [shown_commit(one, accounts, pushers.get(one.sha)) for one in commits]
    return [
        {"date": date, "commits": list(group)}
        for date, group in groupby(rows, key=lambda one: one["at"].date())
    ]


def shown_commit(commit: Commit, accounts: dict[str, Any], push: Push | None) -> dict[str, Any]:
    """What one line of a list needs."""
    return {
        "sha": commit.sha,
        "subject": commit.subject or "(no message)",
        **shown_person(commit.author.name, commit.author.email, accounts, push),
        "at": moment_of(commit.committer.date),
    }


@repo_page()
def commit(request: PageRequest, access: RepoAccess, sha: str) -> HttpResponse:
    """A commit with its message, and its changes since its first parent."""
    if not is_sha(sha):
        raise invalid_ref(sha)
    repo, who = access.repo, who_asks(request)
    single = read_commit(repo, sha, who)
    found = single.commit
    author, committer = found.author, found.committer
    accounts = accounts_of([author.email, committer.email], access.principal)
    push = pushers_of(repo, [sha]).get(sha)
    return render_repo_page(
        request,
        access,
        "commit",
        tab="code",
        commit=shown_commit(found, accounts, push),
        body=body_of(found),
        authored_at=moment_of(author.date),
        committer=shown_person(committer.name, committer.email, accounts, push),
        is_same_person=author.email == committer.email,
        parents=found.parents,
        is_signed=single.is_signed,
        pulls=pulls_of_code().numbers_with(repo, sha),
        files=path_address(repo, "files", b"", sha),
        diff=shown_difference(request, difference_of(repo, single, who)),
    )


def difference_of(repo: Repo, single: SingleCommit, who: str) -> Difference:
    """The changes of a commit since its first parent."""
    commit, changes = single.commit, single.changes
    return Difference(
        repo=repo,
        source=repo,
        git=repo.git,
        old=next(iter(commit.parents), None),
        new=commit.sha,
        files=changes.files,
        total=changes.total,
        additions=changes.additions,
        deletions=changes.deletions,
        address=f"/{repo.path}/commits/{commit.sha}",
        cache_key=(),
        throttle_key=who,
    )


def body_of(commit: Commit) -> str:
    """The message without its subject, the first paragraph."""
    return commit.message.strip("\n").partition("\n\n")[2].strip("\n")
