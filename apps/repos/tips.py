"""Stores the commits and annotated tags of heads as columns of `Ref`, so that lists need no git.

A push or a merge reads them before its lock and stores them with the heads. The worker fills the
columns that could not be read then.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable
from typing import Any

from django.db import transaction
from django.db.models import QuerySet

from apps.accounts.models import NOT_GONE
from apps.core.locks import lock
from apps.git.cache import GitFacts
from apps.git.repo import GitRepo
from apps.git.tips import Stamp, Tip, read_tips, tip_of
from apps.jobs.worker import OnDone
from apps.repos.models import TAGS, TIP_COLUMNS, UNREAD, Ref, Repo

AT_ONCE = 300
"""Most refs that are filled in one transaction."""
MOST_REFS = 3_000
"""Most refs of one repository that one run of the job fills, so that other jobs get their turn."""
MOST_REPOS = 100
"""Most repositories of one run of the job."""
logger = logging.getLogger(__name__)


def learn_tips(git: GitRepo, heads: Iterable[tuple[str, str]], facts: GitFacts) -> None:
    """Read the tips of these (full name, object) pairs from git into `facts`.

    Known tips are not read again. Tips that git cannot read are left out.
    """
    may_be_tag = {
        sha: name.startswith(TAGS) for name, sha in heads if not facts.knows(tip_of, git, sha)
    }
    for sha, tip in read_tips(git, may_be_tag).items():
        facts.know(tip, tip_of, git, sha)


def columns_of(tip: Tip) -> dict[str, Any]:
    """The columns of `Ref` for a tip."""
    return {
        "peeled_sha": tip.commit,
        "commit_subject": tip.subject,
        "commit_author": tip.author,
        "committed_at": tip.committed_at,
        "tag_message": tip.message,
        "tagger_name": tip.tagger.name,
        "tagger_email": tip.tagger.email,
        "tagged_at": tip.tagger.at,
    }


def know_stored(git: GitRepo, heads: QuerySet[Ref], facts: GitFacts) -> None:
    """Read the stored tips of these heads into `facts`; one query."""
    for row in heads.exclude(UNREAD):
        tagger = Stamp(row.tagger_name, row.tagger_email, row.tagged_at)
        commit = (str(row.peeled_sha), row.commit_subject, row.commit_author, row.committed_at)
        facts.know(Tip(*commit, row.tag_message, tagger), tip_of, git, row.sha)


def known_columns(git: GitRepo, sha: str, facts: GitFacts) -> dict[str, Any]:
    """The columns for this head; empty if its tip is not in `facts`."""
    return columns_of(facts.ask(tip_of, git, sha)) if facts.knows(tip_of, git, sha) else {}


def fill_tips(repo: Repo, most: int = MOST_REFS) -> int:
    """Read and store missing tips of a repository's heads; return how many were stored.

    Heads that move meanwhile are skipped: the push stores them. Locks the repository.
    """
    filled = 0
    unread = [*repo.refs.filter(UNREAD).order_by("id").values_list("pk", flat=True)[:most]]
    for start in range(0, len(unread), AT_ONCE):
        batch = repo.refs.filter(UNREAD, pk__in=unread[start : start + AT_ONCE])
        facts = GitFacts()
        learn_tips(repo.git, batch.values_list("full_name", "sha"), facts)
        with transaction.atomic():
            lock(repo)
            rows = [row for row in batch.all() if facts.knows(tip_of, repo.git, row.sha)]
            for row in rows:
                row.pk = None
                for column, value in known_columns(repo.git, row.sha, facts).items():
                    setattr(row, column, value)
            store_refs(rows)
        filled += len(rows)
    return filled


def store_refs(rows: Iterable[Ref]) -> None:
    """Insert these heads, or update the rows of the same repository and name."""
    Ref.objects.bulk_create(
        rows,
        update_conflicts=True,
        unique_fields=["repo", "full_name"],
        update_fields=["sha", "pushed_by", "updated_at", *TIP_COLUMNS],
    )


def fill_all_tips(on_done: OnDone = lambda _: None) -> bool:
    """The job: fill missing tips. The order of repositories is random, so that unreadable ones do
    not block the others.
    """
    unread = Ref.objects.filter(UNREAD).order_by().values("repo")
    for repo in Repo.objects.filter(NOT_GONE, pk__in=unread).order_by("?")[:MOST_REPOS]:
        try:
            filled = fill_tips(repo)
        except Exception:  # does not block the other repositories
            logger.exception("The tips of %s could not be read", repo.uuid)
            continue
        if filled:
            on_done(f"{repo.uuid}: read the tips of {filled} heads")
    return False
