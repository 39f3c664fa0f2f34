"""Keeps the folder of repositories equal to the database; for the worker and `check_repos`."""

from __future__ import annotations

from collections.abc import Iterator
from uuid import UUID

from django.conf import settings

from apps.git import store
from apps.git.new_names import begins_like_a_place
from apps.repos.head import point_head
from apps.repos.models import BRANCHES, TAGS, Fork, ForkStatus, Repo
from apps.repos.models.protection import glob
from apps.repos.models.ref import short_name
from apps.repos.pushes import reconcile
from apps.repos.rules import names_branches

UNCLAIMED = 24 * 3600.0
"""Seconds after which a folder that no row names is nobody's; a fork is copied within minutes."""
AT_ONCE = 500
"""Folders about which the database is asked in one go."""


def sweep(age: float = UNCLAIMED) -> list[str]:
    """Remove folders that no row names and nobody has touched for `age` seconds; their names.

    The folder of a new repository exists before its row is committed, so young ones stay.
    """
    old = [one for one in store.folders(settings.REPOSITORIES_DIR) if store.older_than(one, age)]
    gone = []
    for start in range(0, len(old), AT_ONCE):
        some = {folder: store.uuid_of(folder) for folder in old[start : start + AT_ONCE]}
        claimed = _claimed([uuid for uuid in some.values() if uuid is not None])
        for folder, uuid in some.items():
            if uuid not in claimed:
                store.remove(folder)
                gone.append(folder.name)
    return gone


def _claimed(uuids: list[UUID]) -> set[UUID | None]:
    """Which of them a repository has, or a fork that is still being made."""
    unfinished = [ForkStatus.QUEUED.value, ForkStatus.RUNNING.value]
    repos = Repo.objects.filter(uuid__in=uuids).values_list("uuid", flat=True)
    forks = Fork.objects.filter(repo_uuid__in=uuids, status__in=unfinished)
    return {*repos, *forks.values_list("repo_uuid", flat=True)}


def misleading_names(repo: Repo) -> Iterator[str]:
    """Names that no branch or tag is given any more, in sentences: whoever asks git for such a name
    may get something else. Nothing mends them: people may use them.
    """
    refs = dict.fromkeys(repo.refs.order_by("full_name").values_list("full_name", flat=True))
    patterns = filter(names_branches, repo.protections.values_list("branch", flat=True))
    globs = [glob(pattern) for pattern in patterns]
    for ref in refs:
        name, is_tag = short_name(ref), ref.startswith(TAGS)
        if begins_like_a_place(name):
            yield f"{ref} begins like the full name of another ref"
        if is_tag and BRANCHES + name in refs:
            yield f"the tag {name} is named like a branch: git fetch with that name brings the tag"
        elif is_tag and any(one.fullmatch(name) for one in globs):
            yield f"the tag {name} is named like a protected branch"


def check(repo: Repo, *, fix: bool, age: float) -> Iterator[str]:
    """What differs between a repository's rows and its store, in sentences; mended with `fix`.

    `age` in seconds: what is younger may belong to a push that is under way. `GitError` or
    `OSError` for a store that cannot be read.
    """
    if not repo.git.path.exists():
        raise FileNotFoundError("its store is missing: restore it from a backup")
    if fix and repo.git.remove_leftovers(age):  # first: a lock among them keeps git from the rest
        yield "dead processes had left temporary files"
    if repo.git.head_branch() != repo.default_branch:
        yield f"HEAD is {repo.git.head_branch()}, not {repo.default_branch}"
        if fix:
            point_head(repo)
    stored = dict(repo.refs.values_list("full_name", "sha"))
    if stored != repo.git.refs():
        yield "the stored heads are not git's"
        if fix:
            reconcile(repo=repo)
    if fix and repo.git.mend_config():
        yield "its configuration was an old one"
