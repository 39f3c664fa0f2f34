"""`…/commits`, `…/compare`, `…/branches` and `…/tags`; one commit with its changes."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby
from typing import Any

from django.http import HttpResponse

from apps.accounts.principal import Principal
from apps.browse import refs
from apps.browse.commits import History, read_commit
from apps.browse.comparison import compare as compare_ends
from apps.browse.comparison import find_ends
from apps.browse.names import invalid_ref, path_in_tree, revision
from apps.browse.pushers import Push, pushers_of
from apps.browse.serializers import accounts_of, branch_record, tag_record
from apps.core.errors import ApiError, NotFound
from apps.git.log import Commit
from apps.git.repo import is_sha
from apps.repos.access import RepoAccess
from apps.repos.models import BRANCHES, TAGS, Repo
from apps.repos.models.ref import short_name
from apps.repos.queries import pulls_of_code
from apps.statuses.queries import checks_record, latest_statuses, states_of
from apps.web.code import (
    Location,
    history_address,
    moment_of,
    path_address,
    ref_menu,
    shown_person,
    who_asks,
    with_query,
)
from apps.web.decorators import repo_page
from apps.web.diffs import Difference, shown_difference
from apps.web.frame import render_repo_page
from apps.web.responses import PageRequest, page_of

BRANCH_ROWS = 30
"""Branches per page: for each, git counts the commits ahead of and behind the default branch."""
MOST_STATUSES = 100
"""Most contexts on the page of a commit."""


@repo_page()
def commits(request: PageRequest, access: RepoAccess) -> HttpResponse:
    """The commits of a branch, tag or commit, newest first; with `?path=`, those that change it."""
    repo = access.repo
    if repo.is_empty:
        return render_repo_page(request, access, "commits", tab="code")
    ref, raw = request.GET.get("ref", ""), request.GET.get("path", "")
    path = path_in_tree(raw, request.GET.get("path_base64"))
    rows: Any = History(repo, revision(repo, ref or None), who_asks(request), path)
    page = page_of(request, rows)
    location = Location(repo, ref, rows.commit, path)
    return render_repo_page(
        request,
        access,
        "commits",
        tab="code",
        location=location,
        path=location.shown_path,
        files=location.address(),
        action=f"/{repo.path}/commits",
        all_commits=history_address(repo, b"", location.ref),
        menu=ref_menu(repo, location.shown_ref),
        page=page,
        days=days_of(repo, page["results"], access.principal),
    )


def days_of(repo: Repo, commits: Sequence[Commit], principal: Principal) -> list[dict[str, Any]]:
    """The commits under the days on which they were made; three queries."""
    accounts = accounts_of((one.author.email for one in commits), principal)
    pushers = pushers_of(repo, [one.sha for one in commits])
    states = states_of([(repo.pk, one.sha) for one in commits])
    rows = [
        shown_commit(one, accounts, pushers.get(one.sha))
        | {"checks": checks_record(states, repo.pk, one.sha)}
        for one in commits
    ]
    days = groupby(rows, key=lambda one: one["at"].date())
    return [{"date": date, "commits": list(group)} for date, group in days]


def shown_commit(commit: Commit, accounts: dict[str, Any], push: Push | None) -> dict[str, Any]:
    return {
        "sha": commit.sha,
        "subject": commit.subject or "(no message)",
        **shown_person(commit.author, accounts, push),
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
    statuses = [*latest_statuses(repo, sha)[: MOST_STATUSES + 1]]
    old, address = next(iter(found.parents), None), f"/{repo.path}/commits/{sha}"
    difference = Difference(repo, old, sha, single.changes, address, who)
    return render_repo_page(
        request,
        access,
        "commit",
        tab="code",
        commit=shown_commit(found, accounts, push),
        body=found.message.strip("\n").partition("\n\n")[2].strip("\n"),
        authored_at=moment_of(author.date),
        committer=shown_person(committer, accounts, push),
        is_same_person=author.email == committer.email,
        parents=found.parents,
        is_signed=single.is_signed,
        statuses=statuses[:MOST_STATUSES],
        more_statuses=len(statuses) > MOST_STATUSES,
        pulls=pulls_of_code().numbers_with(repo, sha),
        files=path_address(repo, "files", b"", sha),
        diff=shown_difference(request, difference),
    )


@repo_page()
def compare(request: PageRequest, access: RepoAccess) -> HttpResponse:
    """A form for base and head, and their comparison, or the reason why there is none."""
    repo = access.repo
    base = request.GET.get("base") or repo.default_branch
    head = request.GET.get("head", "")
    comparison, error = comparison_or_reason(request, access, base, head) if head else (None, None)
    return render_repo_page(
        request,
        access,
        "compare",
        tab="code",
        status=error.status if error else 200,
        headers=error.headers if error else None,
        base=base,
        head=head,
        menu=ref_menu(repo, base),
        comparison=comparison,
        error=error,
        pulls=pulls_of_code().open_numbers(repo, [head]).get(head, []) if comparison else [],
        new_pull=with_query(f"/{repo.path}/pulls/new", {"base": base, "head": head}),
    )


def comparison_context(
    request: PageRequest, access: RepoAccess, base: str, head: str
) -> dict[str, Any]:
    """The context of `_comparison.html`; the head may be in a fork. 404, 422, 503."""
    ends = find_ends(access, f"{base}...{head}", who_asks(request))
    comparison = compare_ends(ends, direct=False)
    difference = Difference(
        ends.repo,
        comparison.start,
        comparison.head,
        comparison.changes,
        address=f"/{ends.repo.path}/compare",
        throttle_key=ends.throttle_key,
        source=ends.source,
        git=ends.git,
        cache_key=ends.question("rows"),
    )
    return {
        "ahead": comparison.ahead,
        "behind": comparison.behind,
        "source": ends.source,
        "days": days_of(ends.source, comparison.commits, access.principal),
        "more_commits": comparison.ahead - len(comparison.commits),
        "diff": shown_difference(request, difference),
    }


def comparison_or_reason(
    request: PageRequest, access: RepoAccess, base: str, head: str
) -> tuple[dict[str, Any] | None, ApiError | None]:
    """The context of a comparison, or the error, for a page that shows more than the comparison."""
    if "..." in base or not base or not head:
        return None, NotFound("not_found", "Choose two branches, tags or commits.")
    try:
        return comparison_context(request, access, base, head), None
    except ApiError as error:
        return None, error


@repo_page()
def branches(request: PageRequest, access: RepoAccess) -> HttpResponse:
    """The branches, most recently pushed first; `?search=` filters by a part of the name."""
    repo, search = access.repo, search_text(request)
    rows: Any = refs.list_branches(repo.pk)
    rows = rows.in_order("-updated_at")
    page = page_of(request, rows.search(search) if search else rows, size=BRANCH_ROWS)
    rows_of_page = page["results"]
    patterns = refs.protected_patterns(repo)
    pulls = pulls_of_code().open_numbers(repo, [short_name(ref.full_name) for ref in rows_of_page])
    states = states_of([(repo.pk, ref.sha) for ref in rows_of_page])
    distances = refs.distances_from_default(repo, rows_of_page, who_asks(request))
    page["results"] = [
        branch_record(ref, repo.default_branch, patterns, pulls)
        | {"checks": checks_record(states, repo.pk, ref.sha)}
        # None if git did not tell the distance in time
        | dict(zip(("ahead", "behind"), distances.get(ref.sha) or (None, None), strict=True))
        for ref in rows_of_page
    ]
    return render_repo_page(request, access, "branches", tab="code", page=page, search=search)


@repo_page()
def tags(request: PageRequest, access: RepoAccess) -> HttpResponse:
    """The tags, most recently pushed first; `?search=` filters by a part of the name."""
    rows: Any = refs.list_tags(access.repo)
    search = search_text(request)
    page = page_of(request, rows.search(search) if search else rows, tag_item)
    name_refs(access.repo, page["results"])
    return render_repo_page(request, access, "tags", tab="code", page=page, search=search)


def tag_item(ref: Any) -> dict[str, Any]:
    """An item of the list: the start of the tag's message, and the tag's date or its commit's."""
    record = tag_record(ref)
    at = (record["tagger"] or {}).get("date") or (record["commit"] or {}).get("committed_at")
    summary = (record["message"] or "").strip().partition("\n\n")[0]
    return {**record, "summary": summary, "at": moment_of(at) if at else record["updated_at"]}


def name_refs(repo: Repo, tags: list[dict[str, Any]]) -> None:
    """Add the names of tags in addresses, as `ref`: the full one if a branch has the short one."""
    branches = repo.refs.filter(full_name__in=[BRANCHES + tag["name"] for tag in tags])
    taken = {*branches.values_list("full_name", flat=True)}
    for tag in tags:
        name = tag["name"]
        is_free = BRANCHES + name not in taken and not name.startswith("refs/")
        tag["ref"] = name if is_free else TAGS + name


def search_text(request: PageRequest) -> str:
    return request.GET.get("search", "").replace("\0", "")
