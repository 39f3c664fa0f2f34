"""Rules about statuses."""

from __future__ import annotations

import re
from collections.abc import Iterable
from urllib.parse import urlsplit

from apps.core.errors import git_failed
from apps.core.lookup import Missing
from apps.git.repo import is_sha
from apps.git.run import GitError
from apps.repos.models import Repo
from apps.statuses.models import NO_STATUS, StatusState

URL_CHARACTERS = re.compile(r"[\x21-\x7e]*")


def url_problem(text: str) -> str | None:
    """The reason why a status cannot link to this; None if it can."""
    try:
        parts = urlsplit(text)
        is_web = parts.scheme in {"http", "https"} and bool(parts.hostname)
    except ValueError:
        is_web = False
    if is_web and URL_CHARACTERS.fullmatch(text):
        return None
    return "Must be an address that begins with http:// or https://."


def combined(states: Iterable[str]) -> str:
    """The state of a commit from the latest status of each context."""
    present = {*states}
    if present & {StatusState.FAILURE, StatusState.ERROR}:
        return StatusState.FAILURE
    if StatusState.PENDING in present:
        return StatusState.PENDING
    return StatusState.SUCCESS if present else NO_STATUS


def check_commit(repo: Repo, sha: str) -> None:
    """404 unless the repository has stored this commit, by its full name; 503 if git fails."""
    try:
        exists = is_sha(sha) and repo.git.has_commit(sha)
    except GitError as error:
        raise git_failed(error) from None
    if not exists:
        raise Missing("commit", sha, repo.path)
