"""The pages of code: a repository, its folders and files, commits, branches, comparisons."""

import re
from urllib.parse import quote

import pytest
from django.utils import timezone

from apps.accounts.models import User
from apps.browse import trees
from apps.browse.models import GitCache
from apps.browse.pushers import read_all_pushes
from apps.core.markdown import render
from apps.events.models import Event
from apps.repos.models import CommitPush, Repo, Visibility
from apps.web.code import history_address, link_target, path_address, resolved
from apps.web.templatetags.guildhall import lasting
from apps.web.templatetags.pictures import face
from tests.browse.code import FILE, LINK, SUBMODULE, Thing, code_of, push
from tests.factories import ForkFactory, UserFactory
from tests.test_queries import costing

pytestmark = pytest.mark.once
README = b"""# Api

See [the manual](manual/start.txt#begin), [terms](/empty), [elsewhere](https://example.org/x).

![plan](manual/plan.png) ![far](https://example.org/far.png)

It is read by people and by programs, and is long enough to be worth compressing.
"""
PNG = b"\x89PNG\r\n\x1a\n" + bytes(20)
FILES: dict[bytes, Thing] = {
    b"README.md": README,
    b"manual/start.txt": b"# Guide\n",
    b"manual/plan.png": PNG,
    b"src/app.py": b"import os\n\n\ndef run():\n    return 1\n",
    b"link": (LINK, b"src/app.py"),
    b"vendor": (SUBMODULE, b"1" * 40),
    b"caf\xe9.txt": b"latin\n",
    b"empty": b"",
}


@pytest.fixture(autouse=True)
def patient(monkeypatch):
    """Gives git enough time for the last changes, even on a busy machine."""
    monkeypatch.setattr(trees, "LAST_CHANGES_SECONDS", 60)


@pytest.fixture
def main(team_repo, code, alice):
    """The head of `main`: two commits, the second of which changes a file in a folder."""
    first = code.commit_with(FILES, message="Begin\n\nWith <b>care</b>.")
    changed = FILES | {b"src/app.py": b"import os\n\n\ndef run():\n    return 2\n"}
    second = code.commit_with(changed, first, message="Run twice", at=1_700_100_000)
    push(team_repo, "refs/heads/main", second, by=alice)
    return second


def lines(html):
    """The text of each line of a file or a diff, as a browser sees it."""
    cells = re.findall(r'<td class="c[^"]*">(.*?)</td>', html, re.DOTALL)
    return [re.sub(r"<[^>]+>", "", cell) for cell in cells]


def test_a_repository_shows_its_files_their_last_changes_and_its_readme(visit, root, main, bob):
    page = visit(bob).get(root).gives()
    names = re.findall(r'<span class="name">.*?<(?:a [^>]*|span)>([\w.]+)', page.html)
    assert names[:2] == ["manual", "src"] and {"README.md", "vendor", "link"} < {*names}
    change = r'<a href="[^"]*/files/(\w+)[^"]*">.*?<span class="said">(.*?)</span>'
    said = re.findall(change, page.html)
    by_name = {name: re.sub("<[^>]+>", "", text) for name, text in said}
    assert by_name["src"] == "Run twice" and by_name["manual"] == by_name["README"] == "Begin"
    assert f'href="{root}/commits/{main}"' in page.html and "1 branch" in page.text
    assert f'href="{root}/files/manual/start.txt#begin"' in page.html
    assert f'href="{root}/files/empty"' in page.html
    assert f'<img src="{root}/raw/manual/plan.png" alt="plan">' in page.html
    assert 'src="https' not in page.html and 'href="https://example.org/x"' in page.html
    assert page.html.count("<h1") == 1 and "<h3>Api</h3>" in page.html


def test_what_git_has_no_time_to_find_stays_blank(visit, root, main, bob, monkeypatch):
    monkeypatch.setattr(trees, "LAST_CHANGES_SECONDS", 0)
    page = visit(bob).get(root).gives()
    assert "src" in page.text and "Run twice" not in page.text
    assert "took too long" in page.text
    monkeypatch.setattr(trees, "LAST_CHANGES_SECONDS", 60)
    assert "Run twice" not in visit(bob).get(root).text
    GitCache.objects.filter(ends_at__isnull=False).update(ends_at=timezone.now())
    assert "Run twice" in visit(bob).get(root).text


def test_a_repository_starts_no_git_when_it_is_shown_again(visit, root, main, bob):
    person = visit(bob)
    person.get(root).gives()
    with costing() as cost:
        person.get(root).gives()
    assert cost.git == 0 and cost.sql <= 15
    person.get(f"{root}/files/src").gives()
    with costing() as cost:
        person.get(f"{root}/files/src").gives()
    assert cost.git == 0 and cost.sql <= 15
    with costing() as cost:
        person.get(f"{root}/files/src/app.py").gives()
    assert cost.git == 0 and cost.sql <= 12


def test_many_branches_and_commits_cost_no_more(visit, root, main, team_repo, code, alice):
    person, costs = visit(alice), []
    for count in (2, 30):
        for n in range(count):
            push(team_repo, f"refs/heads/b{count}-{n}", main, by=alice)
            push(team_repo, f"refs/tags/t{count}-{n}", main, by=alice)
        for page in ("/branches", "/commits", "/tags", ""):
            person.get(f"{root}{page}").gives()
            with costing() as cost:
                person.get(f"{root}{page}").gives()
            costs.append((cost.sql, cost.git))
    assert costs[:4] == costs[4:]
    assert costs[0] <= (10, 0) and costs[1] <= (11, 1) and costs[2] <= (8, 0)


def test_an_empty_repository_says_how_to_push_on_each_page(visit, root, bob):
    person = visit(bob)
    assert "Use a token as the password" in person.get(root).gives().text
    assert 'href="/settings/tokens"' in person.get(root).html
    for page in ("/commits", "/branches"):
        assert "Nothing has been pushed yet" in person.get(f"{root}{page}").gives().text
    assert "form" in person.get(f"{root}/compare").gives().html
    person.get(f"{root}/files").gives(404)


def test_a_repository_without_its_default_branch_leads_to_the_others(
    visit, root, team_repo, code, alice
):
    push(team_repo, "refs/heads/topic", code.commit_with(FILES), by=alice)
    team_repo.default_branch = "gone"
    team_repo.save()
    page = visit(alice).get(root).gives()
    assert "The default branch" in page.text and f"{root}/branches" in page.html
    assert "manual" in visit(alice).get(f"{root}/files?ref=topic").gives().text


def test_a_file_is_shown_with_numbers_colours_and_ways_on(visit, root, main, bob):
    page = visit(bob).get(f"{root}/files/src/app.py").gives()
    assert page.h1 == "app.py" and "src/app.py at main" in page.html
    assert lines(page.html) == ["import os", "", "", "def run():", "    return 2"]
    assert '<tr id="L4"><td class="n"><a href="#L4" data-n="4"' in page.html
    assert "<i class=k>def</i> <i class=f>run</i>" in page.html
    assert "5 lines" in page.text and f'href="{root}/raw/src/app.py"' in page.html
    assert f'href="{root}/files/src/app.py?ref={main}"' in page.html
    assert f'href="{root}/commits?path=src%2Fapp.py"' in page.html
    old = visit(bob).get(f"{root}/files/src/app.py?ref={main}").gives()
    assert "Permalink" not in old.text and f"<option selected>{main}</option>" in old.html


def test_go_to_line_leads_to_the_line_or_the_last_one(visit, root, main, bob):
    address, person = f"{root}/files/src/app.py", visit(bob)
    person.get(f"{address}?line=2").redirects_to(f"{address}#L2", 302)
    person.get(f"{address}?line=99&ref=main").redirects_to(f"{address}?ref=main#L5", 302)
    person.get(f"{address}?line=x").gives(422)


def test_what_is_no_text_is_named_for_what_it_is(visit, root, main, bob):
    person = visit(bob)
    picture = person.get(f"{root}/files/manual/plan.png").gives()
    assert f'<img src="{root}/raw/manual/plan.png" alt="plan.png">' in picture.html
    assert "A symbolic link to src/app.py" in person.get(f"{root}/files/link").gives().text
    assert "1" * 40 in person.get(f"{root}/files/vendor").gives().text
    assert "This file is empty" in person.get(f"{root}/files/empty").gives().text
    assert "lines" not in person.get(f"{root}/files/manual/plan.png").text


def test_of_a_large_file_the_first_lines_are_shown_plain(visit, root, team_repo, code, alice):
    long = b"".join(b"x = %d\n" % n for n in range(3000))
    broad = b"y" * 1_200_000
    files = {b"long.py": long, b"broad.py": broad, b"bin": b"\0" * 1_200_000}
    push(team_repo, "refs/heads/main", code.commit_with(files), by=alice)
    page = visit(alice).get(f"{root}/files/long.py").gives()
    assert "The first 2000 lines of 3000" in page.text and 'class="m"' not in page.html
    assert len(lines(page.html)) == 2000
    assert len(lines(visit(alice).get(f"{root}/files/broad.py").gives().html)) == 1
    assert "Download" in visit(alice).get(f"{root}/files/bin").gives().text


def test_raw_is_the_bytes_and_runs_nowhere(visit, root, main, bob):
    person = visit(bob)
    text = person.get(f"{root}/raw/src/app.py").gives()
    assert text.html.startswith("import os")
    assert text.header("Content-Type") == "text/plain; charset=utf-8"
    assert "sandbox" in text.header("Content-Security-Policy")
    assert text.header("X-Content-Type-Options") == "nosniff"
    etag = {"If-None-Match": text.header("ETag")}
    assert person.client.get(f"{root}/raw/src/app.py", headers=etag).status_code == 304
    picture = person.client.get(f"{root}/raw/manual/plan.png", headers={"Accept-Encoding": "gzip"})
    assert (picture.content, picture["Content-Type"]) == (PNG, "image/png")
    assert "Content-Encoding" not in picture
    long = person.client.get(f"{root}/raw/README.md", headers={"Accept-Encoding": "gzip"})
    assert long.content == README and "Content-Encoding" not in long
    person.get(f"{root}/raw/manual").gives(422)


def test_paths_that_are_no_utf8_lead_to_their_file(visit, root, main, bob):
    page = visit(bob).get(root).gives()
    file = visit(bob).get(page.find(r'href="(/[^"]*path_base64=[^"]*)"')).gives()
    assert lines(file.html) == ["latin"]
    history = file.find(r'href="([^"]*/commits\?[^"]*)">History')
    assert "Begin" in visit(bob).get(history).gives().text


MISSING = ["files/nothing", "files/src?ref=nothing", f"files?ref={'1' * 40}", f"commits/{'1' * 40}"]
MISSING += ["commits?ref=nothing", "files/src/app.py/below", "raw/nothing"]


INVALID = ["files?ref=-x", "files/a//b", "commits/main", "commits?ref=a..b", "files?page=x"]


@pytest.mark.parametrize("end", MISSING + INVALID)
def test_what_is_not_there_is_404_and_what_can_be_no_name_422(visit, root, main, bob, end):
    page = visit(bob).get(f"{root}/{end}").gives(404 if end in MISSING else 422)
    assert page.h1 == ("Page not found" if end in MISSING else "Check what you entered")


def test_commits_stand_under_their_days_newest_first(visit, root, main, bob, make, alice):
    page = visit(bob).get(f"{root}/commits").gives()
    days = ["16 November 2023", "14 November 2023"]
    assert re.findall(r"<h2[^>]*>([^<]*)</h2>", page.html) == days
    assert re.findall(r"<time[^>]*>([^<]*)</time>", page.html) == ["02:00", "22:13"]
    assert page.text.index("Run twice") < page.text.index("Begin")
    only = visit(bob).get(f"{root}/commits?path=manual").gives()
    assert "Begin" in only.text and "Run twice" not in only.text
    assert "No commit" in visit(bob).get(f"{root}/commits?path=nowhere").gives().text


def test_a_commit_shows_its_message_its_parents_and_what_it_changes(visit, root, main, bob):
    page = visit(bob).get(f"{root}/commits/{main}").gives()
    assert page.h1 == "Run twice" and "Changes in 1 file +1" in page.text
    parent = page.find(rf'href="{root}/commits/([0-9a-f]{{40}})">[0-9a-f]{{12}}</a>')
    first = visit(bob).get(f"{root}/commits/{parent}").gives()
    assert "With <b>care</b>." in first.text and "Parent" not in first.text
    assert "Changes in 8 files" in first.text


def test_branches_are_listed_with_how_far_they_are_from_the_default_branch(
    visit, make, root, main, team_repo, code, alice
):
    ahead = code.commit_with(FILES, main, message="Go on")
    push(team_repo, "refs/heads/topic/one", ahead, by=alice)
    make.protection(team_repo, by=alice)
    make.pull(team_repo, by=alice, source="topic/one")
    page = visit(alice).get(f"{root}/branches").gives()
    assert "1 ahead, 0 behind" in page.text and "default" in page.text
    assert "protected" in page.text and f'href="{root}/pulls/1"' in page.html
    assert f'href="{root}/compare?head=topic%2Fone"' in page.html
    assert "topic/one" not in visit(alice).get(f"{root}/branches?search=MAI").gives().text
    assert "No branch has this" in visit(alice).get(f"{root}/branches?search=zzz").gives().text


ENDS = ("", "/commits", "/commits/{main}")


@pytest.fixture
def ada():
    """The account with the address that the commits have."""
    return UserFactory.create(username="ada", email="ada@example.org")


def test_a_commit_has_the_face_of_its_author_for_who_may_know_them(
    visit, root, main, team_repo, bob, ada
):
    CommitPush.objects.all().delete()
    team_repo.refs.update(pushed_by=ada)
    Event.objects.filter(repo_id=team_repo.pk, actor__isnull=False).update(actor=ada)
    read_all_pushes()
    Repo.objects.filter(pk=team_repo.pk).update(visibility=Visibility.PUBLIC)
    for end, count in zip(ENDS, (1, 2, 1), strict=True):
        address = root + end.format(main=main)
        known = visit(bob).get(address).gives().html.partition("<main")[2]
        assert known.count('class="face') == known.count('href="/users/ada"') == count
        assert face(ada.uuid) in known and "pushed by" not in known
        unknown = visit().get(address).gives()
        assert "Ada" in unknown.text and unknown.text.count("pushed by ada") == count


def test_a_commit_names_its_pusher_beside_an_author_who_is_another_account(
    visit, root, main, team_repo, alice, bob, ada
):
    """Anybody may write the address of another person into a commit."""
    read_all_pushes()
    Repo.objects.filter(pk=team_repo.pk).update(visibility=Visibility.PUBLIC)
    for end, count in zip(ENDS, (1, 2, 1), strict=True):
        address = root + end.format(main=main)
        known = visit(bob).get(address).gives()
        shown = known.html.partition("<main")[2]
        assert shown.count('href="/users/ada"') == shown.count('href="/users/alice"') == count
        assert face(ada.uuid) not in shown and shown.count(face(alice.uuid)) == count
        assert known.text.count("pushed by alice") == count
        unknown = visit().get(address).gives()
        assert "/users/ada" not in unknown.html and "Ada" in unknown.text
        assert unknown.text.count("pushed by alice") == count
    assert re.search(r"ada\s*, pushed by alice", visit(bob).get(f"{root}/commits").text)
    assert re.search(r"Ada\s*, pushed by alice", visit().get(root).text)


def test_a_commit_of_an_unknown_pusher_shows_only_the_name_that_it_has(visit, root, main, bob, ada):
    read_all_pushes()
    CommitPush.objects.all().delete()
    for end in ENDS:
        page = visit(bob).get(root + end.format(main=main)).gives()
        assert "Ada" in page.text and "pushed by" not in page.text
        assert face(ada.uuid) not in page.html and "/users/ada" not in page.html


def test_an_author_without_an_account_stands_beside_the_pusher(
    visit, root, main, alice, bob, team_repo, code
):
    read_all_pushes()
    assert "Ada, pushed by alice" in visit(bob).get(f"{root}/commits").text
    User.objects.filter(pk=alice.pk).update(username="Ada", username_key="ada")
    assert "pushed by" not in visit(bob).get(f"{root}/commits").text  # the name says it already
    tail = code.commit_with(FILES | {b"tail": b"1\n"}, main, message="Tail")
    push(team_repo, "refs/heads/tail", tail, by=bob)
    for address in (f"{root}/compare?head=tail", f"{root}/pulls/new?base=main&head=tail"):
        assert "Ada, pushed by bob" in visit(bob).get(address).gives().text


def test_tags_are_listed_with_what_they_say_and_lead_to_their_commit(
    visit, root, main, team_repo, code, alice, bob
):
    person = visit(alice)
    assert "No tags yet" in person.get(f"{root}/tags").gives().text
    push(team_repo, "refs/tags/v1/plain", main, by=bob)
    push(team_repo, "refs/tags/v2", code.tag_of(main), by=alice)
    push(team_repo, "refs/tags/notes", code.store("blob", [b"x"], 1), by=alice)
    page = person.get(f"{root}/tags").gives()
    expected = [("notes", ""), ("", "v2"), ("", "v1%2Fplain")]
    assert re.findall(r'class="mono">([\w/]+)</b>|ref=([\w%]+)"', page.html) == expected
    assert "Does not point to a commit" in page.text and "tagged by Ada" in page.text
    assert "Run twice · pushed by bob" in page.text and "1 Jan 1970" in page.text
    assert f'href="{root}/commits/{main}"' in page.html and "16 Nov 2023" in page.text
    person.get(f"{root}/files?ref=v1%2Fplain").gives()
    assert "v2" not in person.get(f"{root}/tags?search=PLAIN").gives().text
    assert "No tag has this" in person.get(f"{root}/tags?search=zzz").gives().text
    assert f'href="{root}/tags"' in person.get(f"{root}/branches").html


def test_a_tag_with_the_name_of_a_branch_leads_to_itself(visit, root, main, team_repo, code, alice):
    push(team_repo, "refs/heads/v1", code.commit_with({b"later": b"1"}, main), by=alice)
    for name in ("v1", "refs/heads/v1"):
        push(team_repo, f"refs/tags/{name}", code.commit_with({b"now": b"1"}, main), by=alice)
    person = visit(alice)
    page = person.get(f"{root}/tags").gives()
    links = re.findall(r'href="(/[^"]*/files\?ref=[^"]*|/[^"]*/compare\?head=[^"]*)"', page.html)
    assert len(links) == 4
    for link in links:
        assert "later" not in person.get(link).gives().text, link


def test_a_large_file_without_a_place_says_what_is_too_much(
    visit, root, team_repo, code, alice, settings
):
    settings.GIT_SLOTS_PER_PERSON = 0
    sha = code.commit_with({b"large": bytes(2**20 + 1)})
    push(team_repo, "refs/heads/main", sha, by=alice)
    refused = visit(alice).get(f"{root}/raw/large").gives(429)
    assert "git requests of yours" in refused.text and "sent" not in refused.text
    assert f"in {lasting(refused.header('Retry-After'))}" in refused.text


def test_two_branches_are_compared_and_lead_to_a_pull(visit, root, main, team_repo, code, alice):
    ahead = code.commit_with(FILES | {b"new": b"1\n"}, main, message="Go on")
    push(team_repo, "refs/heads/topic", ahead, by=alice)
    page = visit(alice).get(f"{root}/compare?base=main&head=topic").gives()
    assert "1 commit not in main" in page.text and "Go on" in page.text
    assert f'href="{root}/pulls/new?base=main&amp;head=topic"' in page.html
    other = code.commit_with(FILES | {b"apart.txt": b"1\n"}, main, message="Apart")
    push(team_repo, "refs/heads/main", other, by=alice)
    apart = visit(alice).get(f"{root}/compare?base=main&head=topic").gives()
    assert "apart.txt" not in apart.text and "which has 1 of its own" in apart.text
    assert "    return 1" in lines(apart.html)
    form = visit(alice).get(f"{root}/pulls/new?base=main&head=topic").gives()
    assert form.value("title") == "Go on" and "Changes in 2 files" in form.text
    assert f'href="{root}/compare?base=main&amp;head=topic&amp;view=split"' in form.html
    same = visit(alice).get(f"{root}/compare?head=main").gives()
    assert "The base already contains all" in same.text
    for wrong, status in (("nothing", 404), ("-x", 422), ("ada:main", 422)):
        refused = visit(alice).get(f"{root}/compare?head={wrong}").gives(status)
        assert refused.alert() and refused.value("head") == wrong


def test_a_private_fork_is_compared_by_who_may_read_it(visit, root, main, team_repo, alice, bob):
    made = ForkFactory.create(upstream=team_repo, owner=bob)
    fork = Repo.objects.get(fork=made)
    fork.visibility = Visibility.PRIVATE
    fork.save()
    fork.git.create()
    fork.git.fetch_objects(team_repo.git, main)
    head = code_of(fork).commit_with(FILES | {b"x": b"1\n"}, main, message="Afar")
    push(fork, "refs/heads/topic", head, by=bob)
    for _ in range(2):
        page = visit(bob).get(f"{root}/compare?head=users/bob:topic").gives()
        assert "Afar" in page.text and f"/{fork.path}/commits/{head}" in page.html
        assert f'href="/{fork.path}/files/x?ref={head}"' in page.html
        for name in ("users/bob:topic", f"users/bob:{head}"):
            assert "Afar" not in visit(alice).get(f"{root}/compare?head={name}").gives(422).text
        visit(alice).get(f"{root}/compare?head={head}").gives(404)


def test_a_merge_and_an_odd_date_are_shown(visit, root, main, team_repo, code, alice):
    side = code.commit_with(FILES | {b"a": b"1\n"}, main, message="", at=9_999_999_999_999)
    merged = code.commit_with(FILES | {b"a": b"1\n"}, main, side, message="Merge", at=-1)
    push(team_repo, "refs/heads/main", merged, by=alice)
    for end in ("", "/commits", f"/commits/{merged}", f"/commits/{side}", "/branches"):
        assert visit(alice).get(f"{root}{end}").gives().html.count("<h1") == 1
    assert "since its first parent" in visit(alice).get(f"{root}/commits/{merged}").text


def test_hostile_names_of_files_and_branches_are_text(visit, root, team_repo, code, alice):
    """File names and contents can be anything that people push."""
    hostile = b'<script>x</script>"><img src=x onerror=x>\xe2\x80\xae.py'
    branch = "<b>\"&#'`"
    old = code.commit_with({hostile: (FILE, b"<i>\n")}, message="<script>x</script>")
    new = code.commit_with({hostile: b"<b>\r\x1b\n"}, old, message='"><img src=x onerror=x>')
    push(team_repo, "refs/heads/main", new, by=alice)
    push(team_repo, f"refs/heads/{branch}", new, by=alice)
    path = quote(hostile)
    push(team_repo, f"refs/tags/{branch}", new, by=alice)
    for end in ("", f"/files/{path}", "/commits", f"/commits/{new}", "/branches", "/tags"):
        html = visit(alice).get(f"{root}{end}").gives().html
        assert "<script>" not in html and "<img" not in html and "<i>\n" not in html
    page = visit(alice).get(f"{root}/files/{path}?ref={quote(branch)}").gives()
    assert lines(page.html) == ["&lt;b&gt;&#13;\u241b"]


@pytest.fixture
def repo():
    return Repo(owner_user=User(username="ada"), slug="api")


@pytest.mark.parametrize(
    ("address", "leads"),
    [
        ("a.md", "/users/ada/api/files/sub/a.md?ref=v1"),
        ("./a b.md#part", "/users/ada/api/files/sub/a%20b.md?ref=v1#part"),
        ("a%20b", "/users/ada/api/files/sub/a%20b?ref=v1"),
        ("../a", "/users/ada/api/files/a?ref=v1"),
        ("../../../a", "/users/ada/api/files/a?ref=v1"),
        ("/a/./b", "/users/ada/api/files/a/b?ref=v1"),
        ("..", "/users/ada/api/files?ref=v1"),
        ("?x=1", "/users/ada/api/files/sub?ref=v1"),
        ("#part", "#part"),
        ("", ""),
        ("https://example.org/a", "https://example.org/a"),
        ("//example.org/a", "//example.org/a"),
        ("mailto:ada@example.org", "mailto:ada@example.org"),
        ("a%ff", "/users/ada/api/files/sub/a%EF%BF%BD?ref=v1"),
    ],
)
def test_a_relative_link_leads_to_a_file_of_the_same_ref(repo, address, leads):
    assert link_target(address, repo, b"sub", "v1", "files") == leads


def test_a_readme_is_shown_with_its_pictures_and_below_the_headings_of_the_page(repo):
    text = "# One\n\n###### Six\n\n[a](b&c.md) ![d](e.png) ![f](https://example.org/g.png) &lt;h1>"
    html = resolved(render(text, relative=True), repo, b"", "")
    assert "<h3>One</h3>" in html and "<h6>Six</h6>" in html and "&lt;h1&gt;" in html
    assert 'href="/users/ada/api/files/b%26c.md"' in html
    assert '<img src="/users/ada/api/raw/e.png" alt="d">' in html
    assert html.count("<img") == 1


def test_whatever_is_in_a_path_stays_in_its_place(repo):
    assert path_address(repo, "raw", b"a?b#c/\xff", "x&y") == (
        "/users/ada/api/raw/a%3Fb%23c/%EF%BF%BD?ref=x%26y&path_base64=YT9iI2Mv_w"
    )
    assert history_address(repo, b"") == "/users/ada/api/commits"
    assert history_address(repo, b"a/b", "x") == "/users/ada/api/commits?ref=x&path=a%2Fb"
