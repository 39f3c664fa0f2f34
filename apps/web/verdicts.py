"""The verdict on a pull: the conditions of a merge, and for each whether it is met."""

from __future__ import annotations

from typing import Any, NamedTuple

from apps.pulls.approval import Approval, MergeReadiness, names_approvers
from apps.pulls.serializers import pull_protection_record
from apps.repos.access import RepoAccess
from apps.repos.protection_rules import RULES, CommentCounts


class Condition(NamedTuple):
    """A condition of a merge: the codes of the blockers (`apps/pulls/rules.py`) that it covers, its
    text when it is met, and its remedy when it is not.
    """

    codes: tuple[str, ...]
    met: str
    remedy: str


CONDITIONS = (
    Condition(
        ("pull_closed", "pull_is_draft"),
        "Open and not a draft",
        "Its author, or anybody with write access, can change this.",
    ),
    Condition(
        ("branch_missing",),
        "Both branches exist",
        "Anybody with write access can push the branch again.",
    ),
    Condition(
        ("nothing_to_merge",),
        "Has changes to merge",
        "Push a commit that the target does not have, or close the pull.",
    ),
    Condition(
        ("merge_conflict",),
        "No conflict with the target",
        "Merge the target into the branch, resolve the conflicts, and push.",
    ),
    *(Condition((rule.code,), rule.met, rule.remedy) for rule in RULES),
)
ENDING = {"pull_closed", "pull_already_merged", "branch_missing", "nothing_to_merge"}
ENDING |= {"merge_conflict"}
"""The codes of blockers that keep a pull from becoming ready by itself."""


def verdict_of(readiness: MergeReadiness, access: RepoAccess) -> dict[str, Any]:
    """The context of `_verdict.html`: each condition, met or not, and the record of the API."""
    record = pull_protection_record(readiness, access)
    blockers = {blocker.code: blocker for blocker in readiness.blockers}
    rows = []
    for condition in CONDITIONS:
        is_statuses = "statuses_required" in condition.codes
        if is_statuses and not record["checks"]:
            continue
        if "comments_unresolved" in condition.codes and not record["comments"]["total"]:
            continue
        unmet = [blockers[code] for code in condition.codes if code in blockers]
        row = {
            "is_met": not unmet,
            "text": " ".join(blocker.text for blocker in unmet) or met_text(condition, record),
            "remedy": condition.remedy if unmet else "",
            "paths": [path for blocker in unmet for path in blocker.conflict_paths or ()],
            "is_approval": "approval_required" in condition.codes,
            "is_statuses": is_statuses,
        }
        rows.append(row)
    return {
        "conditions": rows,
        "reporters": sorted(reporters_of(readiness.approval)),
        "writers_can_approve": writers_can_approve(readiness.approval),
        "open_count": sum(not row["is_met"] for row in rows),
        "can_wait": bool(blockers) and not blockers.keys() & ENDING,
        "record": record,
    }


def reporters_of(approval: Approval) -> set[str]:
    """The people whose statuses count; none if a protection accepts those of all writers."""
    requiring = [row for row in approval.protections if row.required_statuses]
    if not all(row.status_reporters for row in requiring):
        return set()
    return {name for row in requiring for name in row.status_reporters}


def writers_can_approve(approval: Approval) -> bool:
    """Whether a protection that lacks approvals accepts them from everybody with write access."""
    lacking = filter(approval.missing, approval.protections)
    return not all(map(names_approvers, lacking))


def met_text(condition: Condition, record: dict[str, Any]) -> str:
    if "approval_required" in condition.codes and not record["is_protected"]:
        return f"No protection on {record['target_branch']}: no approval is required"
    if "approval_required" in condition.codes:
        return f"{record['approval_count']} of {record['required_approvals']} approvals"
    if "comments_unresolved" in condition.codes and record["comments"]["unresolved"]:
        counts = CommentCounts(**record["comments"])
        return f"{counts.text}; this does not block a merge"
    if "comments_unresolved" in condition.codes:
        return CommentCounts(**record["comments"]).text
    if "changes_requested" in condition.codes and record["changes_requested_by"]:
        people = ", ".join(record["changes_requested_by"])
        return (
            f"Changes are requested by {people}; this does not block a merge without a protection"
        )
    return condition.met
