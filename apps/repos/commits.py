"""Finds the commits that texts of a repository name. git is asked when such a text is written and
when commits are pushed, never when a text is read.
"""

from __future__ import annotations

import logging
from collections.abc import Collection

from django.db import transaction
from django.db.models import F, QuerySet

from apps.core.markdown import references
from apps.git.history import find_commits
from apps.git.run import GitError
from apps.jobs.worker import OnDone
from apps.repos.models import UNSOUGHT, CommitSearch, NamedCommit

SOUGHT = 1000
"""Most names of a repository that one search looks up, newest first. Older ones stay unknown."""
logger = logging.getLogger(__name__)


def note_commits(repo_id: int, html: str) -> None:
    """Store the possible names of commits in a text, and look them up after the transaction.

    `html` is the text as `markdown.render` made it. If the lookup fails, the worker repeats it.
    Takes no statement for a text without names, else two, and two more for the repository's first.
    Call it before an event is recorded.
    """
    names = {reference.commit for reference in references(html) if reference.commit}
    if not names:
        return
    rows = [NamedCommit(repo_id=repo_id, name=name) for name in sorted(names)]
    NamedCommit.objects.bulk_create(rows, ignore_conflicts=True)
    if not seek_commits(repo_id):
        first = CommitSearch(repo_id=repo_id, wanted=0)
        CommitSearch.objects.bulk_create([first], ignore_conflicts=True)
        seek_commits(repo_id)  # if a concurrent text was first, its search may have begun
    # A lambda, because Django logs the name of a failed callback, and a partial has none.
    transaction.on_commit(lambda: find_named_commits(repo_id), robust=True)


def seek_commits(repo_id: int) -> bool:
    """Request another search for missing names; False if no text has ever named a commit."""
    return bool(CommitSearch.objects.filter(pk=repo_id).update(wanted=F("wanted") + 1))


def known_commits(names: Collection[tuple[int, str]]) -> QuerySet[NamedCommit]:
    """The found commits of these (repository, name) pairs, and perhaps of other combinations."""
    return NamedCommit.objects.filter(
        repo__in={repo for repo, _ in names}, name__in={name for _, name in names}
    ).exclude(sha="")


def find_named_commits(repo_id: int) -> int:
    """Look up the repository's names that are not found yet; return how many git found.

    Names that are added while git runs are left to the next search.
    """
    search = CommitSearch.objects.select_related("repo").filter(UNSOUGHT, pk=repo_id).first()
    if search is None:
        return 0
    unknown = NamedCommit.objects.filter(repo=repo_id, sha="").order_by("-pk")
    rows = {row.name: row for row in unknown[:SOUGHT]}
    repo, shas = search.repo, dict[str, str]()
    try:
        shas = {} if repo.is_empty else find_commits(repo.git, [*rows])
    except GitError as error:  # none are found until the next push
        logger.warning("Commits of %s cannot be looked up: %s", repo.uuid, error)
    for name, sha in shas.items():
        rows[name].sha = sha
    NamedCommit.objects.bulk_update([rows[name] for name in shas], ["sha"])
    CommitSearch.objects.filter(pk=repo_id, done__lt=search.wanted).update(done=search.wanted)
    return len(shas)


def find_next_commits(on_done: OnDone = lambda _: None) -> bool:
    """The job: run one requested search; return False if there is none."""
    repo_id = CommitSearch.objects.filter(UNSOUGHT).values_list("pk", flat=True).first()
    if repo_id is None:
        return False
    if count := find_named_commits(repo_id):
        on_done(f"{count} commits found that texts name")
    return True
