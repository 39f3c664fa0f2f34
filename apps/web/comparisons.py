"""`…/pulls/<n>/compare/1...3`: two versions of a pull, their commits in pairs and their files."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from django.http import HttpResponse
from django.utils.safestring import SafeString

from apps.core.errors import Invalid
from apps.core.pagination import count_parameter, with_parameters
from apps.git.range_diff import CommitPair
from apps.pulls import versions
from apps.pulls.models import Pull, PullVersion
from apps.pulls.queries import get_pull
from apps.repos.access import RepoAccess
from apps.web.code import who_asks
from apps.web.colours import escaped
from apps.web.decorators import repo_page
from apps.web.diff_tables import CLASSES, table
from apps.web.diffs import (
    LINES_MAX,
    SINGLE_FILE_MAX,
    UNFOLDED_MAX,
    shown_difference,
)
from apps.web.frame import render_repo_page
from apps.web.hidden_characters import MARK
from apps.web.pulls import MOST_VERSIONS, difference_of, pull_header
from apps.web.responses import PageRequest, redirect_to

TABLE_START = '<table class="lines"><colgroup><col class="n"><col></colgroup><tbody>'


@repo_page()
def choose_versions(request: PageRequest, access: RepoAccess, number: int) -> HttpResponse:
    """Redirect to the comparison that the form names; by default of the last two versions."""
    pull = get_pull(access.repo, number)
    new = count_parameter(request.GET, "to", pull.last_version)
    old = count_parameter(request.GET, "from", max(1, new - 1))
    if pull.last_version:
        return redirect_to(f"/{access.repo.path}/pulls/{number}/compare/{old}...{new}")
    header = pull_header(access, pull, "compare")
    return render_repo_page(request, access, "pull_compare", tab="pulls", **header)


@repo_page()
def compare_versions(
    request: PageRequest, access: RepoAccess, number: int, text: str
) -> HttpResponse:
    """Two versions of a pull; without the pairs of commits if there are too many."""
    pull = get_pull(access.repo, number)
    old, new = versions.get_versions(pull, text)
    address = f"/{access.repo.path}/pulls/{number}/compare/{text}"
    difference = difference_of(new, old, who_asks(request))
    return render_repo_page(
        request,
        access,
        "pull_compare",
        tab="pulls",
        **pull_header(access, pull, "compare"),
        old=old,
        new=new,
        versions=versions_to_choose(pull, old, new),
        pairs=pairs_of(request, old, new, address),
        is_rebased=versions.is_rebased(old, new),
        diff=shown_difference(request, replace(difference, address=address)),
    )


def versions_to_choose(pull: Pull, *chosen: PullVersion) -> list[PullVersion]:
    """The newest versions, newest first, and the chosen ones."""
    newest = [*pull.versions.order_by("-version")[:MOST_VERSIONS]]
    numbers = {version.version for version in newest}
    others = {row.version: row for row in chosen if row.version not in numbers}
    return [*newest, *(others[number] for number in sorted(others, reverse=True))]


def pairs_of(
    request: PageRequest, old: PullVersion, new: PullVersion, address: str
) -> list[dict[str, Any]] | None:
    """The pairs of commits; None if git cannot compare so much in time."""
    try:
        pairs = versions.commit_pairs(old, new, who_asks(request))
    except Invalid:
        return None
    return [*shown_pairs(request, pairs, (old.version, new.version), address)]


def shown_pairs(
    request: PageRequest, pairs: Sequence[CommitPair], numbers: tuple[int, int], address: str
) -> list[dict[str, Any]]:
    """The context of each pair. The page has the differences of the first pairs, up to `LINES_MAX`
    rows; with `?commit=`, that of the pair with this new commit alone.
    """
    only, rows_left = request.GET.get("commit"), LINES_MAX
    contexts = []
    for pair in pairs:
        lines = (pair.diff or b"").decode("utf-8", "replace").split("\n")[:-1]
        sha = pair.new.sha if pair.new else ""
        has_table = sha == only if only else len(lines) <= rows_left
        rows_left -= len(lines) if has_table else 0
        html = pair_table(lines[:SINGLE_FILE_MAX], numbers) if lines and has_table else ""
        one = pair.new or pair.old
        context = {
            "pair": pair,
            "subject": (one and one.subject) or "(no message)",
            "table": html,
            "row_count": len(lines),
            "is_folded": len(lines) > UNFOLDED_MAX and not only,
            "is_cut": len(lines) > SINGLE_FILE_MAX,
            "has_hidden": MARK in html,
            "alone": f"{address}?{with_parameters(request.GET, commit=sha, page=None)}",
        }
        contexts.append(context)
    return contexts


def pair_table(lines: Sequence[str], numbers: tuple[int, int]) -> SafeString:
    """The difference of two patches as a table. A line of one patch alone has the number of its
    version.
    """
    return table(TABLE_START, (pair_row(line, numbers) for line in lines))


def pair_row(line: str, numbers: tuple[int, int]) -> str:
    sign, text = line[:1], escaped(line[1:])
    if line.startswith("@@"):
        heading = escaped(line[2:].strip())
        return f'<tr class="hunk"><td class="n"></td><td>{heading}</td></tr>\n'
    kind = CLASSES.get(sign, "")
    if not kind:
        return f'<tr><td class="n"></td><td class="c">{text}</td></tr>\n'
    version = numbers[sign == "+"]
    return (
        f'<tr><td class="n{kind}" data-n="v{version}"></td><td class="c{kind}">{text}</td></tr>\n'
    )
