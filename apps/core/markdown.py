"""Renders Markdown to safe HTML, once when a text is written; the HTML is stored beside the text.

Possible references (`#12`, `@ada`, a commit) are marked in the stored HTML. For each reader, marks
of objects that the reader may see become links, and the others plain text.
"""

from __future__ import annotations

import html
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import nh3
from django.conf import settings
from django.http.request import split_domain_port, validate_host
from markdown_it import MarkdownIt
from markdown_it.common.utils import unescapeAll
from markdown_it.rules_core import StateCore
from markdown_it.token import Token

from apps.core.lexers import CLASSES, Budget, highlight

VERSION = 3
"""Raise it with each change of the HTML: HTML of another version is rendered again on reading."""
MARKERS = re.compile(r"[\[\]!*_`~<&\\|\n]")
MARKERS_MAX = 12_000
"""Maximum signs of Markdown and lines in one text. Nobody writes more of them; each takes 30 µs."""
HTML_FREE = 32 * 1024
HTML_FACTOR = 6
"""The HTML of a text may have `HTML_FREE` characters, and `HTML_FACTOR` for each character of the
text. Nobody writes more, but empty cells of tables, for example, would give more.
"""
RAW_TAGS_MAX = 200
"""Maximum HTML tags in one text: an HTML parser may repeat more of them a million times."""
ADDRESSES_MAX = 256 * 1024
"""Maximum characters of all addresses in one text: a link definition can be repeated endlessly."""
CODE_SECONDS_MAX = 1.0
"""Maximum processor time for colouring all code of one text; the rest stays plain."""
REFERENCES_MAX = 50
"""Maximum different references in one text, besides names; further ones stay text."""
NAMES_MAX = 51
"""Maximum different names behind an @ in one text: one more than may be pinged, to detect that."""

NAMES = """
    a abbr b blockquote br caption code col colgroup dd del details dfn div dl dt em h1 h2 h3 h4 h5
    h6 hr i img input ins kbd li mark ol p pre q rp rt ruby s samp small span strong sub summary sup
    table tbody td tfoot th thead tr tt u ul var
"""
TAGS = set(NAMES.split())
ATTRIBUTES = {
    "*": {"title"},
    "a": {"href"},
    "details": {"open"},
    "img": {"src", "alt", "width", "height"},
    "input": {"checked"},
    "ol": {"start"},
    "td": {"align", "colspan", "rowspan"},
    "th": {"align", "colspan", "rowspan"},
}
SANITIZER = nh3.Cleaner(
    tags=TAGS,
    attributes=ATTRIBUTES,
    allowed_classes={"span": set(CLASSES), "li": {"task-list-item"}},
    url_schemes={"http", "https", "mailto"},
    link_rel="nofollow noopener noreferrer",
)
TASK = re.compile(r"\[([ xX])\][ \t]")
ALIGN = re.compile(r"text-align:(left|center|right)")

TAG = re.compile(r'(<(?:[^"<>]|"[^"]*")*>)')
"""A tag in the form of the sanitizer, which puts each value into double quotes."""
TAG_NAME = re.compile(r"</?([a-z0-9]+)")
ATTRIBUTE = re.compile(r' ([a-z]+)="([^"]*)"')
UPLOAD = re.compile(r"(?:/api/v1)?/uploads/[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}/content")
ABSOLUTE = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:|//|#")
"""The beginning of an address that does not depend on the place of its text."""
QUIET = {"a", "code", "pre", "kbd", "samp", "tt"}
"""Elements without references inside."""
DIRECTED = {"blockquote", "caption", "dd", "dl", "dt", "h1", "h2", "h3", "h4", "h5", "h6", "li"}
DIRECTED |= {"ol", "p", "summary", "table", "td", "th", "ul"}
"""Elements with the direction of their own text, if the whole text has right-to-left letters."""
RIGHT_TO_LEFT = re.compile(
    "[\u0590-\u08ff\ufb1d-\ufdff\ufe70-\ufefc\U00010800-\U00010fff\U0001e800-\U0001efff]"
)
SCROLLED = '<div class="table-scroll" tabindex="0" role="group" aria-label="Table">'
"""Wraps each table, so that a wide one can be scrolled with keys. No text can contain it."""
HOST = re.compile(r"https?://([^/?#@\\]+)(/.*)")
ENDS_SENTENCE = "?!.,:;*_~'"
LINK_MAX = 2000
"""Maximum characters of a bare address; a longer one stays text."""
REFERENCE = re.compile(
    r"(?<![\w/#@.:&-])(?:"
    r"(?:(?P<repo>(?:teams|users)/[A-Za-z0-9._-]{1,64}/[A-Za-z0-9._-]{1,100})?"
    r"\#(?P<number>[1-9][0-9]{0,8}))"
    r"|@(?P<username>[A-Za-z0-9](?:[-_.]?[A-Za-z0-9]){0,38})(?![/@])"
    r"|(?P<commit>[0-9a-f]{7,40})"
    r")(?!\w)"
)
INLINE = re.compile(
    r"(?P<url>(?<![\w/@.:&-])https?://[\w\[](?:[^\s<>&\"]|&amp;)*)"
    r"|(?<![\w:]):(?P<emoji>[a-z0-9_+-]{1,30}):(?!\w)"
    rf"|{REFERENCE.pattern}"
)
EMOJI_BY_NAME = """
    +1 👍 -1 👎 100 💯 alien 👽 ambulance 🚑️ anger 💢 art 🎨 beer 🍺 bell 🔔 birthday 🎂
    blush 😊 bomb 💣 book 📖 bookmark 🔖 boom 💥 broken_heart 💔 bug 🐛 bulb 💡 cake 🍰 calendar 📆
    camera 📷 cat 🐱 chart_with_upwards_trend 📈 clap 👏 clipboard 📋 cloud ☁️ coffee ☕ computer 💻
    confetti_ball 🎊 confused 😕 construction 🚧 cry 😢 dog 🐶 email 📧 exclamation ❗
    eyes 👀 facepalm 🤦 fire 🔥 ghost 👻 gift 🎁 globe_with_meridians 🌐 grin 😁
    grinning 😀 hammer 🔨 hand ✋ heart ❤️ heart_eyes 😍 heavy_check_mark ✔️ hourglass ⌛
    hugs 🤗 innocent 😇 joy 😂 key 🔑 laughing 😆 link 🔗 lock 🔒
    loudspeaker 📢 mag 🔍 mega 📣 memo 📝 muscle 💪 no_entry ⛔ ok_hand 👌
    open_mouth 😮 package 📦 paperclip 📎 pencil 📝 pencil2 ✏️ point_down 👇 point_left 👈
    point_right 👉 point_up ☝️ pray 🙏 pushpin 📌 question ❓ rage 😡 rainbow 🌈 raised_hands 🙌
    recycle ♻️ robot 🤖 rocket 🚀 rofl 🤣 rotating_light 🚨 scream 😱 seedling 🌱
    shield 🛡️ shrug 🤷 skull 💀 sleeping 😴 smile 😄 smiley 😃 smirk 😏 snail 🐌 snake 🐍
    snowflake ❄️ sob 😭 sparkles ✨ star ⭐ stop_sign 🛑 sunglasses 😎 sunny ☀️ sweat_smile 😅
    tada 🎉
    thinking 🤔 thumbsdown 👎 thumbsup 👍 trophy 🏆 truck 🚚 turtle 🐢 warning ⚠️ wastebasket 🗑️
    wave 👋
    white_check_mark ✅ wink 😉 wrench 🔧 x ❌ yum 😋 zap ⚡ zzz 💤
"""
_PAIRS = EMOJI_BY_NAME.split()
EMOJI = dict(zip(_PAIRS[::2], _PAIRS[1::2], strict=True))
"""By the names that people write between colons, as on other forges."""
MARK = re.compile(r"<ref>([^<]*)</ref>")
"""Marks a reference in stored HTML. The sanitizer removes such marks from texts."""


Marked = dict[bool, set[str]]
"""The marked references of a text: names behind an @ by True, all others by False."""


@dataclass(frozen=True)
class Reference:
    """A possible reference: a number, a username or a commit. A number may have a `repo`."""

    text: str
    """The text of the reference: `#12`, `teams/core/api#12`, `@ada`, `1f2e3d4`."""
    number: int | None = None
    """Number of a thread or pull."""
    repo: str | None = None
    """`teams/core/api` in lower case; None for the repository of the text."""
    username: str | None = None
    commit: str | None = None
    """7 to 40 hexadecimal digits, in lower case."""


def render(text: str, *, relative: bool = False, budget: Budget | None = None) -> str:
    """HTML to store. It has marks for references: `with_links` makes HTML to show of it.

    `relative`: pictures with relative addresses stay pictures, for a text that is a file; the
    caller resolves the addresses. `budget` is for colouring code.
    """
    budget = budget or Budget(CODE_SECONDS_MAX)
    rendered = "".join(_marked(SANITIZER.clean(_html(text, budget)), relative))
    if len(rendered) > HTML_FREE + HTML_FACTOR * len(text):
        return f"<pre>{html.escape(text)}</pre>"
    return rendered


def references(stored: str) -> list[Reference]:
    """The possible references in stored HTML, in order, without repetitions."""
    return [_reference(text) for text in dict.fromkeys(MARK.findall(stored))]


def with_links(stored: str, addresses: Mapping[str, str]) -> str:
    """HTML to show: references become links if `addresses` has their text."""

    def resolved(mark: re.Match[str]) -> str:
        address = addresses.get(mark[1])
        return mark[1] if address is None else f'<a href="{html.escape(address)}">{mark[1]}</a>'

    return MARK.sub(resolved, stored)


def mentions(stored: str) -> set[str]:
    """The names behind an @ in stored HTML, except in code. Such accounts may not exist."""
    return {reference.username for reference in references(stored) if reference.username}


def _reference(text: str) -> Reference:
    parts: Any = REFERENCE.fullmatch(text)
    repo, number = parts["repo"], parts["number"]
    return Reference(
        text,
        number=int(number) if number else None,
        repo=repo.lower() if repo else None,
        username=parts["username"],
        commit=parts["commit"],
    )


def _html(text: str, budget: Budget) -> str:
    """HTML of CommonMark with extensions; a text that would take too long is shown unchanged."""
    if len(MARKERS.findall(text)) > MARKERS_MAX:
        return f"<pre>{html.escape(text)}</pre>"
    tokens, environment = _parse(text, raw=True)
    if sum(_raw_tags(token) for token in tokens) > RAW_TAGS_MAX:
        tokens, environment = _parse(text, raw=False)
    if sum(_length_of_addresses(token) for token in tokens) > ADDRESSES_MAX:
        return f"<pre>{html.escape(text)}</pre>"
    parser, environment["budget"] = PARSERS[True], budget
    rendered: str = parser.renderer.render(tokens, parser.options, environment)
    return rendered


def _parse(text: str, *, raw: bool) -> tuple[list[Token], dict[str, Any]]:
    environment: dict[str, Any] = {}
    return PARSERS[raw].parse(text, environment), environment


def _parser(raw: bool) -> MarkdownIt:
    """`raw`: leave HTML in the text to the sanitizer; else it is shown as text."""
    parser = MarkdownIt("commonmark", {"html": raw}).enable(["table", "strikethrough"])
    parser.add_render_rule("fence", _fence)
    parser.core.ruler.after("inline", "tasks", _find_tasks)
    parser.core.ruler.after("inline", "alignment", _align_cells)
    for ruler in (parser.core.ruler, parser.block.ruler, parser.inline.ruler, parser.inline.ruler2):
        ruler.getRules("")
    return parser


def _fence(
    _: Any, tokens: Sequence[Token], index: int, options: Any, environment: dict[str, Any]
) -> str:
    """A fenced code block, coloured if its language is known."""
    code, info = tokens[index].content, unescapeAll(tokens[index].info).split()
    coloured = highlight(code, info[0], environment["budget"]) if info else ""
    return f"<pre><code>{coloured or html.escape(code)}</code></pre>\n"


def _find_tasks(state: StateCore) -> None:
    """Give list items that begin with `[ ]` or `[x]` a disabled checkbox."""
    for item, paragraph, inline in zip(
        state.tokens, state.tokens[1:], state.tokens[2:], strict=False
    ):
        kinds = (item.type, paragraph.type, inline.type)
        if kinds != ("list_item_open", "paragraph_open", "inline"):
            continue
        box = TASK.match(inline.content)
        first = inline.children[0] if inline.children else None
        if box is None or first is None or not first.content.startswith(box[0]):
            continue
        checked = "" if box[1] == " " else " checked"
        first.content = first.content[len(box[0]) - 1 :]
        checkbox = Token("html_inline", "", 0, content=f"<input{checked}>")
        inline.children = [checkbox, *(inline.children or [])]
        item.attrSet("class", "task-list-item")


def _align_cells(state: StateCore) -> None:
    """Align columns by an attribute: the Content-Security-Policy forbids styles."""
    for token in state.tokens:
        if "style" in token.attrs:
            match = ALIGN.fullmatch(str(token.attrs.pop("style")))
            if match is not None:
                token.attrSet("align", match[1])


def _raw_tags(token: Token) -> int:
    own = token.content.count("<") if token.type in {"html_block", "html_inline"} else 0
    return own + sum(_raw_tags(child) for child in token.children or ())


def _length_of_addresses(token: Token) -> int:
    own = sum(len(str(value)) for value in token.attrs.values())
    return own + sum(_length_of_addresses(child) for child in token.children or ())


def _marked(clean: str, relative: bool) -> Iterator[str]:
    """Sanitized HTML with marks around references; pictures from elsewhere become links."""
    inside: list[str] = []
    marked: Marked = {True: set(), False: set()}
    directed = DIRECTED if RIGHT_TO_LEFT.search(clean) else set[str]()
    for index, part in enumerate(TAG.split(clean)):
        if index % 2 == 0:
            yield part if inside else _mark(part, marked)
        elif part.startswith("<img"):
            yield _picture(part, "a" in inside, relative)
        elif part.startswith("<input"):
            yield _checkbox(part)
        else:
            name = _track(part, inside)
            yield _tag(part, name, is_directed=name in directed)


def _tag(tag: str, name: str, *, is_directed: bool) -> str:
    """A tag with the additions for every element of its name."""
    is_end = tag.startswith("</")
    if is_directed and not is_end:
        tag = f'{tag[:-1]} dir="auto">'
    if name == "table":
        return f"{tag}</div>" if is_end else f"{SCROLLED}{tag}"
    return tag


def _checkbox(tag: str) -> str:
    """The only input that is allowed: a disabled checkbox."""
    checked = " checked" if " checked=" in tag else ""
    return f'<input type="checkbox" aria-label="Task" disabled{checked}>'


def _track(tag: str, inside: list[str]) -> str:
    """The name of the element; `inside` lists the open elements of `QUIET`."""
    match = TAG_NAME.match(tag)
    name = match[1] if match else ""
    if name in QUIET and not tag.startswith("</"):
        inside.append(name)
    elif name in QUIET and inside:
        inside.pop()
    return name


def _mark(text: str, marked: Marked) -> str:
    def replacement(match: re.Match[str]) -> str:
        if match["url"]:
            return _bare_link(match["url"])
        if match["emoji"]:
            return EMOJI.get(match["emoji"], match[0])
        is_name = match["username"] is not None
        texts = marked[is_name]
        if len(texts) < (NAMES_MAX if is_name else REFERENCES_MAX):
            texts.add(match[0])
        return f"<ref>{match[0]}</ref>" if match[0] in texts else match[0]

    return INLINE.sub(replacement, text)


def _bare_link(escaped: str) -> str:
    """An address in a text as a link, without punctuation of the sentence behind it."""
    url = html.unescape(escaped)
    if len(url) > LINK_MAX:
        return escaped
    end = url.rstrip(ENDS_SENTENCE)
    while end.endswith(")") and end.count(")") > end.count("("):
        end = end[:-1].rstrip(ENDS_SENTENCE)
    address, rest = html.escape(end), html.escape(url[len(end) :], quote=False)
    return f'<a href="{address}" rel="nofollow noopener noreferrer">{address}</a>{rest}'


def _picture(tag: str, in_link: bool, relative: bool) -> str:
    """A picture if it is an uploaded file; else a link, because loading a picture from elsewhere
    would tell another site who reads the text.
    """
    values = {name: html.unescape(value) for name, value in ATTRIBUTE.findall(tag)}
    source = values.get("src", "")
    if UPLOAD.fullmatch(source.removeprefix(settings.BASE_URL)):
        return tag
    if path := _path_here(source):
        return tag.replace(f'"{html.escape(source)}"', f'"{path}"')
    if relative and source and not ABSOLUTE.match(source):
        return tag if "alt" in values else tag.replace("<img", f'<img alt="{html.escape(source)}"')
    text = html.escape(values.get("alt") or source)
    if not source or in_link:
        return text
    return f'<a href="{html.escape(source)}" rel="nofollow noopener noreferrer">{text}</a>'


def _path_here(source: str) -> str:
    """The path of an upload whose address has a host of this site; "" for others.

    Without a `BASE_URL` the API returns addresses with the host of the request.
    """
    parts = HOST.fullmatch(source)
    if parts is None or not UPLOAD.fullmatch(parts[2]):
        return ""
    domain, _ = split_domain_port(parts[1])
    hosts = [host for host in settings.ALLOWED_HOSTS if host != "*"]
    return parts[2] if domain and validate_host(domain, hosts) else ""


PARSERS = {raw: _parser(raw) for raw in (True, False)}
"""Shared by all threads, and created on import: a parser prepares its rules on first use, and a
second thread at that moment would use half of them and lose its text.
"""
