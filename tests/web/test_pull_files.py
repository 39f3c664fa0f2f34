"""The tab Files of a pull without scripts: its tree, marks, hidden lines, ranges and comments."""

from __future__ import annotations

import re
from html import unescape

import pytest

from apps.pulls.models import SeenVersion, ViewedFile
from apps.threads.models import Reply
from apps.web import diffs
from tests.browse.code import push
from tests.test_queries import costing

pytestmark = pytest.mark.once
LINES = [b"line %d" % n for n in range(1, 101)]


def text(**changed: str) -> bytes:
    """A hundred lines, of which some are others: `text(l3="x")`."""
    new = [*LINES]
    for name, line in changed.items():
        new[int(name[1:]) - 1] = line.encode()
    return b"\n".join(new) + b"\n"


SAME = {b"app/main.py": text(), b"app/util/text.py": text(), b"README": b"1\n"}
CHANGED = SAME | {
    b"app/main.py": text(l50="other"),
    b"app/util/text.py": text(l1="first", l100="last"),
    b"logo.png": b"\x89PNG\r\n\x1a\n\0",
}


@pytest.fixture
def base(team_repo, code, alice):
    made = code.commit_with(SAME)
    push(team_repo, "refs/heads/main", made, by=alice)
    return made


@pytest.fixture
def push_head(team_repo, code, base, alice):
    """`push_head({path: content})` pushes a version with these other files."""

    def pushed(files=None):
        sha = code.commit_with(CHANGED | (files or {}), base)
        push(team_repo, "refs/heads/topic", sha, by=alice)
        return sha

    return pushed


@pytest.fixture
def pull(make, team_repo, push_head, alice):
    push_head()
    return make.pull(team_repo, by=alice, source="topic")


@pytest.fixture
def address(pull):
    return f"/{pull.repo.path}/pulls/{pull.number}"


def anchor_in(page, path):
    """The id of a file."""
    return page.find(rf'<section class="sheet diff" id="(f\w+)" aria-label="{re.escape(path)}"')


def section(page, path):
    """The HTML of a file."""
    anchor = anchor_in(page, path)
    return page.find(rf'(<section class="sheet diff" id="{anchor}".*?</section>)')


def lines(html):
    cells = re.findall(r'<td class="c[^"]*">(.*?)</td>', html)
    return [re.sub(r"<[^>]+>", "", cell) for cell in cells]


def test_the_tree_has_folders_with_their_files(visit, address, bob):
    page = visit(bob).get(f"{address}/files").gives()
    tree = page.find(r'(<ul class="tree">.*?)</details></nav>')
    assert re.findall(r'<span class="mono">([^<]*)</span>', tree) == ["app/", "util/"]
    assert re.findall(r'<a class="mono" href="#f\w+">([^<]*)</a>', tree) == [
        "text.py",
        "main.py",
        "logo.png",
    ]
    assert '<span class="p">+3</span><span class="m">\u22123</span></span></summary>' in tree
    assert '<abbr title="added">A</abbr>' in tree


def test_files_are_filtered_by_name(visit, address, bob):
    page = visit(bob).get(f"{address}/files?name=UTIL&view=split").gives()
    assert re.findall(r'aria-label="([^"]*)" data-file', page.html) == ["app/util/text.py"]
    assert page.value("name") == "UTIL" and page.value("view") == "split"
    assert "Changes in 3 files" in page.text


def test_a_viewed_file_is_closed_and_counted(visit, address, bob, alice):
    person = visit(bob)
    page = person.get(f"{address}/files?view=split").gives()
    assert "0 of 3 viewed" in page.text
    anchor = anchor_in(page, "app/main.py")
    action = page.find(r'<form class="row" id="viewed" method="post" action="([^"]*)"')
    sent = {"viewed": anchor, "head_sha": page.value("head_sha")}
    person.post(action, **sent).redirects_to(f"{address}/files?view=split#{anchor}")
    page = person.get(f"{address}/files").gives()
    assert "1 of 3 viewed" in page.text and "<table" not in section(page, "app/main.py")
    assert "2 changed lines, viewed" in page.text and "<table" in section(page, "app/util/text.py")
    hidden = person.get(f"{address}/files?viewed=hide").gives()
    assert anchor not in hidden.html and "1 of 3 viewed" in hidden.text
    opened = person.get(f"{address}/files?open={anchor}").gives()
    assert "other" in lines(section(opened, "app/main.py"))
    assert "0 of 3 viewed" in visit(alice).get(f"{address}/files").gives().text
    person.post(f"{address}/viewed", unviewed=anchor).gives(303)
    assert not ViewedFile.objects.exists()
    person.post(f"{address}/viewed", viewed="f000000000000").gives(404)
    visit().post(f"{address}/viewed", viewed=anchor).gives(401)


def test_a_push_says_what_is_new_since_somebody_looked(visit, address, push_head, bob):
    person = visit(bob)
    page = person.get(f"{address}/files").gives()
    anchors = [anchor_in(page, name) for name in ("app/main.py", "logo.png")]
    for anchor in anchors:
        person.post(f"{address}/viewed", viewed=anchor).gives(303)
    assert "New since then" not in page.text
    push_head({b"app/main.py": text(l50="other", l51="more")})
    for _ in range(2):
        page = person.get(f"{address}/files").gives()
        assert f'href="{address}/compare/1...2">New since then' in page.html
        assert "1 of 3 viewed" in page.text
    seen = SeenVersion.objects.get()
    assert (seen.version, seen.previous_version) == (2, 1)
    old = person.get(f"{address}/files?version=1").gives()
    assert "This is version 1 of the pull" in old.text and "2 of 3 viewed" in old.text
    visit().get(f"{address}/files")
    assert SeenVersion.objects.count() == 1


def test_hidden_lines_are_opened(visit, address, bob):
    person = visit(bob)
    page = person.get(f"{address}/files").gives()
    main = section(page, "app/main.py")
    assert lines(main)[0] == "line 47" and "line 53" in lines(main)
    links = [unescape(link) for link in re.findall(r'<a class="more" href="([^"]*)"', main)]
    anchor = anchor_in(page, "app/main.py")
    assert [link.partition("expand=")[2] for link in links] == [
        f"{anchor}.27-46#{anchor}-n47",
        f"{anchor}.all#{anchor}-n47",
        f"{anchor}.54-73#{anchor}-n53",
        f"{anchor}.all#{anchor}-n54",
    ]
    more = section(person.get(links[0]).gives(), "app/main.py")
    assert lines(more)[0] == "line 27" and f'id="{anchor}-n27"' in more
    assert re.findall(r"expand=\w+\.(\d+-\d+)#", more) == ["7-26", "54-73"]
    whole = section(person.get(f"{address}/files?expand={anchor}.all").gives(), "app/main.py")
    assert len(lines(whole)) == 101 and 'class="more"' not in whole
    split = person.get(f"{address}/files?view=split&expand={anchor}.all").gives()
    assert "line 1" in lines(section(split, "app/main.py"))
    few = section(person.get(f"{address}/files?expand={anchor}.8-46").gives(), "app/main.py")
    assert "Show 7 hidden lines" in few
    for wrong in ("x", f"{anchor}.0-3", f"{anchor}.9-1", f"{anchor}.900-950", "f000000000000.1-2"):
        again = person.get(f"{address}/files?expand={wrong}").gives()
        assert lines(section(again, "app/main.py")) == lines(main), wrong


def test_a_range_of_lines_is_marked_and_opened(visit, address, bob):
    person = visit(bob)
    anchor = anchor_in(person.get(f"{address}/files").gives(), "app/main.py")
    page = person.get(f"{address}/files?lines={anchor}-n10-12").gives()
    main = section(page, "app/main.py")
    assert re.findall(r'<tr id="f\w+-n(\d+)" class="marked">', main) == ["10", "11", "12"]
    assert f"version=1&lines={anchor}-n10-12#{anchor}-n10" in unescape(main)
    old = section(person.get(f"{address}/files?lines={anchor}-o50").gives(), "app/main.py")
    assert re.findall(r'<tr id="(f\w+-o50)" class="marked">', old) == [f"{anchor}-o50"]
    chosen = f"lines_in={anchor}&lines_side=n&lines_from=12&lines_to=10"
    assert "10 to 12" in person.get(f"{address}/files?{chosen}").gives().text
    for wrong in ("x", f"{anchor}-n0", "f000000000000-n1", f"{anchor}-n9999999"):
        assert 'class="marked"' not in person.get(f"{address}/files?lines={wrong}").gives().html


def test_one_file_is_sent_for_scripts(visit, address, bob, monkeypatch):
    person = visit(bob)
    page = person.get(f"{address}/files").gives()
    anchor = anchor_in(page, "app/main.py")
    person.post(f"{address}/viewed?part={anchor}", viewed=anchor).redirects_to(
        f"{address}/files?part={anchor}#{anchor}"
    )
    closed = person.get(f"{address}/files?part={anchor}").gives()
    assert closed.html.startswith("<section") and "<table" not in closed.html
    assert "data-viewed-count>1</b>" in closed.html
    part = person.get(f"{address}/files?part={anchor}&open={anchor}").gives()
    assert "other" in lines(part.html) and "<h1" not in part.html and "part=" not in part.html
    person.get(f"{address}/files?part=f000000000000").gives(404)


def test_what_is_not_looked_at_is_not_sent(visit, address, bob, monkeypatch):
    monkeypatch.setattr(diffs, "ROWS_MAX", 5)
    person = visit(bob)
    page = person.get(f"{address}/files").gives()
    assert page.html.count("<table") == 1 and page.html.count('class="closed"') == 1
    link = page.find(r'<p class="fold"><a href="([^"]*)">Show the changes')
    assert person.get(link).gives().html.count("<table") == 2
    with costing() as cost:
        person.get(link).gives()
    assert cost.git == 0


def test_a_picture_is_shown_beside_its_former_version(visit, address, push_head, bob):
    page = visit(bob).get(f"{address}/files").gives()
    picture = section(page, "logo.png")
    assert "After, 9\xa0bytes" in picture and "Before" not in picture
    source = unescape(re.findall(r'<img src="([^"]*)" alt="After: logo.png"', picture)[0])
    assert visit(bob).client.get(source).headers["Content-Type"] == "image/png"


def comment_on(person, page_address, place, body="Why?", **fields):
    page = person.get(f"{page_address}/files?comment={place}").gives()
    action = page.find(r'<form class="tight" method="post" action="([^"]*)#say-line"')
    return person.post(action, **{"kind": "comment", "body": body, **fields})


def test_a_comment_is_written_below_its_line(visit, address, bob, alice):
    person = visit(bob)
    anchor = anchor_in(person.get(f"{address}/files").gives(), "app/main.py")
    row = f"{anchor}-n50"
    page = person.get(f"{address}/files").gives()
    assert f'comment={row}#{row}" tabindex="-1" aria-label="Comment on line 50"' in page.html
    posted = comment_on(person, address, row)
    posted.redirects_to(f"{address}/files?open={anchor}#{row}")
    shown = section(visit(alice).get(f"{address}/files").gives(), "app/main.py")
    below = re.search(rf'<tr id="{row}".*?</tr>\s*<tr class="below">(.*?)</tr>', shown, re.DOTALL)
    assert below and "Why?" in below[1] and "1 comment" in shown
    hidden = comment_on(person, address, f"{anchor}-n8-10", "On hidden lines.")
    hidden.gives(303)
    shown = section(person.get(f"{address}/files").gives(), "app/main.py")
    assert "On hidden lines." in shown and "line 13" in lines(shown) and "line 20" not in shown
    comment_on(person, address, f"{anchor}-o50", "On the old line.").gives(303)
    comments = Reply.objects.order_by("number").values_list("anchor__side", "anchor__start_line")
    assert [*comments] == [("new", 50), ("new", 8), ("old", 50)]
    split = visit(alice).get(f"{address}/files?view=split").gives()
    assert split.html.count('<tr class="below">') == 3


def test_a_refused_or_previewed_comment_keeps_its_text(visit, address, push_head, bob):
    person = visit(bob)
    anchor = anchor_in(person.get(f"{address}/files").gives(), "app/main.py")
    empty = comment_on(person, address, f"{anchor}-n50", " ").gives(422)
    assert empty.alert() and f'id="{anchor}-n50"' in empty.html
    long = comment_on(person, address, f"{anchor}-n50", "x" * 70_000).gives(422)
    assert "x" * 70_000 in long.html
    preview = comment_on(person, address, f"{anchor}-n50", "**so**", preview="yes").gives()
    assert "<strong>so</strong>" in preview.html and "**so**" in preview.html
    gone = comment_on(person, address, f"{anchor}-n500", "Beyond the end.").gives(422)
    assert "Beyond the end." in gone.html
    page = person.get(f"{address}/files?comment={anchor}-n50").gives()
    action = page.find(r'<form class="tight" method="post" action="([^"]*)#say-line"')
    push_head({b"app/main.py": text()})
    late = person.post(action, kind="comment", body="Late.").gives(303)
    assert Reply.objects.get().body == "Late." and late.status == 303
    assert "Late." in person.get(f"{address}/files").gives().text
    visit().post(action, kind="comment", body="Signed out.").gives(401)


def test_a_comment_is_answered_and_resolved(visit, address, bob, alice):
    person, author = visit(bob), visit(alice)
    anchor = anchor_in(person.get(f"{address}/files").gives(), "app/main.py")
    comment_on(person, address, f"{anchor}-n50").gives(303)
    link = author.get(f"{address}/files").gives().find(r'href="(\?[^"]*reply=1#reply-1)"')
    page = author.get(f"{address}/files{link}").gives()
    action = page.find(r'<form class="tight" method="post" action="([^"]*)#say-line"')
    refused = author.post(action, kind="comment", body=" ").gives(422)
    assert refused.alert()
    author.post(action, kind="answer", body="Because.").redirects_to(f"{address}/files#reply-2")
    page = person.get(f"{address}/files").gives()
    assert page.text.index("Why?") < page.text.index("Because.")
    status = f"{address}/comments/1/status"
    author.post(status, status="resolved").redirects_to(f"{address}/files#reply-1")
    page = person.get(f"{address}/files").gives()
    assert "Resolved: bob on line 50" in page.text and "Reopen" in page.text
    person.post(status, status="open").gives(303)
    assert Reply.objects.get(number=1).status == "open"
    person.post(f"{address}/comments/9/status", status="open").gives(404)


def test_an_outdated_comment_stands_at_the_head_of_its_file(visit, address, push_head, bob):
    person = visit(bob)
    anchor = anchor_in(person.get(f"{address}/files").gives(), "app/main.py")
    comment_on(person, address, f"{anchor}-n50").gives(303)
    push_head({b"app/main.py": text(l50="again another")})
    main = section(person.get(f"{address}/files").gives(), "app/main.py")
    assert "outdated" in main and "the lines have changed" in main and "other\n" in main
    assert main.index("Why?") < main.index("<table")
    push_head({b"app/main.py": text()})
    page = person.get(f"{address}/files").gives()
    assert "Comments on files that this version does not change" in page.text


@pytest.mark.parametrize("visibility", ["private", "internal", "public"])
def test_who_may_reply_may_comment_and_writers_and_authors_resolve(
    visit, address, pull, bob, carol, visibility
):
    pull.repo.visibility = visibility
    pull.repo.save()
    anchor = anchor_in(visit(bob).get(f"{address}/files").gives(), "app/main.py")
    sent = {"kind": "comment", "body": "Why?"}
    may_read = visibility != "private"
    path = f"{address}/comments/{anchor}-n50?at=1"
    visit().post(path, **sent).gives(401)
    visit(carol).post(path, **sent).gives(303 if may_read else 403)
    visit(bob).post(path, **sent).gives(303)
    number = Reply.objects.get(created_by=bob).number
    below = f"{address}/comments/{number}"
    visit().post(f"{below}/reply", **sent).gives(401)
    visit(carol).post(f"{below}/reply", **sent).gives(303 if may_read else 403)
    visit().post(f"{below}/status", status="resolved").gives(401)
    visit(carol).post(f"{below}/status", status="resolved").gives(403)
    visit(bob).post(f"{below}/status", status="resolved").gives(303)
    pull.repo.is_archived = True
    pull.repo.save()
    for path in (f"{address}/comments/{anchor}-n50?at=1", f"{below}/reply"):
        visit(bob).post(path, **sent).gives(409)
    visit(bob).post(f"{address}/viewed", viewed=anchor).gives(409)


def test_a_visitor_sees_no_buttons(visit, address, pull):
    pull.repo.visibility = "public"
    pull.repo.save()
    page = visit().get(f"{address}/files").gives()
    assert 'class="say"' not in page.html and 'form="viewed"' not in page.html
    assert "<table" in page.html and "Your review" not in page.text
    assert not SeenVersion.objects.exists()


def test_the_number_of_queries_does_not_depend_on_comments(visit, address, bob):
    person = visit(bob)
    anchor = anchor_in(person.get(f"{address}/files").gives(), "app/main.py")
    costs = []
    for number in (48, 49, 51, 52):
        comment_on(person, address, f"{anchor}-n{number}").gives(303)
        person.get(f"{address}/files").gives()
        with costing() as cost:
            person.get(f"{address}/files").gives()
        costs.append((cost.sql, cost.git))
    assert len({*costs}) == 1 and costs[0][1] == 0 and costs[0][0] <= 21
