"""Which commits the texts of a repository name. git is asked when such a text has been written and
when commits have come, never when it is read.
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
from apps.repos.models import CommitSearch, NamedCommit, Repo
from apps.repos.models.commit import UNSOUGHT

SOUGHT = 1000
"""Names that one search asks git for, the newest of a repository; older ones stay unknown."""
logger = logging.getLogger(__name__)


def note_commits(repo_id: int, kept: str) -> None:
    """Keep what may name commits in a text, by what `markdown.render` made of it, and look for
    them after the commit; the worker does where that fails.

    No statement where there are none, else two, and two more for the first such text. Call it
    before an event is recorded.
    """
    names = {one.commit for one in references(kept) if one.commit}
    if not names:
        return
    rows = [NamedCommit(repo_id=repo_id, name=name) for name in sorted(names)]
    NamedCommit.objects.bulk_create(rows, ignore_conflicts=True)
    if not seek_commits(repo_id):
        first = CommitSearch(repo_id=repo_id, wanted=0)
        CommitSearch.objects.bulk_create([first], ignore_conflicts=True)
        seek_commits(repo_id)  # also if another text was the first, and its search has begun
    # Django names in its log what has failed, and a partial has no name.
    transaction.on_commit(lambda: find_named_commits(repo_id), robust=True)


def seek_commits(repo_id: int) -> bool:
    """Have the names that are not found looked for once more, as commits have come to the
    repository; one statement. False where no text has ever named one.
    """
    return bool(CommitSearch.objects.filter(pk=repo_id).update(wanted=F("wanted") + 1))


def known_commits(names: Collection[tuple[int, str]]) -> QuerySet[NamedCommit]:
    """Those of these (repository, name) that are known, and maybe such a name elsewhere."""
    return NamedCommit.objects.filter(
        repo__in={repo for repo, _ in names}, name__in={name for _, name in names}
    ).exclude(sha="")


def find_named_commits(repo_id: int) -> int:
    """Ask git for the names of this repository that are not found; returns how many it knows.

    What is wanted while git is asked is left to the next search.
    """
    search = CommitSearch.objects.select_related("repo").filter(UNSOUGHT, pk=repo_id).first()
    if search is None:
        return 0
    unknown = NamedCommit.objects.filter(repo=repo_id, sha="").order_by("-pk")
    rows = {row.name: row for row in unknown[:SOUGHT]}
    found = _ask(search.repo, [*rows])
    for name, sha in found.items():
        rows[name].sha = sha
    NamedCommit.objects.bulk_update([rows[name] for name in found], ["sha"])
    CommitSearch.objects.filter(pk=repo_id, done__lt=search.wanted).update(done=search.wanted)
    return len(found)


def _ask(repo: Repo, names: Collection[str]) -> dict[str, str]:
    """Nothing where git cannot tell: the texts are shown all the same, until the next push."""
    if repo.is_empty:
        return {}
    try:
        return find_commits(repo.git, names)
    except GitError as error:
        logger.warning("Commits of %s cannot be looked up: %s", repo.uuid, error)
        return {}


def find_next_commits(on_done: OnDone = lambda _: None) -> bool:
    """The job: one search that is wanted; False when none is."""
    repo_id = CommitSearch.objects.filter(UNSOUGHT).values_list("pk", flat=True).first()
    if repo_id is None:
        return False
    found = find_named_commits(repo_id)
    if found:
        on_done(f"{found} commits found that texts name")
    return True
