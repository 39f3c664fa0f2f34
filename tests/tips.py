"""Stored heads of refs."""

from __future__ import annotations

from apps.git.tips import read_tips
from apps.repos.models import TIP_COLUMNS, Repo
from apps.repos.tips import columns_of


def check_tips(repo: Repo) -> None:
    """Each row has the same head as git."""
    rows = [*repo.refs.all()]
    tips = read_tips(repo.git, {row.sha: row.is_tag for row in rows})
    stored = {row.full_name: {name: getattr(row, name) for name in TIP_COLUMNS} for row in rows}
    assert stored == {row.full_name: columns_of(tips[row.sha]) for row in rows}
