"""The commands that git sends over SSH, such as `git-upload-pack '/teams/acme/api.git'`."""

from __future__ import annotations

import re
import shlex
from dataclasses import dataclass
from enum import Enum

from apps.core.slugs import REPO_SLUG, TEAM_SLUG, USERNAME

MOST = 1024
"""Most characters of a command."""
PATH = re.compile(
    rf"/?(teams/{TEAM_SLUG.pattern}|users/{USERNAME.pattern})/({REPO_SLUG.pattern})/?",
    re.IGNORECASE,
)
NO_SHELL = "You have signed in. This server runs git alone: there is no shell."
NO_LFS = (
    "This server has no Git LFS: it stores no large files outside of git. Commit them as they are, "
    "or run `git lfs uninstall` and `git lfs migrate export` first."
)
UNKNOWN = "This server runs git-upload-pack, git-receive-pack and git-upload-archive alone."
NO_PATH = "The address has no repository. It ends in teams/acme/api.git or users/alice/api.git."


class GitCommand(Enum):
    """The programs of git that a client may start."""

    UPLOAD_PACK = "git-upload-pack"
    RECEIVE_PACK = "git-receive-pack"
    UPLOAD_ARCHIVE = "git-upload-archive"


class RefusedCommand(Exception):
    """A command that is not for this server; the text is for the person who sent it."""


@dataclass(frozen=True)
class Request:
    """A program of git, and the path of its repository: `teams/acme` and `api`."""

    command: GitCommand
    owner: str
    slug: str

    @property
    def path(self) -> str:
        return f"{self.owner}/{self.slug}"


def parse_command(text: str | None) -> Request:
    """The request of a command line; None is a shell. `RefusedCommand` for all others."""
    if text is None:
        raise RefusedCommand(NO_SHELL)
    try:
        words = shlex.split(text) if len(text) <= MOST else []
    except ValueError:  # a quote that is not closed
        words = []
    if words[:1] == ["git"]:  # `git upload-pack`, as older clients send it
        words = [f"git-{' '.join(words[1:2])}", *words[2:]]
    if words[:1] == ["git-lfs-authenticate"] or words[:1] == ["git-lfs-transfer"]:
        raise RefusedCommand(NO_LFS)
    if len(words) != 2 or words[0] not in {command.value for command in GitCommand}:
        raise RefusedCommand(UNKNOWN)
    match = PATH.fullmatch(words[1])
    if match is None:
        raise RefusedCommand(NO_PATH)
    slug = match[2].lower().removesuffix(".git")
    return Request(GitCommand(words[0]), match[1].lower(), slug)
