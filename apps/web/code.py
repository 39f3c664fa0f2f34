"""Parts of the pages of code: addresses, links in a README, authors, the menu of branches and tags,
the list of a folder.
"""

from __future__ import annotations

import datetime as dt
import html
import posixpath
import re
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote, unquote, urlencode, urlsplit

from django.utils.safestring import mark_safe

from apps.accounts.principal import Principal
from apps.browse.names import path_fields, path_in_tree, revision, shown_path
from apps.browse.pushers import Push, pushers_of
from apps.browse.serializers import accounts_of
from apps.browse.trees import (
    LastChanges,
    Readme,
    commit_at,
    find_last_changes,
    name_of,
    read_folder,
)
from apps.core import markdown
from apps.core.markdown import ABSOLUTE, TAG, UPLOAD
from apps.git.tree import Entry
from apps.repos.access import RepoAccess
from apps.repos.http.transfer_slots import caller_of
from apps.repos.models import TAGS, Repo
from apps.repos.queries import newest_branches
from apps.threads import references
from apps.web.responses import PageRequest, page_number

LINK = re.compile(r' (href|src)="([^"]*)"')
HEADING = re.compile(r"(</?h)([1-6])")
HEADING_SHIFT = 2
"""Levels by which the headings of a README are lowered, below those of the page."""
MENU_BRANCHES, MENU_TAGS = 100, 50
"""Names in the menu: the most recently pushed ones."""


def path_address(repo: Repo, kind: str, path: bytes, ref: str = "", **query: str) -> str:
    """The address of a path on the pages `files` or `raw`; without a ref, on the default branch."""
    fields = path_fields(path)
    parameters = {"ref": ref, "path_base64": fields.get("path_base64"), **query}
    end = f"/{quote(fields['path'] or '')}" if path else ""
    return with_query(f"/{repo.path}/{kind}{end}", parameters)


def history_address(repo: Repo, path: bytes, ref: str = "") -> str:
    fields = path_fields(path) if path else {}
    return with_query(f"/{repo.path}/commits", {"ref": ref, **fields})


def with_query(address: str, query: dict[str, str | None]) -> str:
    """An address with these query parameters; empty ones are left out."""
    text = urlencode({name: value for name, value in query.items() if value})
    return f"{address}?{text}" if text else address


def resolved(readme_html: str, repo: Repo, folder: bytes, ref: str) -> str:
    """The HTML of a README: relative links lead to files at the same ref, headings are lowered."""

    def resolve(link: re.Match[str]) -> str:
        kind = "raw" if link[1] == "src" else "files"
        target = link_target(html.unescape(link[2]), repo, folder, ref, kind)
        return f' {link[1]}="{html.escape(target)}"'

    def lower_heading(tag: re.Match[str]) -> str:
        return f"{tag[1]}{min(6, int(tag[2]) + HEADING_SHIFT)}"

    def change(tag: re.Match[str]) -> str:
        if tag[0].startswith(("<a ", "<img ")):
            return LINK.sub(resolve, tag[0])
        return HEADING.sub(lower_heading, tag[0])

    return TAG.sub(change, readme_html)


def link_target(address: str, repo: Repo, folder: bytes, ref: str, kind: str) -> str:
    """The target of a link in a README: unchanged unless it is a path inside the repository."""
    if not address or ABSOLUTE.match(address) or UPLOAD.fullmatch(address):
        return address
    try:
        parts = urlsplit(address)
    except ValueError:
        return address
    relative = unquote(parts.path).encode("utf-8", "surrogateescape")
    path = posixpath.normpath(posixpath.join(b"/", folder, relative)).strip(b"/")
    end = f"#{parts.fragment}" if parts.fragment else ""
    return f"{path_address(repo, kind, path, ref)}{end}"


def shown_person(person: Any, accounts: dict[str, Any], push: Push | None) -> dict[str, Any]:
    """A person whom a commit names by `name` and `email`, for `_signature.html` and `_pusher.html`.
    That is text of its writer, so an account is shown for it only if a push is known.

    `accounts` as `accounts_of` has them; `push`: the commit's first push. `account` is the account
    with this address, which has its face if it pushed the commit itself. `pusher` is the push if
    another account made it.
    """
    account = accounts.get(person.email.lower()) if push else None
    is_pusher = bool(push and account and account.uuid == push.uuid)
    is_named = is_pusher or bool(push and account is None and push.username == person.name)
    return {
        "name": person.name,
        "account": account,
        "is_pusher": is_pusher,
        "pusher": None if is_named else push,
    }


@dataclass(frozen=True)
class Location:
    """A path of a commit. `ref` is that of the address, "" for the default branch."""

    repo: Repo
    ref: str
    commit: str
    path: bytes

    @property
    def shown_ref(self) -> str:
        return self.ref or self.repo.default_branch

    @property
    def shown_path(self) -> str:
        return shown_path(self.path)

    def address(self, kind: str = "files", path: bytes | None = None, **query: str) -> str:
        """The address of this path, or of another one at the same ref."""
        return path_address(self.repo, kind, self.path if path is None else path, self.ref, **query)

    @property
    def root(self) -> str:
        return path_address(self.repo, "files", b"", self.ref) if self.ref else f"/{self.repo.path}"

    @property
    def files_action(self) -> str:
        """The action of the form that selects another ref for this path; see `hidden`."""
        return path_address(self.repo, "files", self.path).partition("?")[0]

    @property
    def hidden(self) -> list[tuple[str, str]]:
        """The hidden fields of that form: parts of the path that its address cannot have."""
        return [(name, text) for name, text in self.hidden_path if name != "path"]

    @property
    def hidden_path(self) -> list[tuple[str, str]]:
        """The hidden fields of a form whose address has no path."""
        fields = path_fields(self.path) if self.path else {}
        return [(name, text) for name, text in fields.items() if text]

    @property
    def crumbs(self) -> list[tuple[str, str]]:
        """The name and address of each folder of the path, and of the path itself."""
        parts = self.path.split(b"/") if self.path else []
        paths = [b"/".join(parts[: at + 1]) for at in range(len(parts))]
        pairs = zip(parts, paths, strict=True)
        return [(shown_path(part), self.address(path=path)) for part, path in pairs]


def who_asks(request: PageRequest) -> str:
    """The throttle key of the caller, for slots of git."""
    return caller_of(request, request.principal)


def find_location(request: PageRequest, access: RepoAccess, path: str = "") -> Location:
    """The location of `?ref=` and this path; 404 for a missing ref, 422."""
    ref = request.GET.get("ref", "")
    raw = path_in_tree(path, request.GET.get("path_base64"))
    commit = commit_at(access.repo, revision(access.repo, ref or None))
    return Location(access.repo, ref, commit, raw)


def ref_menu(repo: Repo, current: str) -> dict[str, list[str]]:
    """The branches and tags of the menu, the current one included; two queries."""
    branches = newest_branches(repo, MENU_BRANCHES)
    rows = repo.refs.tags().in_order("-updated_at").values_list("full_name", flat=True)
    tags = [name.removeprefix(TAGS) for name in rows[:MENU_TAGS]]
    for name in (repo.default_branch, current):
        if name not in {*branches, *tags}:
            branches = [name, *branches]
    return {"branches": branches, "tags": tags}


def folder_context(
    request: PageRequest, access: RepoAccess, location: Location, folder: Entry
) -> dict[str, Any]:
    """The context of `_folder.html`: a page of entries, each with its last change if known."""
    page = page_number(request)
    found = read_folder(location.repo, folder, page)
    changes = find_last_changes(
        location.repo, location.commit, location.path, found.entries, page, who_asks(request)
    )
    return {
        "entries": [shown_entry(location, one, changes) for one in found.entries],
        "newest": newest_of(location.repo, changes, access.principal),
        "pages": {
            "next": location.address(page=str(page + 1)) if found.has_more else None,
            "previous": location.address(page=str(page - 1)) if page > 1 else None,
        },
        "readme": found.readme and shown_readme(access, location, found.readme),
    }


def shown_entry(location: Location, entry: Entry, changes: LastChanges) -> dict[str, Any]:
    name, change = name_of(entry), changes.by_name.get(name_of(entry))
    return {
        "name": shown_path(name),
        "kind": entry.kind,
        "address": location.address(path=entry.path),
        "sha": entry.sha,
        "change": change,
        "changed_at": change and moment_of(change.date),
    }


def newest_of(repo: Repo, changes: LastChanges, principal: Principal) -> dict[str, Any] | None:
    newest = changes.newest
    if newest is None:
        return None
    accounts = accounts_of([newest.email], principal)
    push = pushers_of(repo, [newest.sha]).get(newest.sha)
    person = shown_person(newest, accounts, push)
    return {"commit": newest, "at": moment_of(newest.date), **person}


def shown_readme(access: RepoAccess, location: Location, readme: Readme) -> dict[str, Any]:
    """A README: HTML with links for the caller, or plain text."""
    urls = references.urls(access, "", [readme.html])
    text = resolved(readme.html, location.repo, location.path, location.ref)
    return {
        "name": shown_path(readme.name),
        "address": location.address(path=posixpath.join(location.path, readme.name)),
        # The renderer writes all tags and attributes itself: see `apps/core/markdown.py`.
        "html": mark_safe(markdown.with_links(text, urls)),  # noqa: S308 - of the renderer
        "text": readme.text,
    }


def moment_of(text: str) -> dt.datetime:
    """A date of git's, in UTC; in its own time zone if UTC cannot represent it."""
    moment = dt.datetime.fromisoformat(text)
    try:
        return moment.astimezone(dt.UTC)
    except OverflowError:
        return moment
