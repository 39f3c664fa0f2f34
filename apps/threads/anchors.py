"""The lines of a file that a reply is about."""

from __future__ import annotations

from enum import StrEnum

from django.db import models
from django.db.models import Index, Q

from apps.git.lines import Lines, Outcome

ANCHOR_ROW = {
    name: f"anchor__{name}"
    for name in (
        "commit_sha",
        "path",
        "side",
        "start_line",
        "line",
        "snippet",
        "review_uuid",
        "current_commit_sha",
        "current_path",
        "current_start_line",
        "current_line",
        "outdated_reason",
    )
}
"""The columns of a reply's anchor: all are null for a reply without one."""


class Side(StrEnum):
    """The side of a diff on which lines stand."""

    NEW = "new"
    OLD = "old"


ANCHOR_IS_DUE = Q(due_at__isnull=False)
ANCHOR_PATH_MAX = 2000
"""Most bytes of a path: PostgreSQL has no index entries over 2,704 bytes."""


class Anchor(models.Model):
    """The lines of a commit that a reply is about, and where they are at the pull's current head.

    Only the current place changes; `apps/pulls/following.py` writes it. Lines count from 1.
    """

    reply = models.OneToOneField(
        "threads.Reply", on_delete=models.CASCADE, primary_key=True, related_name="anchor"
    )
    # Stored here too, because lists of a thread's anchors are sorted by path, line and number.
    thread = models.ForeignKey(
        "threads.Thread", on_delete=models.CASCADE, related_name="anchors", db_index=False
    )
    number = models.BigIntegerField()
    """The number of the reply."""
    commit_sha = models.CharField(max_length=40)
    """The head of a version of the pull; on the old side, the merge base of a version."""
    path = models.BinaryField()
    side = models.CharField(max_length=3, default=Side.NEW.value)
    start_line = models.PositiveIntegerField()
    line = models.PositiveIntegerField()
    """The last line."""
    blob_sha = models.CharField(max_length=40, null=True)  # noqa: DJ001 - null: it was imported
    """The file in the commit."""
    snippet = models.JSONField(default=list)
    """The last of the lines, and some lines before them. Empty for a deleted reply."""
    review_uuid = models.UUIDField(null=True)
    """The review that the comment is part of."""
    current_commit_sha = models.CharField(max_length=40, null=True)  # noqa: DJ001 - null: imported
    """The commit for which the columns below hold: the head of the pull, or its merge base on the
    old side, unless the anchor is due."""
    current_path = models.BinaryField(null=True)
    current_start_line = models.PositiveIntegerField(null=True)
    current_line = models.PositiveIntegerField(null=True)
    # Null is its value in the API for lines that are still there.
    outdated_reason = models.CharField(max_length=12, null=True)  # noqa: DJ001 - see above
    due_at = models.DateTimeField(null=True)
    """When the worker looks for the lines at the current head; null if they have been looked for.
    """

    class Meta:
        indexes = [
            Index(fields=["thread", "path", "line", "number"], name="anchor_list"),
            Index(fields=["due_at"], name="anchor_due", condition=ANCHOR_IS_DUE),
        ]

    def __str__(self) -> str:
        return f"anchor of {self.reply_id}"

    @property
    def lines(self) -> Lines:
        """The lines in the commit that was commented."""
        return Lines(bytes(self.path), self.start_line, self.line)

    def set_outcome(self, commit: str, outcome: Outcome) -> None:
        """Set where the lines are in a commit, without saving. The anchor is no longer due."""
        self.current_commit_sha, self.due_at = commit, None
        lines = outcome if isinstance(outcome, Lines) else None
        self.current_path = lines.path if lines else None
        self.current_start_line = lines.start if lines else None
        self.current_line = lines.end if lines else None
        self.outdated_reason = None if isinstance(outcome, Lines) else str(outcome)
