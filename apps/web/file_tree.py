"""The tree of changed files as HTML: folders with their files, and what has changed in each."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from django.utils.safestring import SafeString, mark_safe

from apps.web.colours import escaped

SIGNS = {"added": "A", "removed": "D", "renamed": "R", "became something else": "T"}
"""The letters that git shows for the status of a file."""


@dataclass
class Folder:
    """A folder with changes below it; `files`: contexts of `_diff_file.html`."""

    folders: dict[str, Folder] = field(default_factory=dict)
    files: list[dict[str, Any]] = field(default_factory=list)

    def lines(self) -> tuple[int, int]:
        """The added and the removed lines of all files below it."""
        parts = [(file["additions"] or 0, file["deletions"] or 0) for file in self.files]
        parts += [folder.lines() for folder in self.folders.values()]
        return sum(added for added, _ in parts), sum(removed for _, removed in parts)


def file_tree(files: Sequence[dict[str, Any]]) -> SafeString:
    """The tree of these files. A folder in which only one folder has changed is joined with it."""
    root = Folder()
    for file in files:
        *names, _ = file["path"].split("/")
        folder = root
        for name in names:
            folder = folder.folders.setdefault(name, Folder())
        folder.files.append(file)
    html = "".join(entries(root))
    return mark_safe(f'<ul class="tree">{html}</ul>')  # noqa: S308 - escaped by `colours`


def entries(folder: Folder) -> Iterator[str]:
    for name, below in folder.folders.items():
        while len(below.folders) == 1 and not below.files:
            [(more, below)] = below.folders.items()
            name = f"{name}/{more}"
        inner = "".join(entries(below))
        yield (
            f'<li><details open><summary><span class="mono">{escaped(name)}/</span>'
            f"{stat(*below.lines())}</summary><ul>{inner}</ul></details></li>\n"
        )
    for file in folder.files:
        yield entry(file)


def entry(file: dict[str, Any]) -> str:
    name, status = file["path"].rpartition("/")[2], file["status"]
    sign = f'<abbr title="{status}">{SIGNS[status]}</abbr>' if status else ""
    lines = "" if file["additions"] is None else stat(file["additions"], file["deletions"])
    anchor = file["anchor"]
    link = f'<a class="mono" href="#{anchor}">{escaped(name)}</a>'
    kind = ' class="is-viewed"' if file["is_viewed"] else ""
    return f'<li{kind} data-file="{anchor}">{link}{sign}{lines}</li>\n'


def stat(added: int, removed: int) -> str:
    plus, minus = f'<span class="p">+{added}</span>', f'<span class="m">\u2212{removed}</span>'
    return f'<span class="stat">{plus}{minus}</span>'
