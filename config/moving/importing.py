"""Adds a repository from an archive: all of it, or nothing.

git checks its objects first. Then one transaction writes the rows. It records one event, pings
nobody and sends no mail.
"""

from __future__ import annotations

import hashlib
import re
from collections import Counter, defaultdict
from collections.abc import Iterator
from fcntl import LOCK_SH
from itertools import groupby
from operator import itemgetter
from typing import Any
from uuid import UUID, uuid4

from django.utils import timezone

from apps.accounts.models import User
from apps.core.rendered import rendered
from apps.core.slugs import PREFIX, UidConverter
from apps.git import store
from apps.git.cache import GitFacts
from apps.git.repo import GitRepo
from apps.pulls.heads import update_from_tips, update_refs_on_commit
from apps.pulls.models import (
    ACTIVE,
    IS_ACTIVE,
    Pull,
    PullVersion,
    Review,
)
from apps.pulls.versions import write_versions
from apps.repos.actions import import_repo
from apps.repos.commits import note_commits
from apps.repos.models import Approver, Protection, Repo
from apps.repos.protection_rules import check_settings, defaults
from apps.repos.quota import check_import
from apps.teams.models import Team
from apps.threads.anchors import Anchor
from apps.threads.models import (
    DEPTH_MAX,
    Reply,
    ReplyStatus,
    ReplyVersion,
    Thread,
    ThreadVersion,
    ancestor_paths,
    child_path,
)
from apps.uploads import files
from apps.uploads.models import Upload
from apps.uploads.rules import check_size, find_type
from apps.uploads.uses import note_uses
from config.moving.authors import NOBODY, Authors
from config.moving.exporting import BATCH, in_batches
from config.moving.reading import ArchiveReader

Line = dict[str, Any]


def import_archive(
    archive: ArchiveReader, owner: Team | User, authors: Authors, base: str, slug: str | None = None
) -> Repo:
    """Add the repository of the archive to the space of its owner. `base`: scheme and host of this
    site. `slug`: None for that of the source.

    Errors: `ValueError` for a bad archive, `GitError`, `OSError`, those of `actions.import_repo`.
    """
    check_import(archive.bundle_size or 0, owner)
    values = {**archive.repository, "uuid": uuid4()}
    values["slug"] = slug or values["slug"]
    git = Repo(uuid=values["uuid"]).git
    made = git.unfinished(uuid4().hex)
    fill = Importer(archive, authors, base).fill
    source = f"{archive.manifest['source']}/{archive.manifest['path']}"
    try:
        make_folder(archive, made)
        # The worker would remove an unfinished folder after a day, and files at its next sweep.
        with store.tidy_lock(made.path, LOCK_SH), files.removal_lock(LOCK_SH):
            save_files(archive)
            return import_repo(owner=owner, values=values, made=made, source=source, fill=fill)
    finally:
        store.remove(made.path)
        if not Repo.objects.filter(uuid=values["uuid"]).exists():
            store.remove(git.path)


def make_folder(archive: ArchiveReader, made: GitRepo) -> None:
    """Make the unfinished folder of the repository. `GitError`, `OSError`."""
    branch = archive.repository["default_branch"]
    if archive.bundle_size is None:
        made.create(branch)
    else:
        made.create_from_bundle(archive.copy_bundle, branch)


def save_files(archive: ArchiveReader) -> None:
    """Store the files of uploads before the transaction, since a bucket may answer slowly. If the
    import fails, the worker removes them. `ValueError`, `OSError`, 413, 422.
    """
    saved = set()
    for line in archive.lines("uploads"):
        content, digest = archive.upload(line["sha256"]), line["sha256"]
        check_size(len(content))
        find_type(line["filename"], content)  # refuses some
        if digest in saved:
            continue
        if hashlib.sha256(content).hexdigest() != digest:
            raise ValueError(f"The content of the upload {digest} is another.")
        files.save(digest, content)
        saved.add(digest)


class Importer:
    """Writes the rows of one repository."""

    repo: Repo

    def __init__(self, archive: ArchiveReader, authors: Authors, base: str) -> None:
        self.archive, self.authors, self.base = archive, authors, base
        source = re.escape(archive.manifest["source"])
        self.addresses = re.compile(rf"({source})?{PREFIX}/uploads/({UidConverter.regex})")
        self.uploads: dict[UUID, UUID] = {}
        """The new uuid of each upload."""
        self.threads: dict[int, tuple[int, UUID, int]] = {}
        """Id, uuid and author of each thread by its number."""
        self.companions: set[int] = set()
        self.pulls: dict[int, int] = {}
        """The id of each pull by its number."""
        self.comments: dict[UUID, list[int]] = defaultdict(list)
        """The comments on lines of each review, by its uuid in the archive."""

    def fill(self, repo: Repo) -> None:
        """Write all rows. `ValueError`."""
        self.repo = repo
        self.add_uploads()
        self.add_threads()
        self.add_thread_versions()
        self.add_replies()
        self.add_reply_versions()
        self.add_pulls()
        self.check_kept_refs()
        self.add_pull_versions()
        self.add_reviews()
        self.add_protections()
        self.follow_branches()
        last = max([archive_last(self.archive), *self.threads])
        Repo.objects.filter(pk=repo.pk).update(last_number=last)

    # Texts

    def moved(self, text: str) -> str:
        """The text with the new addresses of its uploads."""

        def address(match: re.Match[str]) -> str:
            uuid = self.uploads.get(UUID(match[2]))
            return f"{self.base if match[1] else ''}{PREFIX}/uploads/{uuid}" if uuid else match[0]

        return self.addresses.sub(address, text)

    def moved_links(self, links: list[Line]) -> list[Line]:
        return [{**link, "target": self.moved(link["target"])} for link in links]

    def note(self, uuid: UUID, body: str, *further: str, by: int | None, html: str = "") -> None:
        """Store what a text refers to: uploads and commits."""
        note_uses(self.repo.pk, uuid, body, *further, by=by)
        note_commits(self.repo.pk, html)

    # Rows

    def add_uploads(self) -> None:
        for line in self.archive.lines("uploads"):
            content = self.archive.upload(line["sha256"])
            upload = Upload(
                repo=self.repo,
                created_by_id=self.authors.id_of(line["created_by_username"]),
                filename=line["filename"],
                content_type=find_type(line["filename"], content),
                size=len(content),
                sha256=line["sha256"],
                created_at=line["created_at"],
            )
            upload.save(force_insert=True)
            self.uploads[line["uuid"]] = upload.uuid

    def add_threads(self) -> None:
        for batch in in_batches(ascending(self.archive.lines("threads"), "number")):
            rows = [self.thread(line) for line in batch]
            for row in Thread.objects.bulk_create(rows):
                self.threads[row.number] = row.pk, row.uuid, row.created_by_id
                self.companions |= {row.number} if row.is_companion else set()
                self.note(row.uuid, row.body, by=row.created_by_id, html=row.body_html)

    def thread(self, line: Line) -> Thread:
        body, author = self.moved(line["body"]), self.authors.id_of(line["created_by_username"])
        taken = {**line, "body": body, "created_by_id": author, **rendered(body)}
        del taken["created_by_username"]
        return Thread(repo=self.repo, **taken)

    def add_thread_versions(self) -> None:
        lines = ascending(self.archive.lines("thread_versions"), "thread_number", "version")
        for batch in in_batches(lines):
            rows = []
            for line in batch:
                thread, uuid, _ = self.thread_of(line)
                row = ThreadVersion(thread_id=thread, title=line["title"], **self.version(line))
                rows.append(row)
                self.note(uuid, row.body, by=row.edited_by_id)
            ThreadVersion.objects.bulk_create(rows)

    def version(self, line: Line) -> Line:
        return {
            "version": line["version"],
            "body": self.moved(line["body"]),
            "edited_by_id": self.authors.maybe(line["edited_by_username"]),
            "created_at": line["created_at"],
        }

    def thread_of(self, line: Line) -> tuple[int, UUID, int]:
        number = line["thread_number"]
        if number not in self.threads:
            raise ValueError(f"The archive refers to thread {number}, but does not contain it.")
        return self.threads[number]

    def add_replies(self) -> None:
        """Write the replies of one thread after another, and count them."""
        for lines in grouped(self.archive.lines("replies"), "thread_number"):
            tree = list(lines)
            thread, _, author = self.thread_of(tree[0])
            rows = self.replies(thread, tree)
            for depth in range(DEPTH_MAX + 1):
                level = [row for row in rows.values() if row.depth == depth]
                Reply.objects.bulk_create(level, batch_size=BATCH)
            live = [row for row in rows.values() if not row.is_deleted]
            for row in live:
                targets = [link["target"] for link in row.links]
                by = row.created_by_id
                self.note(row.uuid, row.body, *targets, by=by, html=row.body_html)
            self.add_anchors(tree, rows)
            Thread.objects.filter(pk=thread).update(
                reply_count=len(live),
                participant_count=len({author, *(row.created_by_id for row in live)}),
                last_reply_number=max(rows),
            )

    def add_anchors(self, tree: list[Line], rows: dict[int, Reply]) -> None:
        """Write the anchors of some replies. The worker looks for their lines."""
        anchors = []
        for line in tree:
            fields = line["anchor"]
            if fields is None:
                continue
            if line["thread_number"] not in self.companions:
                raise ValueError(f"Reply {line['number']} has lines of a pull, but no pull.")
            reply = rows[line["number"]]
            if review := fields.pop("review_uuid"):
                self.comments[review].append(reply.pk)
            snippet = [] if reply.is_deleted else fields.pop("snippet")
            named = {**fields, "snippet": snippet, "number": reply.number}
            anchor = Anchor(reply=reply, thread_id=reply.thread_id, **named)
            anchor.set_outcome(anchor.commit_sha, anchor.lines)
            anchor.due_at = timezone.now()
            anchors.append(anchor)
        Anchor.objects.bulk_create(anchors, batch_size=BATCH)

    def replies(self, thread: int, tree: list[Line]) -> dict[int, Reply]:
        """The unsaved replies of a thread by number, parents first."""
        rows: dict[int, Reply] = {}
        live = Counter[str]()
        for line in tree:
            above = line.pop("parent_reply_number")
            parent = rows.get(above) if above else None
            if (above and parent is None) or line["number"] in rows:
                raise ValueError(f"Reply {line['number']} has no parent, or is there twice.")
            row = self.reply(line, thread, parent)
            rows[row.number] = row
            live.update(() if row.is_deleted else ancestor_paths(row.path))
        for row in rows.values():
            row.live_descendants = live[row.path]
        return rows

    def reply(self, line: Line, thread: int, parent: Reply | None) -> Reply:
        depth = parent.depth + 1 if parent else 0
        if depth > DEPTH_MAX:
            raise ValueError(f"Reply {line['number']} is too deep.")
        body = "" if line["is_deleted"] else self.moved(line["body"])
        author = NOBODY if line["is_deleted"] else line["created_by_username"]
        return Reply(
            thread_id=thread,
            parent=parent,
            number=line["number"],
            path=child_path(parent.path if parent else "", line["number"]),
            depth=depth,
            created_by_id=self.authors.id_of(author),
            kind=line["kind"],
            status=ReplyStatus.OPEN if line["is_deleted"] else line["status"],
            body=body,
            links=[] if line["is_deleted"] else self.moved_links(line["links"]),
            version=line["version"],
            edited_at=line["edited_at"],
            deleted_at=line["deleted_at"],
            created_at=line["created_at"] or line["deleted_at"],
            updated_at=line["updated_at"] or line["deleted_at"],
            **rendered(body),
        )

    def add_reply_versions(self) -> None:
        lines = self.archive.lines("reply_versions")
        for group in grouped(lines, "thread_number"):
            for batch in in_batches(ascending(group, "reply_number", "version")):
                self.add_versions_of_replies(batch)

    def add_versions_of_replies(self, batch: list[Line]) -> None:
        """Write some versions of replies of one thread."""
        thread, _, _ = self.thread_of(batch[0])
        own = Reply.objects.live().filter(
            thread=thread, number__in={line["reply_number"] for line in batch}
        )
        replies = {row.number: row for row in own.only("number", "uuid")}
        rows = []
        for line in batch:
            if line["reply_number"] not in replies:
                raise ValueError(f"Reply {line['reply_number']} is not there for its version.")
            reply = replies[line["reply_number"]]
            links = self.moved_links(line["links"])
            named = {"kind": line["kind"], "status": line["status"], "links": links}
            row = ReplyVersion(reply=reply, **named, **self.version(line))
            rows.append(row)
            self.note(
                reply.uuid, row.body, *(link["target"] for link in links), by=row.edited_by_id
            )
        ReplyVersion.objects.bulk_create(rows)

    # Pulls

    def add_pulls(self) -> None:
        for batch in in_batches(ascending(self.archive.lines("pulls"), "number")):
            for row in Pull.objects.bulk_create(map(self.pull, batch)):
                self.pulls[row.number] = row.pk
        if self.pulls.keys() != self.companions:
            raise ValueError("The pulls of the archive are not those of its threads.")

    def pull(self, line: Line) -> Pull:
        if line["number"] not in self.companions:
            raise ValueError(f"Pull {line['number']} has no thread.")
        is_own = line.pop("repo_path") == line.pop("source_repo_path")
        merged_by = self.authors.maybe(line.pop("merged_by_username"))
        is_due = line["status"] in ACTIVE and line["head_sha"] and line["base_sha"]
        return Pull(
            repo=self.repo,
            thread_id=self.threads[line["number"]][0],
            source_repo=self.repo if is_own else None,
            merged_by_id=merged_by,
            conflict_due_at=timezone.now() if is_due else None,
            **line,
        )

    def check_kept_refs(self) -> None:
        """`ValueError` for refs of pulls that are not there: later pulls get their numbers."""
        for name in self.repo.git.kept_refs():
            if int(name.split("/")[2]) not in self.pulls:
                raise ValueError(f"{name} belongs to no pull of the archive.")

    def pull_of(self, line: Line) -> int:
        number = line["pull_number"]
        if number not in self.pulls:
            raise ValueError(f"The archive refers to pull {number}, but does not contain it.")
        return self.pulls[number]

    def add_pull_versions(self) -> None:
        """Write the heads. The worker asks git for their contents and creates missing refs."""
        lines = ascending(self.archive.lines("pull_versions"), "pull_number", "version")
        for group in grouped(lines, "pull_number"):
            heads = list(group)
            pull, last = self.pull_of(heads[0]), heads[-1]
            now = timezone.now()
            PullVersion.objects.bulk_create(
                PullVersion(
                    pull_id=pull,
                    version=line["version"],
                    head_sha=line["head_sha"],
                    base_sha=line["base_sha"],
                    pushed_by_id=self.authors.maybe(line["pushed_by_username"]),
                    created_at=line["created_at"],
                    is_forced=line["is_forced"],
                    due_at=now,
                )
                for line in heads
            )
            pusher = self.authors.maybe(last["pushed_by_username"])
            newest = {"last_version": last["version"], "head_pushed_by": pusher}
            Pull.objects.filter(pk=pull).update(**newest)

    def add_reviews(self) -> None:
        """Write the reviews. `by_pusher` is True, so that no approval counts here: an archive
        proves nothing.
        """
        for batch in in_batches(self.archive.lines("reviews")):
            rows = []
            for line in batch:
                body = self.moved(line["body"])
                row = Review(
                    pull_id=self.pull_of(line),
                    status=line["status"],
                    body=body,
                    commit_sha=line["commit_sha"],
                    by_pusher=True,
                    decided_at=line["updated_at"],
                    created_by_id=self.authors.id_of(line["created_by_username"]),
                    dismissed_by_id=self.authors.maybe(line["dismissed_by_username"]),
                    created_at=line["created_at"],
                    updated_at=line["updated_at"],
                    **rendered(body),
                )
                rows.append(row)
                self.note(row.uuid, body, by=row.created_by_id, html=row.body_html)
                if comments := self.comments.pop(line["uuid"], []):
                    Anchor.objects.filter(pk__in=comments).update(review_uuid=row.uuid)
            Review.objects.bulk_create(rows)

    def follow_branches(self) -> None:
        """Take the tips of branches that moved while the archive was written."""
        people = ("thread__created_by", "repo")
        for pull in self.repo.pulls.filter(IS_ACTIVE).select_related(*people):
            before = pull.head_sha, pull.base_sha
            versions = update_from_tips(pull, pull.thread.created_by, GitFacts())
            if (pull.head_sha, pull.base_sha) != before:
                pull.save()
                update_refs_on_commit(pull, write_versions(pull, versions))

    # Protections

    def add_protections(self) -> None:
        """Write protections and their approvers. An approver or reporter without an account stays
        one: without any, a protection would count everybody with write access.
        """
        protections: dict[str, int] = {}
        for line in self.archive.lines("protections"):
            if line["branch"] in protections:
                raise ValueError(f"The protection {line['branch']} is there twice.")
            settings = defaults() | {name: line[name] for name in defaults() if name in line}
            check_settings(settings)
            names = map(self.authors.username_of, settings["status_reporters"])
            settings["status_reporters"] = [*dict.fromkeys(names)]
            protection = Protection.objects.create(
                repo=self.repo,
                branch=line["branch"],
                created_by_id=self.authors.id_of(line["created_by_username"]),
                created_at=line["created_at"],
                updated_at=line["updated_at"],
                **settings,
            )
            protections[line["branch"]] = protection.pk
        approvers = []
        for line in self.archive.lines("approvers"):
            if line["branch"] not in protections:
                raise ValueError(f"There is no protection {line['branch']} for its approver.")
            approvers.append(
                Approver(
                    protection_id=protections[line["branch"]],
                    user_id=self.authors.id_of(line["username"]),
                    added_by_id=self.authors.maybe(line["added_by_username"]),
                    created_at=line["created_at"],
                )
            )
        Approver.objects.bulk_create(approvers, ignore_conflicts=True)


def archive_last(archive: ArchiveReader) -> int:
    last: int = archive.manifest["last_number"]
    return last


def ascending(lines: Iterator[Line], *names: str) -> Iterator[Line]:
    """These lines; `ValueError` if their numbers do not ascend, or one is there twice."""
    before: tuple[int, ...] = ()
    for line in lines:
        numbers = tuple(line[name] for name in names)
        if numbers <= before:
            raise ValueError(f"{names[-1]} {numbers[-1]} is there twice, or not in order.")
        before = numbers
        yield line


def grouped(lines: Iterator[Line], name: str) -> Iterator[Iterator[Line]]:
    """These lines by a number; `ValueError` if the lines of a number are not together."""
    before = set[int]()
    for number, group in groupby(lines, itemgetter(name)):
        if number in before:
            raise ValueError(f"{name} {number} is there twice, or not in order.")
        before.add(number)
        yield group
