"""References in texts, and targets of links: finding those that a reader may see.

A target that does not exist and a target that the reader may not see are treated alike.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from functools import reduce
from itertools import islice
from operator import or_
from typing import Any, TypeAlias

from django.db.models import CharField, Q, QuerySet, Value
from django.db.models.functions import Cast

from apps.accounts.models import NOT_GONE, User
from apps.core import markdown
from apps.core.errors import Invalid
from apps.core.markdown import Reference
from apps.git.history import find_commits
from apps.repos.access import RepoAccess
from apps.repos.commits import known_commits
from apps.repos.models import Repo
from apps.repos.models.repo import RepoQuerySet
from apps.threads import rules
from apps.threads.models import Reply, Thread, ThreadQuerySet, segment

REFERENCES_MAX = 5000
"""Distinct references that are looked up for one answer; the others stay text."""
REPOS_MAX = 100
"""Other repositories that one answer may link to; references to more repositories stay text."""
CHECKED_KINDS = {"thread", "pull", "reply", "commit"}
"""The kinds of links whose targets are looked up."""
TARGET = re.compile(
    rf"(?:(?P<repo>{rules.REPO})[#/@])?#?(?:(?P<thread>[0-9]+)/)?(?P<name>[0-9A-Fa-f]+)"
)
Numbers = dict[int, set[int]]
"""Numbers of threads, by the id of their repository."""
Text: TypeAlias = tuple[Repo, str]
"""The HTML that `markdown.render` made, and the text's repository, whose owner is loaded."""


@dataclass(frozen=True)
class LinkTarget:
    """The target of a reference."""

    url: str
    repo_id: int | None = None
    """The id of the target's repository, if it is another one: only its readers get the link."""


def urls(access: RepoAccess, base: str, texts: Iterable[str]) -> dict[str, str]:
    """The URLs of the references in these texts that the caller may follow, by reference text.
    `texts`: HTML that `markdown.render` made in the repository, whose owner is loaded.
    """
    readable = Repo.objects.visible_to(access.principal)
    targets = link_targets([(access.repo, html) for html in texts], base, readable)
    return {text: target.url for (_, text), target in targets.items()}


def link_targets(
    texts: Iterable[Text], base: str, repos: RepoQuerySet
) -> dict[tuple[int, str], LinkTarget]:
    """The targets of the references in these texts, by the id of the text's repository and the
    reference text. `repos`: the other repositories that references may lead to. One or two queries.
    """
    distinct = dict.fromkeys(
        (repo, reference) for repo, html in texts for reference in markdown.references(html)
    )
    references = [*islice(distinct, REFERENCES_MAX)]
    paths = {reference.repo for _, reference in references if reference.repo}
    others = repos.by_path(islice(paths, REPOS_MAX))
    keys = {
        (repo, reference): key
        for repo, reference in references
        if (key := _key_of(repo, reference, others))
    }
    names = _names(set(keys.values()))
    return {
        (repo.pk, reference.text): _link_target(repo, reference, others, names[key], base)
        for (repo, reference), key in keys.items()
        if key in names
    }


Key: TypeAlias = tuple[str, int, str]
"""A row to look up: `person`, `thread` or `commit`; the id of its repository; its name."""


def _key_of(repo: Repo, reference: Reference, others: dict[str, Repo]) -> Key | None:
    """None for a reference to another repository that is not among `others`."""
    if reference.username:
        return ("person", 0, reference.username.lower())
    if reference.commit:
        return ("commit", repo.pk, reference.commit)
    home = others.get(reference.repo) if reference.repo else repo
    return ("thread", home.pk, str(reference.number)) if reference.number and home else None


def _names(keys: Collection[Key]) -> dict[Key, str]:
    """The username, the kind of thread, or the full commit of each key that exists; one query."""
    people, commits = ([key for key in keys if key[0] == table] for table in ("person", "commit"))
    numbers: Numbers = defaultdict(set)
    for table, repo, name in keys:
        if table == "thread":
            numbers[repo].add(int(name))
    parts: list[QuerySet[Any, Any]] = []
    if people:
        users = User.objects.filter(NOT_GONE, username_key__in=[name for _, _, name in people])
        parts.append(users.values_list(Value("person"), Value(0), "username_key", "username"))
    if numbers:
        number = Cast("number", CharField())
        parts.append(_threads(numbers).values_list(Value("thread"), "repo", number, "kind"))
    if commits:
        shas = known_commits([(repo, name) for _, repo, name in commits])
        parts.append(shas.values_list(Value("commit"), "repo", "name", "sha"))
    rows = parts[0].union(*parts[1:], all=True) if parts else []
    return {(table, repo, key): name for table, repo, key, name in rows}


def _link_target(
    repo: Repo, reference: Reference, others: dict[str, Repo], name: str, base: str
) -> LinkTarget:
    if reference.username:
        return LinkTarget(f"{base}/users/{name}")
    if reference.commit:
        return LinkTarget(f"{base}/{repo.path}/commits/{name}")
    home = others[reference.repo] if reference.repo else repo
    url = f"{base}/{home.path}{segment(name, reference.number or 0)}"
    return LinkTarget(url, None if home.pk == repo.pk else home.pk)


def _threads(numbers: Numbers) -> ThreadQuerySet:
    """The existing threads with these numbers, of which there is at least one."""
    conditions = (Q(repo=repo, number__in=of_repo) for repo, of_repo in numbers.items())
    return Thread.objects.existing().filter(reduce(or_, conditions))


@dataclass(frozen=True)
class ParsedTarget:
    """The target of a link, read from its text."""

    kind: str
    repo: Repo
    number: int = 0
    """The number of the thread or pull."""
    reply: int = 0
    commit: str = ""


def check_links(access: RepoAccess, thread: Thread, links: Sequence[dict[str, str]]) -> None:
    """422 `link_target_not_found` for a link in this thread with a target that does not exist, or
    that the caller may not read. At most three queries, and one git process for each repository
    with commits.
    """
    checked = [
        (link["kind"], link["target"])
        for link in links
        if link["kind"] in CHECKED_KINDS and not rules.is_web_address(link["target"])
    ]
    targets = _parse_targets(access, thread, checked)
    checks = (_threads_exist, _replies_exist, _commits_exist)
    if targets is None or not all(exist(targets) for exist in checks):
        text = "links: A target is not there, or you may not read it."
        raise Invalid("link_target_not_found", text)


def _parse_targets(
    access: RepoAccess, thread: Thread, links: list[tuple[str, str]]
) -> list[ParsedTarget] | None:
    """The targets of links, given as kind and text; None if one is in no readable repository."""
    matches = [(kind, TARGET.fullmatch(text)) for kind, text in links]
    paths = {match["repo"].lower() for _, match in matches if match and match["repo"]}
    readable = Repo.objects.visible_to(access.principal)
    repos = {"": access.repo, **readable.by_path(islice(paths, REPOS_MAX))}
    targets = []
    for kind, match in matches:
        repo = repos.get((match["repo"] or "").lower()) if match else None
        if match is None or repo is None:
            return None
        targets.append(_parsed_target(kind, repo, match, thread))
    return targets


def _parsed_target(kind: str, repo: Repo, match: re.Match[str], thread: Thread) -> ParsedTarget:
    if kind == "commit":
        return ParsedTarget(kind, repo, commit=match["name"].lower())
    if kind == "reply":
        number = int(match["thread"] or thread.number)
        return ParsedTarget(kind, repo, number, reply=int(match["name"]))
    return ParsedTarget(kind, repo, int(match["name"]))


def _threads_exist(targets: list[ParsedTarget]) -> bool:
    threads = [target for target in targets if target.kind in {"thread", "pull"}]
    numbers: Numbers = defaultdict(set)
    for target in threads:
        numbers[target.repo.pk].add(target.number)
    rows = _threads(numbers).values_list("repo", "number", "kind") if numbers else []
    kinds = {(repo, number): {kind, "thread"} for repo, number, kind in rows}
    return all(target.kind in kinds.get((target.repo.pk, target.number), ()) for target in threads)


def _replies_exist(targets: list[ParsedTarget]) -> bool:
    of_replies = [target for target in targets if target.kind == "reply"]
    replies = {(target.repo.pk, target.number, target.reply) for target in of_replies}
    condition = Q()
    for repo, number, reply in replies:
        condition |= Q(thread__repo=repo, thread__number=number, number=reply)
    if not condition:
        return True
    live = Reply.objects.live().filter(condition, thread__deleted_at=None)
    return live.count() == len(replies)


def _commits_exist(targets: list[ParsedTarget]) -> bool:
    names_by_repo: dict[Repo, set[str]] = defaultdict(set)
    for target in targets:
        if target.kind == "commit":
            names_by_repo[target.repo].add(target.commit)
    return all(
        not repo.is_empty and len(find_commits(repo.git, names)) == len(names)
        for repo, names in names_by_repo.items()
    )
