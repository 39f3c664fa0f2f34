"""Compares repositories on disk with the database, for the worker and `check_repos`."""

from __future__ import annotations

from collections.abc import Iterator
from uuid import UUID

from django.conf import settings

from apps.git import store
from apps.git.new_names import begins_like_full_name
from apps.repos.head import point_head
from apps.repos.models import BRANCHES, TAGS, Fork, ForkStatus, Repo
from apps.repos.models.protection import glob
from apps.repos.models.ref import short_name
from apps.repos.pushes import reconcile
from apps.repos.rules import names_branches

UNCLAIMED = 24 * 3600.0
"""Seconds after which a folder without a row is removed. Copying a fork takes only minutes."""
AT_ONCE = 500
"""Most folders that one query looks up."""


def sweep(age: float = UNCLAIMED) -> list[str]:
    """Remove folders without a row that are at least `age` seconds old; return their names.

    The folder of a new repository exists before its row is committed, so new folders stay.
    """
    folders = store.folders(settings.REPOSITORIES_DIR)
    old = [folder for folder in folders if store.older_than(folder, age)]
    removed = []
    for start in range(0, len(old), AT_ONCE):
        uuids = {folder: store.uuid_of(folder) for folder in old[start : start + AT_ONCE]}
        used = _used([uuid for uuid in uuids.values() if uuid is not None])
        for folder, uuid in uuids.items():
            if uuid not in used:
                store.remove(folder)
                removed.append(folder.name)
    return removed


def _used(uuids: list[UUID]) -> set[UUID | None]:
    """The uuids among these of repositories, or of forks that are being made."""
    unfinished = [ForkStatus.QUEUED.value, ForkStatus.RUNNING.value]
    repos = Repo.objects.filter(uuid__in=uuids).values_list("uuid", flat=True)
    forks = Fork.objects.filter(repo_uuid__in=uuids, status__in=unfinished)
    return {*repos, *forks.values_list("repo_uuid", flat=True)}


def misleading_names(repo: Repo) -> Iterator[str]:
    """Sentences about existing names that new branches and tags may not have, because git may
    resolve them to another ref, where file names ignore case at least. They are not repaired:
    people may use them.
    """
    refs = list(repo.refs.order_by("full_name").values_list("full_name", flat=True))
    branches = {short_name(ref).lower() for ref in refs if ref.startswith(BRANCHES)}
    patterns = filter(names_branches, repo.protections.values_list("branch", flat=True))
    globs = [glob(pattern.lower()) for pattern in patterns]
    for ref in refs:
        name, is_tag = short_name(ref), ref.startswith(TAGS)
        if begins_like_full_name(name):
            yield f"{ref} begins like the full name of another ref"
        if is_tag and name.lower() in branches:
            yield f"the tag {name} is named like a branch: git fetch with that name brings the tag"
        elif is_tag and any(pattern.fullmatch(name.lower()) for pattern in globs):
            yield f"the tag {name} is named like a protected branch"


def check(repo: Repo, *, fix: bool, age: float) -> Iterator[str]:
    """Sentences about differences between a repository's rows and its folder. `fix` repairs them.

    `age`: seconds. Younger leftovers may belong to a push in progress and stay. Raises `GitError`
    or `OSError` if the folder cannot be read.
    """
    if not repo.git.path.exists():
        raise FileNotFoundError("its folder is missing: restore it from a backup")
    # Leftovers go first, because a lock among them would block the rest.
    if fix and repo.git.remove_leftovers(age):
        yield "killed processes left temporary files"
    if repo.git.head_branch() != repo.default_branch:
        yield f"HEAD is {repo.git.head_branch()}, not {repo.default_branch}"
        if fix:
            point_head(repo)
    stored = dict(repo.refs.values_list("full_name", "sha"))
    if stored != repo.git.refs():
        yield "the stored heads differ from git's refs"
        if fix:
            reconcile(repo=repo)
    if fix and repo.git.mend_config():
        yield "its configuration was outdated"
