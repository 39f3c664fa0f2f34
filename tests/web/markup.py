"""Checks the HTML of pages: `flaws(html)` and `colour_alone(html)` list errors."""

import re
from collections import Counter
from dataclasses import dataclass, field
from html.parser import HTMLParser
from urllib.parse import urlsplit

VOID = {"area", "base", "br", "col", "embed", "hr", "img", "input", "link", "meta", "source"}
VOID |= {"track", "wbr"}
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
        inline = [name for name in known if name == "style" or name.startswith("on")]
        self.found += [f"<{tag} {name}>" for name in inline]
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
        twice = {name: count for name, count in self.ids.items() if count > 1}
        return (
            self.found
            + [f"<{tag}> is not ended" for tag in self.opened]
            + [f"{count} <{name}>" for name, count in once.items() if count != 1]
            + [f"the id {name} stands {count} times" for name, count in twice.items()]
            + [f"nothing has the id {name}" for name in self.references - self.ids.keys()]
            + ([] if self.title else ["no title"])
            + ([] if self.expected in {"", self.last} else ["drawn before it is there as a whole"])
        )


def flaws(html: str) -> list[str]:
    """Errors in elements, ids, headings and order; inline styles and scripts; other hosts."""
    reader = Reader()
    reader.feed(html)
    return reader.end()


A_WORD = r"[A-Za-z]{2}"
SAID = {
    "state": A_WORD,
    "message": A_WORD,
    "wrong": A_WORD,
    "live": A_WORD,
    "gone": A_WORD,
    "tint-good": A_WORD,
    "tint-bad": A_WORD,
    "tint-wait": A_WORD,
    "tint-done": A_WORD,
    "unread": r"\bunread\b",
    "accepted": r"\bAccepted\b",
    "hot": r"\d",
    "stat": r"^\+\d+.*\u2212\d+",
}
"""Classes that colour an element, with the pattern that its text has to match."""
OF_CHECKS = r"^(Met|Not met): \S"
"""The first words of each condition of a merge, beside its tinted icon."""


@dataclass
class Opened:
    """An open element, with the parts read so far."""

    tag: str
    classes: list[str]
    needed: list[str] = field(default_factory=list)
    """The pattern for the text of an element that is coloured, or whose icon is."""
    text: str = ""


class ColourReader(HTMLParser):
    """Parses a page once and collects elements with a meaning that only their colour has."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[str] = []
        self.opened: list[Opened] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        known = {name: value or "" for name, value in attrs}
        one = Opened(tag, known.get("class", "").split())
        needed = [SAID[name] for name in one.classes if name in SAID]
        if tag == "svg" and needed and self.opened:  # an icon: the word stands beside it
            above = self.opened[-1]
            in_checks = len(self.opened) > 1 and "checks" in self.opened[-2].classes
            above.needed += [OF_CHECKS] if in_checks else needed
        elif tag != "svg":
            one.needed = needed
        is_described = "_error" in known.get("aria-describedby", "")
        if known.get("aria-invalid") == "true" and not is_described:
            self.found.append(f"nothing says what is wrong with {known.get('name')}")
        if tag not in VOID:
            self.opened.append(one)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.handle_starttag(tag, attrs)
        if tag not in VOID:
            self.handle_endtag(tag)

    def handle_data(self, data: str) -> None:
        if self.opened:
            self.opened[-1].text += data

    def handle_endtag(self, tag: str) -> None:
        if not self.opened:
            return
        one = self.opened.pop()
        if self.opened:
            self.opened[-1].text += one.text
        text = " ".join(one.text.split())
        self.found += [
            f"<{one.tag} class={one.classes}> says {text[:80]!r}"
            for pattern in one.needed
            if not re.search(pattern, text)
        ]


def colour_alone(html: str) -> list[str]:
    """Elements with a meaningful colour that have neither a word nor an icon for it."""
    reader = ColourReader()
    reader.feed(html)
    reader.close()
    return reader.found
