"""What texts and links refer to, as far as a reader may see it.

What is absent and what the reader may not see are one and the same here.
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

from apps.accounts.models import User
from apps.core import markdown
from apps.core.errors import Invalid
from apps.core.markdown import Reference
from apps.git.history import find_commits
from apps.repos.access import RepoAccess
from apps.repos.commits import known_commits
from apps.repos.models import Repo
from apps.repos.models.repo import RepoQuerySet
from apps.threads import rules
from apps.threads.models import Reply, Thread, ThreadKind, ThreadQuerySet, segment

LOOKED_UP = 5000
"""Different references that are looked up for one answer; those that follow stay text."""
REPOS_MAX = 100
"""Other repositories that one answer may lead to; references to others stay text."""
CHECKED = {"thread", "pull", "reply", "commit"}
"""The kinds of links whose targets are looked up."""
TARGET = re.compile(
    rf"(?:(?P<repo>{rules.REPO})[#/@])?#?(?:(?P<thread>[0-9]+)/)?(?P<name>[0-9A-Fa-f]+)"
)
Numbers = dict[int, set[int]]
"""Ids of repositories, and numbers there."""
Text: TypeAlias = tuple[Repo, str]
"""What `markdown.render` made of a text, and its repository, whose owner is loaded."""
Found: TypeAlias = tuple[Repo, Reference]
"""A reference, and the repository of the text that has it."""


@dataclass(frozen=True)
class Place:
    """Where a reference leads."""

    address: str
    repo: int | None = None
    """The id of the other repository that it is in: only for who may read that."""


def addresses(by: RepoAccess, base: str, kept: Iterable[str]) -> dict[str, str]:
    """Where the references of these texts lead that the caller may follow, by what is written.

    `kept`: what `markdown.render` made of texts in the repository of `by`, whose owner is loaded.
    `base`: see `base_url`. Queries as those of `places`.
    """
    texts, readable = [(by.repo, html) for html in kept], Repo.objects.visible_to(by.principal)
    return {text: place.address for (_, text), place in places(texts, base, readable).items()}


def places(texts: Iterable[Text], base: str, repos: RepoQuerySet) -> dict[tuple[int, str], Place]:
    """Where the references of these texts lead, by the id of the text's repository and what is
    written; to other repositories than their own only to those of `repos`.

    One query, and one before it for other repositories, if there are any.
    """
    every = dict.fromkeys((repo, one) for repo, html in texts for one in markdown.references(html))
    found = [*islice(every, LOOKED_UP)]
    others = _repos(repos, {one.repo for _, one in found if one.repo})
    keys = ((repo, one, _key(repo, one, others)) for repo, one in found)
    asked = {(repo, one): key for repo, one, key in keys if key}
    known = _known(set(asked.values()))
    return {
        (repo.pk, one.text): _place(repo, one, others, known[key], base)
        for (repo, one), key in asked.items()
        if key in known
    }


Key: TypeAlias = tuple[str, int, str]
"""What is looked up: a person, a thread or a commit, the id of its repository, and its name."""


def _key(repo: Repo, one: Reference, others: dict[str, Repo]) -> Key | None:
    """None for what is in another repository that the reader does not know."""
    if one.username:
        return ("person", 0, one.username.lower())
    if one.commit:
        return ("commit", repo.pk, one.commit)
    home = others.get(one.repo) if one.repo else repo
    return ("thread", home.pk, str(one.number)) if one.number and home else None


def _known(keys: Collection[Key]) -> dict[Key, str]:
    """Of what there is of these: the username, the kind of the thread, the full name of the commit;
    one query.
    """
    people, commits = ([key for key in keys if key[0] == sort] for sort in ("person", "commit"))
    numbers: Numbers = defaultdict(set)
    for sort, repo, name in keys:
        if sort == "thread":
            numbers[repo].add(int(name))
    rows: list[QuerySet[Any, Any]] = []
    if people:
        named = User.objects.filter(username_key__in=[name for _, _, name in people])
        rows.append(named.values_list(Value("person"), Value(0), "username_key", "username"))
    if numbers:
        number = Cast("number", CharField())
        rows.append(_threads(numbers).values_list(Value("thread"), "repo", number, "kind"))
    if commits:
        shas = known_commits([(repo, name) for _, repo, name in commits])
        rows.append(shas.values_list(Value("commit"), "repo", "name", "sha"))
    found = rows[0].union(*rows[1:], all=True) if rows else []
    return {(sort, repo, name): text for sort, repo, name, text in found}


def _place(repo: Repo, one: Reference, others: dict[str, Repo], known: str, base: str) -> Place:
    """Where a reference leads of which this is known."""
    if one.username:
        return Place(f"{base}/users/{known}")
    if one.commit:
        return Place(f"{base}/{repo.path}/commits/{known}")
    home = others[one.repo] if one.repo else repo
    address = f"{base}/{home.path}{segment(known, one.number or 0)}"
    return Place(address, None if home.pk == repo.pk else home.pk)


def _repos(repos: RepoQuerySet, paths: Collection[str]) -> dict[str, Repo]:
    """Those of these repositories that have one of these paths, in lower case; one query."""
    named = Q()
    for path in islice(paths, REPOS_MAX):
        kind, owner, slug = path.split("/")
        key = "owner_team__slug" if kind == "teams" else "owner_user__username_key"
        named |= Q(slug=slug, **{key: owner})
    if not named:
        return {}
    rows = repos.filter(named)
    return {repo.path.lower(): repo for repo in rows.select_related("owner_team", "owner_user")}


def _threads(numbers: Numbers) -> ThreadQuerySet:
    """The threads of these numbers, one at least, that there are."""
    named = (Q(repo=repo, number__in=wanted) for repo, wanted in numbers.items())
    return Thread.objects.existing().filter(reduce(or_, named))


def _kinds(numbers: Numbers) -> dict[tuple[int, int], str]:
    """Their kinds; one query."""
    rows = _threads(numbers).values_list("repo", "number", "kind") if numbers else []
    return {(repo, number): kind for repo, number, kind in rows}


@dataclass(frozen=True)
class Target:
    """What a link of a checked kind leads to, in a repository."""

    kind: str
    repo: Repo
    number: int = 0
    """Of the thread or pull."""
    reply: int = 0
    commit: str = ""


def check_links(by: RepoAccess, thread: Thread, links: Sequence[dict[str, str]]) -> None:
    """Whether what these links of a reply in this thread lead to is there for the caller.

    422 `link_target_not_found`, in the same words for what is absent and what is hidden. A query
    each for repositories, threads and replies, and a git for each repository with commits.
    """
    checked = [
        (link["kind"], link["target"])
        for link in links
        if link["kind"] in CHECKED and not rules.is_web_address(link["target"])
    ]
    targets = _targets(by, thread, checked)
    if any(target is None for target in targets) or not _exist([one for one in targets if one]):
        text = "links: A target is not there, or you may not read it."
        raise Invalid("link_target_not_found", text)


def _targets(by: RepoAccess, thread: Thread, checked: list[tuple[str, str]]) -> list[Target | None]:
    """The targets of well-formed links; None where the repository is not to be read."""
    parts = [(kind, TARGET.fullmatch(text)) for kind, text in checked]
    paths = {found["repo"].lower() for _, found in parts if found and found["repo"]}
    repos = {"": by.repo, **_repos(Repo.objects.visible_to(by.principal), paths)}
    return [_target(kind, found, thread, repos) for kind, found in parts]


def _target(
    kind: str, found: re.Match[str] | None, thread: Thread, repos: dict[str, Repo]
) -> Target | None:
    path = found["repo"].lower() if found and found["repo"] else ""
    if found is None or path not in repos:
        return None
    repo, name = repos[path], found["name"]
    if kind == "commit":
        return Target(kind, repo, commit=name.lower())
    if kind == "reply":
        return Target(kind, repo, int(found["thread"] or thread.number), reply=int(name))
    return Target(kind, repo, int(name))


def _exist(targets: list[Target]) -> bool:
    """Whether all of them are there."""
    return _threads_exist(targets) and _replies_exist(targets) and _commits_exist(targets)


def _threads_exist(targets: list[Target]) -> bool:
    wanted = [one for one in targets if one.kind in {"thread", "pull"}]
    numbers: Numbers = defaultdict(set)
    for one in wanted:
        numbers[one.repo.pk].add(one.number)
    kinds = _kinds(numbers)
    found = [kinds.get((one.repo.pk, one.number)) for one in wanted]
    return all(
        kind is not None and (one.kind == "thread" or kind == ThreadKind.PULL)
        for one, kind in zip(wanted, found, strict=True)
    )


def _replies_exist(targets: list[Target]) -> bool:
    wanted = {(one.repo.pk, one.number, one.reply) for one in targets if one.kind == "reply"}
    named = Q()
    for repo, number, reply in wanted:
        named |= Q(thread__repo=repo, thread__number=number, number=reply)
    if not named:
        return True
    live = Reply.objects.live().filter(named, thread__deleted_at=None)
    return live.count() == len(wanted)


def _commits_exist(targets: list[Target]) -> bool:
    wanted: dict[Repo, set[str]] = defaultdict(set)
    for one in targets:
        if one.kind == "commit":
            wanted[one.repo].add(one.commit)
    return all(
        not repo.is_empty and len(find_commits(repo.git, names)) == len(names)
        for repo, names in wanted.items()
    )
