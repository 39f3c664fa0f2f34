"""Checks the HTML of pages: `flaws(html)` lists errors."""

from __future__ import annotations

from collections import Counter
from html.parser import HTMLParser
from urllib.parse import urlsplit

VOID = {"area", "base", "br", "col", "embed", "hr", "img", "input", "link", "meta", "source"}
VOID |= {"track"}
VOID |= {"wbr"}
BLOCKS = {"address", "article", "aside", "blockquote", "details", "dialog", "div", "dl", "fieldset"}
BLOCKS |= {"figure", "footer", "form", "h1", "h2", "h3", "h4", "h5", "h6", "header", "hr", "main"}
BLOCKS |= {"nav", "ol", "p", "pre", "section", "table", "ul"}
TEXT_ONLY = {"p", "h1", "h2", "h3", "h4", "h5", "h6", "span", "strong", "em", "small", "label"}
TEXT_ONLY |= {"button", "time", "code"}
"""Elements that cannot contain blocks. A browser ends some of them at the block."""
CLICKED = frozenset({"a", "button", "select", "textarea", "summary"})
CHILDREN = {
    "ul": {"li", "template"},
    "ol": {"li", "template"},
    "dl": {"dt", "dd", "div"},
    "select": {"option", "optgroup"},
    "table": {"caption", "colgroup", "thead", "tbody", "tfoot", "tr"},
    "tbody": {"tr"},
    "thead": {"tr"},
    "tr": {"td", "th"},
}
PARENTS = {"li": {"ul", "ol", "template"}, "dt": {"dl", "div"}, "dd": {"dl", "div"}}
LOADED = {"img": "src", "script": "src", "link": "href", "form": "action", "source": "src"}
REFERENCES = ("for", "aria-labelledby", "aria-describedby", "aria-controls", "list", "form")


class Reader(HTMLParser):
    """Parses a page once and collects errors."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[str] = []
        self.opened: list[str] = []
        self.elements: Counter[str] = Counter()
        self.ids: Counter[str] = Counter()
        self.references: set[str] = set()
        self.title = ""
        self.expected = ""
        """The id of the element until which the browser parses before it first renders the page."""
        self.last = ""

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements[tag] += 1
        self._place(tag)
        self._attributes(tag, attrs)
        if tag not in VOID:
            self.opened.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.handle_starttag(tag, attrs)
        if tag in VOID:
            return
        if "svg" not in self.opened:
            self.found.append(f"<{tag}/> is not ended")
        self.opened.pop()

    def handle_endtag(self, tag: str) -> None:
        if self.opened and self.opened[-1] == tag:
            self.opened.pop()
        else:
            self.found.append(f"</{tag}> inside {self.opened[-3:]} at {self.getpos()}")

    def handle_data(self, data: str) -> None:
        inside = self.opened[-1] if self.opened else ""
        if inside in {"script", "style"} and data.strip():
            self.found.append(f"an inline {inside}")
        if inside == "title" and "svg" not in self.opened:
            self.title += data.strip()

    def _place(self, tag: str) -> None:
        """Whether an element may stand at this place."""
        inside = self.opened[-1] if self.opened else ""
        where = f"<{tag}> in {self.opened[-3:]} at {self.getpos()}"
        if "svg" in self.opened:
            return
        if tag not in CHILDREN.get(inside, {tag}) or inside not in PARENTS.get(tag, {inside}):
            self.found.append(where)
        if tag in BLOCKS and TEXT_ONLY & set(self.opened):
            self.found.append(where)
        within = set(self.opened) & ({"form"} if tag == "form" else {"a", "button"})
        if within and (tag in CLICKED or tag == "form"):
            self.found.append(where)

    def _attributes(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        known = {name: value or "" for name, value in attrs}
        if len(known) < len(attrs):
            self.found.append(f"<{tag}> has an attribute twice: {attrs}")
        self.found += [
            f"<{tag} {name}>" for name in known if name == "style" or name.startswith("on")
        ]
        if urlsplit(known.get(LOADED.get(tag, ""), "")).netloc:
            self.found.append(f"<{tag}> leads to another host: {known}")
        if "id" in known:
            self.ids[known["id"]] += 1
        if known.get("rel") == "expect":
            self.expected = known["href"].removeprefix("#")
        self.last = known.get("id", "")
        for name in REFERENCES:
            self.references |= set(known.get(name, "").split())

    def end(self) -> list[str]:
        self.close()
        once = {name: self.elements[name] for name in ("html", "body", "main", "h1")}
        return (
            self.found
            + [f"<{tag}> is not ended" for tag in self.opened]
            + [f"{count} <{name}>" for name, count in once.items() if count != 1]
            + [
                f"the id {name} stands {count} times"
                for name, count in self.ids.items()
                if count > 1
            ]
            + [f"nothing has the id {name}" for name in self.references - self.ids.keys()]
            + ([] if self.title else ["no title"])
            + ([] if self.expected in {"", self.last} else ["drawn before it is there as a whole"])
        )


def flaws(html: str) -> list[str]:
    """The errors of a page: elements that are not closed or misplaced, duplicate or missing ids,
    inline styles and scripts, resources from other hosts, no main heading or several, and parts
    after the element until which rendering is blocked.
    """
    reader = Reader()
    reader.feed(html)
    return reader.end()


def title(html: str) -> str:
    """The title of the page."""
    reader = Reader()
    reader.feed(html)
    return reader.title
