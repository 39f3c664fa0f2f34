"""What the stored heads lead to: commits and annotated tags as columns, so that lists ask no git.

A push or a merge reads them before its lock and stores them with the heads. What it could not
read, and the heads of a repository from before there were such columns, the worker reads.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable
from typing import Any

from django.db import transaction
from django.db.models import QuerySet

from apps.core.locks import lock
from apps.git.facts import GitFacts
from apps.git.objects import Stamp
from apps.git.repo import GitRepo
from apps.git.tips import Tip, read_tips, tip_of
from apps.jobs.worker import OnDone
from apps.repos.models import TAGS, UNREAD, Ref, Repo

AT_ONCE = 300
"""Refs that are filled in one transaction."""
MOST_REFS = 3_000
"""Refs of one repository that one run of the job fills: there is other work to do."""
MOST_REPOS = 100
"""Repositories that one run of it looks at."""
TIP_COLUMNS = (
    *("peeled_sha", "commit_subject", "commit_author", "committed_at"),
    *("tag_message", "tagger_name", "tagger_email", "tagged_at"),
)
logger = logging.getLogger(__name__)


def learn_tips(git: GitRepo, heads: Iterable[tuple[str, str]], facts: GitFacts) -> None:
    """Ask git what these (full name, object) lead to; nothing where it cannot tell.

    What is known is not asked.
    """
    wanted = {
        sha: name.startswith(TAGS) for name, sha in heads if not facts.knows(tip_of, git, sha)
    }
    for sha, tip in read_tips(git, wanted).items():
        facts.know(tip, tip_of, git, sha)


def columns_of(tip: Tip) -> dict[str, Any]:
    """A tip as the columns of `Ref`."""
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
    """Take what these heads lead to from their rows, as far as it is known; one query."""
    for row in heads.exclude(UNREAD):
        tagger = Stamp(row.tagger_name, row.tagger_email, row.tagged_at)
        commit = (str(row.peeled_sha), row.commit_subject, row.commit_author, row.committed_at)
        facts.know(Tip(*commit, row.tag_message, tagger), tip_of, git, row.sha)


def known_columns(git: GitRepo, sha: str, facts: GitFacts) -> dict[str, Any]:
    """The columns for this head; none where nobody has learned what it leads to."""
    return columns_of(facts.ask(tip_of, git, sha)) if facts.knows(tip_of, git, sha) else {}


def fill_tips(repo: Repo, most: int = MOST_REFS) -> int:
    """Ask git for what is not known of a repository's heads, and store it; returns how many.

    A head that moves meanwhile is left to who moves it. Locks the repository.
    """
    filled = 0
    unread = [*repo.refs.filter(UNREAD).order_by("id").values_list("pk", flat=True)[:most]]
    for start in range(0, len(unread), AT_ONCE):
        some, facts = repo.refs.filter(UNREAD, pk__in=unread[start : start + AT_ONCE]), GitFacts()
        learn_tips(repo.git, some.values_list("full_name", "sha"), facts)
        with transaction.atomic():
            lock(repo)
            rows = [row for row in some.all() if facts.knows(tip_of, repo.git, row.sha)]
            for row in rows:
                row.pk = None
                for column, value in known_columns(repo.git, row.sha, facts).items():
                    setattr(row, column, value)
            store_refs(rows)
        filled += len(rows)
    return filled


def store_refs(rows: Iterable[Ref]) -> None:
    """Write these heads, each in the place of the one that has its name in the repository."""
    Ref.objects.bulk_create(
        rows,
        update_conflicts=True,
        unique_fields=["repo", "full_name"],
        update_fields=["sha", "pushed_by", "updated_at", *TIP_COLUMNS],
    )


def fill_all_tips(on_done: OnDone = lambda _: None) -> bool:
    """The job. Which repositories come first is left to chance: one that git cannot read keeps no
    other waiting.
    """
    unread = Ref.objects.filter(UNREAD).order_by().values("repo")
    for repo in Repo.objects.filter(pk__in=unread).order_by("?")[:MOST_REPOS]:
        try:
            filled = fill_tips(repo)
        except Exception:  # one that cannot be read holds up no other
            logger.exception("What the heads of %s lead to could not be read", repo.uuid)
            continue
        if filled:
            on_done(f"{repo.uuid}: read what {filled} heads lead to")
    return False
