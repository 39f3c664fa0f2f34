"""What a pull's page says of merging it: every condition, met or not, in the order of the API."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from apps.pulls.approval import Approval, MergeReadiness, names_approvers
from apps.pulls.serializers import pull_protection_record
from apps.repos.access import RepoAccess
from apps.repos.protection_rules import RULES


@dataclass(frozen=True)
class Condition:
    """One condition of a merge: the codes of `apps/pulls/rules.py` that say it is not met, what is
    said when it is, and who can change it when it is not.
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


def verdict_of(readiness: MergeReadiness, access: RepoAccess) -> dict[str, Any]:
    """For the template: the conditions with whether each is met, and the record of the API."""
    record = pull_protection_record(readiness, access)
    blockers = {blocker.code: blocker for blocker in readiness.blockers}
    rows = []
    for condition in CONDITIONS:
        found = [blockers[code] for code in condition.codes if code in blockers]
        rows.append(
            {
                "is_met": not found,
                "text": " ".join(one.text for one in found)
                if found
                else met_text(condition, record),
                "remedy": condition.remedy if found else "",
                "paths": [path for one in found for path in one.conflict_paths or ()],
                "is_approval": "approval_required" in condition.codes,
            }
        )
    return {
        "conditions": rows,
        "writers_can_approve": writers_can_approve(readiness.approval),
        "open_count": sum(not row["is_met"] for row in rows),
        "record": record,
    }


def writers_can_approve(approval: Approval) -> bool:
    """Whether a protection that lacks approvals takes them of everybody who may write."""
    lacking = filter(approval.missing, approval.protections)
    return not all(map(names_approvers, lacking))


def met_text(condition: Condition, record: dict[str, Any]) -> str:
    """What is said of a condition that is met."""
    if "approval_required" in condition.codes and not record["is_protected"]:
        return f"No protection on {record['target_branch']}: no approval is required"
    if "approval_required" in condition.codes:
        return f"{record['approval_count']} of {record['required_approvals']} approvals"
    if "changes_requested" in condition.codes and record["changes_requested_by"]:
        people = ", ".join(record["changes_requested_by"])
        return (
            f"Changes are requested by {people}; this does not block a merge without a protection"
        )
    return condition.met
