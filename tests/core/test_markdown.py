"""Markdown as safe HTML, and its references. Browsers render it in test_markdown_browser."""

from __future__ import annotations

import re
import sys
import time
from importlib.util import module_from_spec, spec_from_file_location
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from markdown_it import ruler

from apps.core import lexers, markdown
from apps.core.lexers import Budget
from apps.core.markdown import Reference, mentions, references, render, with_links

pytestmark = pytest.mark.once

LENGTH = 65_536
TURNS = "*a* 1f2e3d4\n\n| b |\n|--|\n| ~~c~~ |"
BOX = '<input type="checkbox" aria-label="Task"'
LINK = 'rel="nofollow noopener noreferrer"'
UPLOAD = "/uploads/01234567-89ab-cdef-0123-456789abcdef/content"


def shown(text: str, **addresses: str) -> str:
    """The HTML for a reader who may see these references."""
    return with_links(render(text), addresses).strip()


@pytest.mark.parametrize(
    ("text", "html"),
    [
        ("*a* **b** `c`", "<p><em>a</em> <strong>b</strong> <code>c</code></p>"),
        ("~~gone~~", "<p><s>gone</s></p>"),
        ("a\nb", "<p>a\nb</p>"),
        ("# Title", "<h1>Title</h1>"),
        ("2. two", '<ol start="2">\n<li>two</li>\n</ol>'),
        (
            "<details><summary>More</summary></details>",
            "<details><summary>More</summary></details>",
        ),
        ("press <kbd>Ctrl</kbd>", "<p>press <kbd>Ctrl</kbd></p>"),
        (
            "[x](http://a.example/?b&c)",
            f'<p><a href="http://a.example/?b&amp;c" {LINK}>x</a></p>',
        ),
    ],
)
def test_commonmark_and_its_extensions_become_html(text, html):
    assert shown(text) == html


def test_tables_are_aligned_without_a_style():
    html = shown("|a|b|\n|:-:|--:|\n|1|2|")
    assert '<th align="center">a</th>' in html
    assert '<td align="right">2</td>' in html
    assert "style" not in html


def test_tasks_are_boxes_that_nobody_can_tick():
    html = shown("- [ ] to do\n- [x] *done*\n- [y] neither\n\n[ ] no item")
    assert re.findall(r"<li[^\n]*", html) == [
        f'<li class="task-list-item">{BOX} disabled> to do</li>',
        f'<li class="task-list-item">{BOX} disabled checked> <em>done</em></li>',
        "<li>[y] neither</li>",
    ]
    assert html.endswith("<p>[ ] no item</p>")


def test_no_other_input_can_be_written():
    assert shown('<input type="text" value="Password" name="x">') == f"{BOX} disabled>"


def test_code_of_a_named_language_has_classes_and_no_style():
    html = shown("```python\ndef f(): pass\n```")
    assert '<span class="k">def</span>' in html
    assert "style" not in html


@pytest.mark.parametrize("language", ["", "klingon", "<b>", "python2.7"])
def test_code_of_another_language_is_plain(language):
    assert shown(f"```{language}\nif <b>:\n```") == "<pre><code>if &lt;b&gt;:\n</code></pre>"


@pytest.mark.parametrize("limit", ["CODE_MAX", "LINE_MAX"])
def test_long_code_and_code_of_long_lines_is_plain(monkeypatch, limit):
    monkeypatch.setattr(lexers, limit, 20)
    assert "span" in shown("```python\nif x: pass\n```")
    assert "span" not in shown("```python\nif x: pass # and so on\n```")


@pytest.mark.parametrize("limit", [("BLOCK_TOKENS_MAX", 3), ("BLOCK_SECONDS_MAX", -1)])
def test_code_that_takes_too_long_is_plain_from_there_on(monkeypatch, limit):
    monkeypatch.setattr(lexers, *limit)
    html = shown("```python\nif x < 1: return '<b>'\nelse: pass\n```")
    assert html.endswith("1: return '&lt;b&gt;'\nelse: pass\n</code></pre>")


def test_every_language_that_may_be_named_is_known():
    assert all(lexers.highlight("x = 1", name, Budget(1)) for name in lexers.LANGUAGES)


@pytest.mark.parametrize(
    "text",
    [
        "<script>alert(1)</script>",
        '<p onclick="alert(1)" style="color: red" id="x" class="y">',
        "[x](javascript:alert(1)) <javascript:alert(1)>",
        "[x](data:text/html;base64,PHNjcmlwdD4=)",
        '<a href="jav&#x09;ascript:alert(1)">x</a>',
        '<svg onload=alert(1)><style>@import "//e.example"</style></svg>',
        "<iframe src=//e.example></iframe><object data=x></object><form action=x>",
        "<math><mi xlink:href=javascript:alert(1)>",
    ],
)
def test_nothing_that_runs_is_left(text):
    html = shown(text)
    assert not re.search(
        r"<(?!/?p>|a rel=|/a>)|javascript:|data:|alert\(1\)\"|on\w+=|style|import", html
    ) or html.startswith("<p>[x](")


def test_only_uploads_of_this_site_are_pictures(settings):
    settings.BASE_URL = "https://hall.example"
    for source in (UPLOAD, f"/api/v1{UPLOAD}", f"https://hall.example{UPLOAD}"):
        assert shown(f"![a]({source})") == f'<p><img src="{source}" alt="a"></p>'
    for source in (
        f"https://e.example{UPLOAD}",
        f"https://hall.example.e.example{UPLOAD}",
        f"//e.example{UPLOAD}",
        f"{UPLOAD}?x",
        "x.png",
    ):
        wanted = f'<p><a href="{source}" {LINK}>a &amp; &lt;b</a></p>'
        assert shown(f"![a & <b]({source})") == wanted
        assert shown(f'<img src="{source}" alt="a &amp; <b">').strip("<p>/") in wanted


def test_a_file_keeps_pictures_that_are_beside_it_and_no_others():
    text = "![a](b.png) ![c](https://d.example/e.png) <img src=f> ![g](//h/i.png)"
    html = render(text, relative=True)
    assert '<img src="b.png" alt="a">' in html and '<img alt="f" src="f">' in html
    assert html.count("<img") == 2 and "<img" not in render(text)


def test_a_picture_inside_a_link_or_without_an_address_is_its_text():
    html = shown("[![a](http://e.example/x.png)](http://f.example)")
    assert html == f'<p><a href="http://f.example" {LINK}>a</a></p>'
    assert shown("![a](data:image/png;base64,AA)") == "<p>a</p>"
    assert shown("<img src='data:x' alt='a'>") == "a"


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("see #12.", Reference("#12", number=12)),
        ("(#12)", Reference("#12", number=12)),
        ("**#12**", Reference("#12", number=12)),
        ("teams/core/api#3", Reference("teams/core/api#3", number=3, repo="teams/core/api")),
        ("users/Ada/x.y#3", Reference("users/Ada/x.y#3", number=3, repo="users/ada/x.y")),
        ("hi @Ada-B.c.", Reference("@Ada-B.c", username="Ada-B.c")),
        ("@ada, hi", Reference("@ada", username="ada")),
        ("since 1f2e3d4", Reference("1f2e3d4", commit="1f2e3d4")),
        ("a" * 40, Reference("a" * 40, commit="a" * 40)),
    ],
)
def test_references_are_found(text, wanted):
    assert references(render(text)) == [wanted]


@pytest.mark.parametrize(
    "text",
    [
        *("#0", "#012", "#12a", "a#12", "##12", "#1234567890", "core/api#3", "teams/core#3"),
        *("a@b.example", "@@ada", "@", "@-ada", "@ada/team", "@ada_", "@" + "a" * 40),
        *("1f2e3d", "1F2E3D4", "a" * 41, "x1f2e3d4", "1f2e3d4x", "http://a.example/#12"),
        *(
            "`#12`",
            "    #12",
            "```\n#12\n```",
            "[#12](x)",
            "<a href=x>#12</a>",
            "<code>@ada</code>",
        ),
        *(
            "<kbd>@ada</kbd>",
            '<b title="#12 @ada">x</b>',
            "![#12](http://e.example)",
            "<!-- #12 -->",
        ),
    ],
)
def test_what_is_in_code_in_links_or_no_reference_is_not_found(text):
    assert references(render(text)) == []
    assert mentions(render(text)) == set()


def test_references_are_links_for_whom_they_have_an_address_and_text_for_others():
    kept = render("#1 and #2 & @ada")
    assert with_links(kept, {}) == "<p>#1 and #2 &amp; @ada</p>\n"
    assert with_links(kept, {"#2": 'http://a.example/"&'}) == (
        '<p>#1 and <a href="http://a.example/&quot;&amp;">#2</a> &amp; @ada</p>\n'
    )


def test_nobody_can_write_the_mark_of_a_reference():
    text = (
        'x <ref>@ada</ref> <b title="<ref>#12</ref>">&lt;ref&gt;#13&lt;/ref&gt;</b> `<ref>1</ref>`'
    )
    kept = render(text)
    assert [one.text for one in references(kept)] == ["@ada", "#13"]
    addresses = dict.fromkeys(("#12", "1"), "http://a.example")
    assert with_links(kept, addresses) == with_links(kept, {})


def test_only_the_first_fifty_references_of_a_text_count():
    text = " ".join(f"#{number} #1" for number in range(1, 100))
    found = references(render(text))
    assert [one.number for one in found] == [*range(1, 51)]


def test_mentions_are_named_once():
    assert mentions(render("@ada, @Bob and @ada: `@eve`\n\n> @carol")) == {"ada", "Bob", "carol"}


HOSTILE = ["[", "*", ">", "`", "_", "~", "<", "&", "|", "![", "[a](", "[*", "> ", "- ", "- [ ] a\n"]
HOSTILE += [
    "<b>",
    "<p>",
    "<div>\n",
    "<!--",
    "~~a",
    "|a|\n",
    "|-|\n",
    "# a\n",
    "[a]: b\n",
    "@a ",
    "#1",
]
HOSTILE += ["http://a ", "http://a)", "http://a))", ":a", "::", ":tada:", "\u05d0 "]
HOSTILE += ["```python\n", "<a ", "&#x", "1f2e3d4 ", "teams/a/", "a_" * 30]


@pytest.mark.parametrize("piece", HOSTILE)
def test_hostile_text_is_rendered_quickly_and_to_little(piece):
    text = (piece * LENGTH)[:LENGTH]
    begin = time.thread_time()
    html = render(text)
    assert time.thread_time() - begin < 10
    assert len(html) < 10 * LENGTH


def test_definitions_and_tags_do_not_multiply():
    repeated = f"[a]: /{'x' * 20_000}\n\n" + "[a]" * 3_000
    assert len(render(repeated)) < 2 * LENGTH
    nested = "".join(f"<b title={number}>" for number in range(250)) + "<p>x" * 250
    assert len(render(nested)) < LENGTH


def test_a_text_with_very_many_markers_is_shown_as_it_is(monkeypatch):
    monkeypatch.setattr(markdown, "MARKERS_MAX", 3)
    assert shown("*a* #1") == "<p><em>a</em> #1</p>"
    assert shown("*a* *b* <c #1") == "<pre>*a* *b* &lt;c #1</pre>"


@given(st.text(alphabet="<>&\"'`*_[]()!#@ab1/\n -ref=x", max_size=80))
def test_rendering_never_fails_and_marks_come_and_go_in_pairs(text):
    kept = render(text)
    assert kept.count("<ref>") == kept.count("</ref>")
    assert "<ref>" not in with_links(kept, {})
    assert mentions(kept) == {one.username for one in references(kept) if one.username}


def render_in_turns(at: tuple[str, int] | None) -> tuple[list[str], list[tuple[str, int]]]:
    """The results of two threads that render `TURNS` in a new process, if the second runs when the
    first comes to this line of the library's rules; and the lines that the first reaches.
    """
    found, lines = list[str](), list[tuple[str, int]]()
    with pytest.MonkeyPatch.context() as patch:
        fresh = load_again(patch)

        def at_each_line(frame: Any, event: str, _: Any) -> Any:
            if frame.f_code.co_filename != ruler.__file__:
                return None
            line = (frame.f_code.co_name, frame.f_lineno)
            if event == "line" and line == at and line not in lines:
                found.append(fresh.render(TURNS))
            lines.append(line)
            return at_each_line

        before = sys.gettrace()
        sys.settrace(at_each_line)
        try:
            found.append(fresh.render(TURNS))
        finally:
            sys.settrace(before)
    return found, lines


def load_again(patch: pytest.MonkeyPatch) -> Any:
    """A new copy of the module, as in a new process."""
    spec: Any = spec_from_file_location("fresh_markdown", markdown.__file__)
    fresh = module_from_spec(spec)
    patch.setitem(sys.modules, spec.name, fresh)
    spec.loader.exec_module(fresh)
    return fresh


def test_of_the_first_texts_of_a_process_none_meets_rules_that_are_half_prepared():
    """The library prepares rules on first use, without a lock."""
    wanted = render(TURNS)
    found, lines = render_in_turns(at=None)
    assert found == [wanted]
    for line in sorted(set(lines)):
        assert set(render_in_turns(at=line)[0]) == {wanted}, line


def test_an_upload_is_a_picture_by_the_address_that_the_api_returned_for_it(settings):
    settings.BASE_URL, settings.ALLOWED_HOSTS = "", ["hall.example", "127.0.0.1", "[::1]", "*"]
    path = f"/api/v1{UPLOAD}"
    for host in ("hall.example", "127.0.0.1:8000", "HALL.example", "[::1]:8000"):
        assert shown(f"![a](http://{host}{path})") == f'<p><img src="{path}" alt="a"></p>'
    assert f'src="{path}"' in shown(
        f'<img alt="http://hall.example{path}" src="https://hall.example{path}">'
    )


ELSEWHERE = ["e.example", "hall.example.e.example", "x@hall.example", "hall.example:80@e.example"]
ELSEWHERE += ["e.example\\hall.example", "hall.example:x", ""]


@pytest.mark.parametrize("host", ELSEWHERE)
def test_an_upload_of_another_host_stays_a_link(settings, host):
    settings.BASE_URL, settings.ALLOWED_HOSTS = "", ["hall.example", "*"]
    assert "<img" not in shown(f"![a](<http://{host}/api/v1{UPLOAD}>)")
    assert "<img" not in shown(f'<img src="http://{host}/api/v1{UPLOAD}" alt=a>')
    assert "<img" not in shown(f"![a](http://hall.example/x/..{UPLOAD})")


def test_empty_cells_of_tables_do_not_multiply():
    table = "|a" * 400 + "|\n" + "|-" * 400 + "|\n" + "|x\n" * 160
    assert len(render(table)) < 8 * len(table) + 64 * 1024
    assert "<td>x</td>" in shown("|a|b|c|\n|-|-|-|\n" + "|x|\n" * 50)


@pytest.mark.parametrize(
    ("text", "url", "rest"),
    [
        ("http://a.example/b_c?d=1&e#f", "http://a.example/b_c?d=1&amp;e#f", ""),
        ("https://a.example.", "https://a.example", "."),
        ("https://a.example/(b))!", "https://a.example/(b)", ")!"),
        ("https://a.example/#12", "https://a.example/#12", ""),
        ("https://a.example/@ada", "https://a.example/@ada", ""),
        ("https://a.example/&", "https://a.example/&amp;", ""),
    ],
)
def test_a_bare_address_is_a_link(text, url, rest):
    assert shown(f"see {text} now") == f'<p>see <a href="{url}" {LINK}>{url}</a>{rest} now</p>'


@pytest.mark.parametrize(
    "text",
    ["`http://a.example`", "[x](http://a.example)", "xhttp://a", "http://", "javascript://a"],
)
def test_no_address_in_code_or_in_a_link_becomes_a_link_itself(text):
    assert shown(text).count("<a ") == text.count("](")


def test_a_bare_address_cannot_bring_an_attribute_or_an_element():
    html = shown("http://a.example/\"onclick=alert(1)&quot;x&lt;b&gt;'y")
    assert html.count("<") == 4 and 'href="http://a.example/"' in html


def test_emoji_have_names_and_none_in_code():
    assert shown(":tada: a:tada: :+1:, :nobody: `:tada:`") == (
        "<p>🎉 a:tada: 👍, :nobody: <code>:tada:</code></p>"
    )


def test_each_block_of_a_text_with_right_to_left_letters_has_the_direction_of_its_own():
    html = shown("# שלום\n\nhello\n\n- مرحبا\n\n> a\n\n|b|\n|-|\n|c|")
    for name in ("h1", "p", "ul", "li", "blockquote", "table", "th", "td"):
        assert re.search(f'<{name} dir="auto">', html), name
    assert "dir=" not in shown("# hello é")
    assert 'dir="auto"' in shown("&#1513;")


def test_a_table_can_be_scrolled_by_keys():
    html = shown("|a|\n|-|\n|b|")
    assert html.startswith(
        '<div class="table-scroll" tabindex="0" role="group" aria-label="Table">'
    )
    assert html.endswith("</table></div>")
    assert "table-scroll" not in shown('<div class="table-scroll" tabindex="0">x</div>')
