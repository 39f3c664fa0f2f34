"""Sentences and examples for the records of code, for `glossary.py`."""

from __future__ import annotations

from typing import Any

SHA = "9f4c2a7be1d05836c4f2907db8e61a3f5c70d924"
EARLIER_SHA = "1b7d90c3e5a2486f0d3c9b5e7a1f2468ace13579"
SITE = "https://guildhall.example.org"
REPO = f"{SITE}/api/v1/teams/acme/repos/hello"
PATH = "Path of the file or folder; bytes that are not UTF-8 are shown as U+FFFD."
PATH_BYTES = "Bytes of a path that is not UTF-8, in URL-safe base64; else absent."
SUBJECT = "First paragraph of the commit message, in one line."
ADDED = "Number of added lines; null for a binary file."
DELETED = "Number of deleted lines; null for a binary file."
NEW_SHA = "SHA of the file's new content; null if the file was deleted."
CHANGE = "How the file changed."

PROPERTIES: dict[str, tuple[str, Any]] = {
    # commits, files and folders
    "sha": ("SHA of the git object; for a submodule, of its commit.", SHA),
    "tree_sha": ("SHA of the commit's tree.", EARLIER_SHA),
    "parents": ("SHAs of the parent commits; a merge has several.", [EARLIER_SHA]),
    "message": (
        "Whole commit message; bytes that are not UTF-8 are shown as U+FFFD.",
        "Greet the world\n",
    ),
    "author": ("Author of the commit.", None),
    "committer": ("Committer of the commit.", None),
    "is_signed": ("Whether the commit has a signature; it is not verified.", False),
    "pull_numbers": ("Numbers of pulls with this commit as head or merge, at most 10.", [42]),
    "stats": ("Size of the change in all files.", None),
    "files": ("Changed files, one page of them.", None),
    "files_truncated": ("Whether more than 3,000 files changed; the pages end there.", False),
    "is_truncated": ("Whether the pages end before all entries are listed.", False),
    "path_base64": (PATH_BYTES, "Y2Fm6Q"),
    "previous_path": ("Path of a renamed file before the change; else null.", None),
    "previous_path_base64": (
        "Bytes of a previous path that is not UTF-8, in URL-safe base64; else absent.",
        "Y2Fm6Q",
    ),
    "previous_sha": ("SHA of the file's previous content; null if it is new.", EARLIER_SHA),
    "previous_mode": ("Mode of the file before the change; null if it is new.", "100644"),
    "mode": ("Mode of the file in git: 100755 is an executable file.", "100644"),
    "is_binary": ("Whether git treats the file as binary.", False),
    "is_too_large": ("Whether the patch is too large to be shown.", False),
    "patch": ("Patch of the file, from the first `@@`; null if it is not shown.", None),
    "type": ("Type of the entry.", None),
    "encoding": ("`base64`; null without content.", "base64"),
    "content": ("Content in base64; null over 1 MiB, and if this is not a file.", "SGVsbG8K"),
    "lfs": ("File that a Git LFS pointer stands for; null if this is not a pointer.", None),
    "oid": ("SHA-256 of the file in Git LFS, in hexadecimal digits.", "5891b5b5" * 8),
    "ref": ("Branch, tag or commit from which the file was read.", "refs/heads/main"),
    "ContentRecord.commit_sha": ("SHA of the commit from which the file was read.", SHA),
    "raw_url": ("Address of the raw content.", f"{REPO}/raw/hello.txt?ref={SHA}"),
    "FileRecord.path": (PATH, "src/hello.txt"),
    "FileRecord.sha": (NEW_SHA, SHA),
    "FileRecord.status": (CHANGE, None),
    "FileRecord.additions": (ADDED, 2),
    "FileRecord.deletions": (DELETED, 1),
    "TreeEntryRecord.path": (PATH, "src/hello.txt"),
    "TreeEntryRecord.name": ("Last part of the path.", "hello.txt"),
    "TreeEntryRecord.size": (
        "Size of a file or symlink in bytes, with `sizes=true`; else null.",
        6,
    ),
    "ContentRecord.path": (PATH, "src/hello.txt"),
    "ContentRecord.name": ("Last part of the path.", "hello.txt"),
    "ContentRecord.size": ("Size in bytes; null for a submodule.", 6),
    "ContentRecord.is_binary": ("Whether the file is binary; null if this is not a file.", False),
    "ContentRecord.target": (
        "Target of a symlink, which is not followed; for a submodule, the SHA of its commit.",
        None,
    ),
    "SignatureRecord.name": ("Name, as recorded in the commit.", "Alice Archer"),
    "SignatureRecord.email": ("E-mail address, as recorded in the commit.", "alice@example.org"),
    "SignatureRecord.date": (
        "Time in ISO 8601 with the offset recorded in the commit; 1970 if it is invalid.",
        "2026-01-31T09:30:00+01:00",
    ),
    "SignatureRecord.username": (
        "Username of the account with this e-mail address; null if there is none.",
        "alice",
    ),
    **dict.fromkeys(
        (
            "CommitRecord.pushed_by_username",
            "SingleCommitRecord.pushed_by_username",
            "PullCommitRecord.pushed_by_username",
            "BlamedCommitRecord.pushed_by_username",
        ),
        ("Username of the account that first pushed the commit; null if unknown.", "bob"),
    ),
    "CommitRecord.subject": (SUBJECT, "Greet the world"),
    "PullCommitRecord.subject": (SUBJECT, "Greet the world"),
    "SingleCommitRecord.subject": (SUBJECT, "Greet the world"),
    "ComparisonRecord.base_sha": ("SHA of the commit before the dots.", EARLIER_SHA),
    "ComparisonRecord.head_sha": ("SHA of the commit after the dots.", SHA),
    "ComparisonRecord.merge_base_sha": (
        "SHA of the best common ancestor; null if there is none.",
        EARLIER_SHA,
    ),
    "ahead_by": ("Number of commits that the head has and the base has not.", 2),
    "behind_by": ("Number of commits that the base has and the head has not.", 0),
    "commits": ("Newest 250 commits that the head has and the base has not.", None),
    "ComparisonRecord.commits_truncated": ("Whether there are more commits than these.", False),
    "total_lines": ("Number of lines in the file.", 120),
    "ranges": ("Ranges of lines, in order, each from one commit.", None),
    "original_path": ("Path of the file in that commit.", "src/hello.txt"),
    "original_path_base64": (
        "Bytes of an original path that is not UTF-8, in URL-safe base64; else absent.",
        "Y2Fm6Q",
    ),
    "original_line": ("Number of the first line of the range in that commit.", 1),
    "BlamedRangeRecord.commit": ("Commit that last changed these lines.", None),
    "BlamedRangeRecord.from": ("First line of the range.", 1),
    "BlamedRangeRecord.to": ("Last line of the range.", 12),
    "BlamedCommitRecord.subject": ("First line of the commit message.", "Greet the world"),
    "BlameRecord.commit_sha": ("SHA of the commit from which the file was read.", SHA),
    "BlameRecord.path": (PATH, "src/hello.txt"),
    "BlameRecord.from": ("First line in the answer.", 1),
    "BlameRecord.to": ("Last line in the answer; 0 for an empty file.", 120),
    # branches and tags
    "BranchRecord.sha": ("SHA of the branch's newest commit.", SHA),
    "SingleBranchRecord.sha": ("SHA of the branch's newest commit.", SHA),
    "is_default": ("Whether this is the default branch.", True),
    "BranchRecord.is_protected": ("Whether a protection matches the branch.", True),
    "SingleBranchRecord.is_protected": ("Whether a protection matches the branch.", True),
    "open_pull_numbers": (
        "Numbers of open and draft pulls from this branch into this repository, at most 10.",
        [12],
    ),
    "BranchRecord.commit": ("Newest commit of the branch.", None),
    "SingleBranchRecord.commit": ("Newest commit of the branch.", None),
    "TagRecord.commit": (
        "Commit that the tag points to; null if it points to another object.",
        None,
    ),
    "TipRecord.sha": ("Full SHA of the commit.", SHA),
    "TipRecord.subject": (
        "First paragraph of the commit message; null while it is not known yet.",
        "Say hello",
    ),
    "author_name": ("Author's name, as recorded in the commit; may be null.", "Alice Archer"),
    "committed_at": ("Time of the commit, with its own offset; may be null.", None),
    "pushed_by_uuid": ("UUID of the account that pushed this; null if unknown.", None),
    "pushed_by_username": ("Username of the account that pushed this; null if unknown.", "alice"),
    "SingleBranchRecord.ahead_by": (
        "Number of commits that the branch has and the default branch has not; may be null.",
        2,
    ),
    "SingleBranchRecord.behind_by": (
        "Number of commits that the default branch has and the branch has not; may be null.",
        0,
    ),
    "SingleBranchRecord.protections": ("Protections that match the branch.", []),
    "TagRecord.sha": ("SHA of the tagged commit; null if the tag is of a file or folder.", SHA),
    "tag_sha": ("SHA of the annotated tag's object; null for a lightweight tag.", EARLIER_SHA),
    "TagRecord.message": (
        "Message of an annotated tag; null for a lightweight tag.",
        "Version 1.0",
    ),
    "message_truncated": ("Whether the message was cut.", False),
    "TagRecord.tagger": ("Tagger of an annotated tag, as recorded in it; may be null.", None),
    "TaggerRecord.name": ("Name of the tagger.", "Alice Archer"),
    "TaggerRecord.date": ("Time with the tagger's own offset; null if it is invalid.", None),
    # commits and files of a pull
    "PullVersionRecord.version": ("Number of the version: 1 for the first head.", 2),
    "PullVersionRecord.head_sha": ("Newest commit of the source when the version was made.", SHA),
    "PullVersionRecord.base_sha": (
        "Newest commit of the target when the version was made; null without a target.",
        EARLIER_SHA,
    ),
    "merge_base_sha": (
        "Merge base of source and target; null without common history, or until git has found it.",
        EARLIER_SHA,
    ),
    "PullVersionRecord.pushed_by_uuid": (
        "UUID of the account that pushed the version; null if unknown.",
        None,
    ),
    "PullVersionRecord.pushed_by_username": (
        "Username of the account that pushed the version; null if unknown.",
        "bob",
    ),
    "is_forced": (
        "Whether commits of the previous version are missing; null if git could not tell.",
        False,
    ),
    "PullVersionRecord.commit_count": ("Number of commits; null until it is known.", 1),
    "PullVersionRecord.additions": ("Number of added lines; null until it is known.", 12),
    "PullVersionRecord.deletions": ("Number of deleted lines; null until it is known.", 4),
    "PullVersionRecord.changed_files": ("Number of changed files; null until it is known.", 1),
    "PullCommitPage.version": ("Version with these commits; null without a head.", 2),
    "PullCommitPage.commit_count": ("Number of all commits, including those not listed.", 1),
    "commits_truncated": ("Whether there are more commits than are listed.", False),
    "PullFilePage.version": ("Version with these changes; null without a head.", 2),
    "PullFilePage.changed_files": ("Number of all changed files, including those not listed.", 1),
    "PullFileRecord.path": (PATH, "hello.txt"),
    "PullFileRecord.sha": (NEW_SHA, SHA),
    "PullFileRecord.status": (CHANGE, None),
    "PullFileRecord.additions": (ADDED, 2),
    "PullFileRecord.deletions": (DELETED, 1),
    "is_rebased": (
        "With `from`: whether the two versions have different merge bases; else null.",
        None,
    ),
    "HeadMoved.version": ("Number of the version with this head.", 2),
}
