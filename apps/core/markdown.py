"""Markdown as HTML that is safe to show: rendered once when written, and kept beside its text.

What might refer to something (`#12`, `@ada`, a commit) is marked in the kept HTML. Each reader gets
links for those marks that lead to what that reader may see, and the bare text for the others.
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
"""What is kept from another version is rendered anew when it is read: raise it with each change of
what comes out."""
MARKERS = re.compile(r"[\[\]!*_`~<&\\|\n]")
MARKERS_MAX = 12_000
"""Signs of Markdown and lines in one text. No person writes more of them; each takes 30 µs."""
HTML_FREE = 32 * 1024
HTML_FACTOR = 6
"""HTML of a text may have `HTML_FREE` characters and so many for each of the text. No person writes
more than that; empty cells of tables, say, are many for each."""
RAW_TAGS_MAX = 200
"""Tags of HTML in one text: with more, an HTML parser may repeat them a million times."""
ADDRESSES_MAX = 256 * 1024
"""Characters of all addresses in one text, which a definition may repeat without end."""
CODE_SECONDS_MAX = 1.0
"""Limits the processor time that colouring all code of one text may take; the rest stays plain."""
REFERENCES_MAX = 50
"""Different references in one text, beside names; those that follow stay text."""
NAMES_MAX = 51
"""Different names behind an @ in one text: one more than may be pinged, so that too many show."""

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
"""A tag as the sanitizer writes it, which puts each value into double quotes."""
TAG_NAME = re.compile(r"</?([a-z0-9]+)")
ATTRIBUTE = re.compile(r' ([a-z]+)="([^"]*)"')
UPLOAD = re.compile(r"(?:/api/v1)?/uploads/[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}/content")
ABSOLUTE = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:|//|#")
"""The beginning of an address that is the same wherever its text stands."""
QUIET = {"a", "code", "pre", "kbd", "samp", "tt"}
"""Inside of these nothing is a reference."""
DIRECTED = {"blockquote", "caption", "dd", "dl", "dt", "h1", "h2", "h3", "h4", "h5", "h6", "li"}
DIRECTED |= {"ol", "p", "summary", "table", "td", "th", "ul"}
"""Elements whose direction is that of their text, in a text that has letters for both."""
RIGHT_TO_LEFT = re.compile(
    "[\u0590-\u08ff\ufb1d-\ufdff\ufe70-\ufefc\U00010800-\U00010fff\U0001e800-\U0001efff]"
)
SCROLLED = '<div class="table-scroll" tabindex="0" role="group" aria-label="Table">'
"""Around each table: a wide one can be moved by keys as well. No text has such an element."""
HOST = re.compile(r"https?://([^/?#@\\]+)(/.*)")
ENDS_SENTENCE = "?!.,:;*_~'"
LINK_MAX = 2000
"""Characters of a bare address; a longer one stays text."""
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
"""Around each reference in kept HTML. No text has such marks: the sanitizer lets none through."""


Known = dict[bool, set[str]]
"""The names behind an @ that a text has marked, by True, and all else that it has, by False."""


@dataclass(frozen=True)
class Reference:
    """What a text might refer to; one of the three is set, and `repo` perhaps beside a number."""

    text: str
    """As it is written: `#12`, `teams/core/api#12`, `@ada`, `1f2e3d4`."""
    number: int | None = None
    """Of a thread or pull."""
    repo: str | None = None
    """`teams/core/api`, in lower case; None: where the text is."""
    username: str | None = None
    commit: str | None = None
    """7 to 40 hexadecimal digits, in lower case."""


def render(text: str, *, relative: bool = False, budget: Budget | None = None) -> str:
    """HTML to keep, for `with_links`: not to be shown as it is, for the marks of its references.

    `relative`: pictures with addresses that begin at the text's own stay pictures, for a text that
    is a file beside others. Whoever shows it says where those are. `budget`: for its code.
    """
    budget = budget or Budget(CODE_SECONDS_MAX)
    rendered = "".join(_marked(SANITIZER.clean(_html(text, budget)), relative))
    if len(rendered) > HTML_FREE + HTML_FACTOR * len(text):
        return f"<pre>{html.escape(text)}</pre>"
    return rendered


def references(kept: str) -> list[Reference]:
    """What kept HTML might refer to, each once, in order."""
    return [_reference(text) for text in dict.fromkeys(MARK.findall(kept))]


def with_links(kept: str, addresses: Mapping[str, str]) -> str:
    """HTML to show: references become links where `addresses` has one for their text."""

    def resolved(mark: re.Match[str]) -> str:
        address = addresses.get(mark[1])
        return mark[1] if address is None else f'<a href="{html.escape(address)}">{mark[1]}</a>'

    return MARK.sub(resolved, kept)


def mentions(kept: str) -> set[str]:
    """The names behind an @ in kept HTML, as they are written: nobody may be called so. Not those
    in code.
    """
    return {one.username for one in references(kept) if one.username}


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
    """HTML as CommonMark and its extensions have it; what would take too long is shown as it is."""
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
    """`raw`: whether HTML in the text is left to the sanitizer, or shown as text."""
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
    """Code between fences, with the classes of its language."""
    code, info = tokens[index].content, unescapeAll(tokens[index].info).split()
    coloured = highlight(code, info[0], environment["budget"]) if info else ""
    return f"<pre><code>{coloured or html.escape(code)}</code></pre>\n"


def _find_tasks(state: StateCore) -> None:
    """Items of lists that begin with `[ ]` or `[x]` get a checkbox that nobody can change."""
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
    """Columns are aligned by an attribute: a style would be refused by a policy for content."""
    for token in state.tokens:
        if "style" in token.attrs:
            found = ALIGN.fullmatch(str(token.attrs.pop("style")))
            if found is not None:
                token.attrSet("align", found[1])


def _raw_tags(token: Token) -> int:
    own = token.content.count("<") if token.type in {"html_block", "html_inline"} else 0
    return own + sum(_raw_tags(child) for child in token.children or ())


def _length_of_addresses(token: Token) -> int:
    own = sum(len(str(value)) for value in token.attrs.values())
    return own + sum(_length_of_addresses(child) for child in token.children or ())


def _marked(clean: str, relative: bool) -> Iterator[str]:
    """Sanitized HTML with marks around its references, and its pictures where they are ours."""
    inside: list[str] = []
    known: Known = {True: set(), False: set()}
    directed = DIRECTED if RIGHT_TO_LEFT.search(clean) else set[str]()
    for place, part in enumerate(TAG.split(clean)):
        if place % 2 == 0:
            yield part if inside else _mark(part, known)
        elif part.startswith("<img"):
            yield _picture(part, "a" in inside, relative)
        elif part.startswith("<input"):
            yield _checkbox(part)
        else:
            name = _follow(part, inside)
            yield _tag(part, name, is_directed=name in directed)


def _tag(tag: str, name: str, *, is_directed: bool) -> str:
    """A tag with what every element of its kind gets."""
    is_end = tag.startswith("</")
    if is_directed and not is_end:
        tag = f'{tag[:-1]} dir="auto">'
    if name == "table":
        return f"{tag}</div>" if is_end else f"{SCROLLED}{tag}"
    return tag


def _checkbox(tag: str) -> str:
    """The only input that there is: one that nobody can change."""
    checked = " checked" if " checked=" in tag else ""
    return f'<input type="checkbox" aria-label="Task" disabled{checked}>'


def _follow(tag: str, inside: list[str]) -> str:
    """The element's name. Keep track of those in which nothing is a reference."""
    found = TAG_NAME.match(tag)
    name = found[1] if found else ""
    if name in QUIET and not tag.startswith("</"):
        inside.append(name)
    elif name in QUIET and inside:
        inside.pop()
    return name


def _mark(text: str, known: Known) -> str:
    def marked(found: re.Match[str]) -> str:
        if found["url"]:
            return _bare_link(found["url"])
        if found["emoji"]:
            return EMOJI.get(found["emoji"], found[0])
        is_name = found["username"] is not None
        same = known[is_name]
        if len(same) < (NAMES_MAX if is_name else REFERENCES_MAX):
            same.add(found[0])
        return f"<ref>{found[0]}</ref>" if found[0] in same else found[0]

    return INLINE.sub(marked, text)


def _bare_link(escaped: str) -> str:
    """An address in a text as a link, without the signs of the sentence around it."""
    url = html.unescape(escaped)
    if len(url) > LINK_MAX:
        return escaped
    end = url.rstrip(ENDS_SENTENCE)
    while end.endswith(")") and end.count(")") > end.count("("):
        end = end[:-1].rstrip(ENDS_SENTENCE)
    address, rest = html.escape(end), html.escape(url[len(end) :], quote=False)
    return f'<a href="{address}" rel="nofollow noopener noreferrer">{address}</a>{rest}'


def _picture(tag: str, in_link: bool, relative: bool) -> str:
    """An uploaded file is a picture; from elsewhere it is a link, so that nobody else is told who
    looks at it.
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
    """The path of an upload whose address names a host that this site serves; "" for others.

    The API returns the address by which a client reached it, where no `BASE_URL` is set.
    """
    parts = HOST.fullmatch(source)
    if parts is None or not UPLOAD.fullmatch(parts[2]):
        return ""
    domain, _ = split_domain_port(parts[1])
    hosts = [host for host in settings.ALLOWED_HOSTS if host != "*"]
    return parts[2] if domain and validate_host(domain, hosts) else ""


PARSERS = {raw: _parser(raw) for raw in (True, False)}
"""For all threads, and made before there are any: the library prepares the rules of a parser when
they are first asked for, and a second thread would meet half of them, that is, lose its text.
"""
