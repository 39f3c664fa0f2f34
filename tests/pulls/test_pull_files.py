"""`GET …/pulls/{number}/files` and `/commits`: the contents of the versions of a pull."""

from __future__ import annotations

import base64

import pytest

from apps.browse.pushers import read_all_pushes
from apps.core.slugs import PREFIX
from apps.git import run
from apps.git.run import LIMITS, Limits
from apps.pulls import versions
from apps.pulls.models import PullVersion, VersionContents
from tests.git.stand_ins import failing_git
from tests.pulls import paths

LISTS = ("files", "commits", "versions")


def raw(api, url, **headers):
    """The response, whose body may not be JSON."""
    answer = api.client.get(PREFIX + url, headers={**api.headers, **headers})
    answer.getvalue()  # reads the body to its end, so that the response is closed
    return answer


def pages(api, url):
    """The results of all pages from this address on."""
    bodies = []
    while url:
        bodies.append(api.get(url).gives())
        url = bodies[-1]["next"]
    return bodies


def names(page):
    return [row["path"] for row in page["results"]]


@pytest.fixture
def url(pull):
    return paths.pull(pull)


def test_the_files_are_those_between_merge_base_and_head(api, pull, clone, alice, url):
    clone.push_commit("main", {"gate": "1\n"})
    base = clone.git("rev-parse", "main~1:README")
    head = clone.push_commit("feature", {"README": "Another place.\n", "café": "au lait\n"})
    page = api(alice).get(f"{url}/files").gives()
    assert (page["version"], page["changed_files"], page["files_truncated"]) == (2, 3, False)
    assert page["is_rebased"] is None
    assert names(page) == ["README", "arch", "café"]
    assert page["results"][0] == {
        "path": "README",
        "previous_path": None,
        "status": "modified",
        "additions": 1,
        "deletions": 1,
        "is_binary": False,
        "sha": clone.git("rev-parse", f"{head}:README"),
        "previous_sha": base,
        "mode": "100644",
        "previous_mode": "100644",
        "is_too_large": False,
    }


def test_paths_that_are_not_utf_8_are_whole_in_base64(api, make, clone, alice):
    blob = bytes.fromhex(clone.store("blob", "x\n"))
    tree = clone.store("tree", b"100644 caf\xe9\0" + blob)
    commit = clone.git("commit-tree", tree, "-p", clone.sha("main"), "-m", "a menu")
    clone.git("branch", "--force", "menu", commit)
    clone.push("menu")
    url = paths.pull(make.pull(clone.repo, by=alice, source="menu"))
    for query in ("", "?patch=true"):
        [_, menu] = api(alice).get(f"{url}/files{query}").gives()["results"]
        assert menu["path"] == "caf\ufffd"
        assert base64.urlsafe_b64decode(menu["path_base64"] + "==") == b"caf\xe9"


def test_all_pages_have_every_file_once(api, pull, clone, alice, url):
    clone.push_commit("feature", {f"file-{number}": "x\n" for number in range(249)})
    listed = pages(api(alice), f"{url}/files?per_page=100")
    assert [len(page["results"]) for page in listed] == [100, 100, 50]
    every = [name for page in listed for name in names(page)]
    assert len({*every}) == len(every) == listed[0]["changed_files"] == 250
    assert api(alice).get(url).gives()["changed_files"] == 250
    assert (
        listed[1]["previous"]
        == f"http://testserver/api/v1{url}/files?per_page=100&version=2&page=1"
    )


def test_pages_do_not_shift_under_a_push(api, pull, clone, alice, url):
    second = clone.push_commit("feature", {"window": "1\n"})
    first = [api(alice).get(f"{url}/{name}?per_page=1").gives() for name in LISTS[:2]]
    clone.push_commit("feature", {"README": "Another.\n"}, onto="main")
    rest = [api(alice).get(row["next"]).gives() for row in first]
    assert names(rest[0]) == ["window"]
    assert [row["sha"] for row in rest[1]["results"]] == [second]


def test_of_more_than_three_thousand_files_the_first_are_listed(api, pull, clone, alice, url):
    clone.push_commit("feature", {f"file-{number:04}": "x\n" for number in range(3_004)})
    listed = pages(api(alice), f"{url}/files?per_page=100")
    assert {(page["changed_files"], page["files_truncated"]) for page in listed} == {(3_005, True)}
    every = [name for page in listed for name in names(page)]
    assert len({*every}) == len(every) == 3_000
    for name in ("diff", "patch"):
        api(alice).get(f"{url}/{name}").fails(422, "diff_too_large")


def test_patches_are_shown_thirty_at_a_time(api, pull, clone, alice, url):
    clone.push_commit("feature", {"binary": "\0", **{f"file-{n}": f"{n}\n" for n in range(40)}})
    listed = pages(api(alice), f"{url}/files?patch=true&per_page=100")
    assert [len(page["results"]) for page in listed] == [30, 12]
    by_name = {row["path"]: row for page in listed for row in page["results"]}
    assert by_name["file-7"]["patch"] == "@@ -0,0 +1 @@\n+7\n"
    assert (by_name["binary"]["patch"], by_name["binary"]["is_binary"]) == (None, True)
    assert len(by_name) == 42
    before = run.spawned
    assert pages(api(alice), f"{url}/files?patch=true&per_page=100") == listed
    assert run.spawned == before, "they are kept"


def test_commits_are_listed_oldest_first(api, pull, clone, alice, url):
    second = clone.push_commit("feature", {"window": "1\n"}, message="add a window\n\nA small one.")
    page = api(alice).get(f"{url}/commits").gives()
    assert (page["version"], page["commit_count"], page["commits_truncated"]) == (2, 2, False)
    assert [row["sha"] for row in page["results"]] == [pull.head_sha, second]
    assert page["results"][1]["subject"] == "add a window"
    assert page["results"][1]["message"] == "add a window\n\nA small one.\n"
    assert page["results"][1]["parents"] == [pull.head_sha]
    [first] = api(alice).get(f"{url}/commits?version=1").gives()["results"]
    assert first == page["results"][0]


def test_of_many_commits_the_newest_are_listed(api, pull, clone, alice, url, monkeypatch):
    monkeypatch.setattr(versions, "COMMITS_MOST", 3)
    made = [clone.commit("feature", {"window": f"{n}\n"}) for n in range(4)]
    clone.push("feature")
    listed = pages(api(alice), f"{url}/commits?per_page=2")
    assert [row["sha"] for page in listed for row in page["results"]] == made[1:]
    assert {(row["commit_count"], row["commits_truncated"]) for row in listed} == {(5, True)}
    api(alice).get(f"{url}/patch").fails(422, "diff_too_large")


def test_a_version_stays_what_it_was(api, pull, clone, alice, url):
    def of_first():
        return [api(alice).get(f"{url}/{name}?version=1").gives()["results"] for name in LISTS[:2]]

    read_all_pushes()
    before = of_first()
    clone.push_commit("feature", {"window": "1\n"}, onto="main")
    assert of_first() == before
    [window] = api(alice).get(f"{url}/files").gives()["results"]
    assert window["path"] == "window"
    api(alice).post(f"{url}/merge", merge_strategy="squash").gives()
    clone.push(":feature")
    assert of_first() == before
    assert api(alice).get(f"{url}/files").gives()["results"] == [window]


def test_between_two_versions_are_the_files_that_differ_between_their_heads(
    api, pull, clone, alice, url
):
    clone.push_commit("feature", {"window": "1\n"})
    clone.push_commit("main", {"gate": "wide\n"})
    clone.push_commit("feature", {"arch": "shut\n"}, onto="main")
    page = api(alice).get(f"{url}/files?from=1&version=2").gives()
    assert (names(page), page["is_rebased"], page["version"]) == (["window"], False, 2)
    page = api(alice).get(f"{url}/files?from=2&patch=true").gives()
    assert (names(page), page["is_rebased"]) == (["arch", "gate", "window"], True)
    assert page["results"][0]["patch"] == "@@ -1 +1 @@\n-open\n+shut\n"
    back = api(alice).get(f"{url}/files?from=3&version=1").gives()
    assert (names(back), back["changed_files"]) == (["arch", "gate"], 2)
    api(alice).get(f"{url}/files?from=9").fails(404, "not_found")


def test_a_pull_without_a_head_contains_nothing(api, bare_pull, carol):
    url = paths.pull(bare_pull)
    for name in LISTS:
        assert api(carol).get(f"{url}/{name}").gives()["results"] == []
    for name in LISTS[:2]:
        api(carol).get(f"{url}/{name}?version=1").fails(404, "not_found")


@pytest.mark.parametrize("query", ["version=0", "version=x", "version=", "from=-1", "patch=1"])
def test_what_is_no_number_of_a_version_is_refused(api, pull, alice, url, query):
    api(alice).get(f"{url}/files?{query}").fails(422, "validation_failed")


# Without git


def test_all_of_it_is_read_without_git(api, pull, clone, alice, url, tmp_path, monkeypatch):
    clone.push_commit("feature", {"window": "1\n"})
    asked = [*(f"{url}/{name}" for name in LISTS), f"{url}/files?version=1"]
    texts = [f"{url}/diff", f"{url}/patch", f"{url}/patch?version=1"]
    kept = [f"{url}/files?patch=true", f"{url}/files?from=1", *texts, *asked]
    tags = {address: raw(api(alice), address).headers["ETag"] for address in kept}
    with failing_git(tmp_path, monkeypatch):
        for address in asked:
            assert api(alice).get(address).gives()["results"], address
        for address, tag in tags.items():
            answer = raw(api(alice), address, **{"If-None-Match": tag})
            assert (answer.status_code, answer.headers["ETag"]) == (304, tag), address


def test_what_was_pushed_since_is_no_304(api, pull, clone, alice, url):
    tags = {name: api(alice).get(f"{url}/{name}").header("ETag") for name in LISTS}
    clone.push_commit("feature", {"window": "1\n"})
    for name, tag in tags.items():
        assert api(alice).send("GET", f"{url}/{name}", headers={"If-None-Match": tag}).status == 200


def test_who_may_read_no_more_gets_no_304(api, pull, clone, carol, url):
    tags = {}
    for name in (*LISTS, "diff", "patch"):
        tags[name] = raw(api(carol), f"{url}/{name}").headers["ETag"]
    type(clone.repo).objects.update(visibility="private")
    for name, tag in tags.items():
        for headers in ({"If-None-Match": tag}, {"If-None-Match": "*"}, {}):
            answer = api(carol).send("GET", f"{url}/{name}", headers=headers)
            answer.fails(403, "forbidden")


# Contents that git could not tell


def forget(version=1):
    """Delete the contents of a version, as if git could not tell them."""
    VersionContents.objects.all().delete()
    unknown = dict.fromkeys(("commit_count", "additions", "deletions", "changed_files"))
    PullVersion.objects.update(**unknown, merge_base_sha=None)


def test_what_is_not_stored_is_asked_for_once_and_kept(api, pull, alice, url):
    before = [api(alice).get(f"{url}/{name}").gives() for name in LISTS]
    forget()
    asked = run.spawned
    assert [api(alice).get(f"{url}/{name}").gives() for name in LISTS] == before
    spent = run.spawned - asked
    assert [api(alice).get(f"{url}/{name}").gives() for name in LISTS] == before
    assert run.spawned - asked == spent > 0


def test_a_push_whose_contents_take_git_too_long_has_a_version_that_says_so(
    api, pull, clone, alice, url, monkeypatch
):
    with monkeypatch.context() as impatient:
        impatient.setitem(LIMITS, "log", Limits(output=10))
        clone.push_commit("feature", {"window": "1\n"})
        assert api(alice).get(url).gives()["changed_files"] == 2
        last = api(alice).get(f"{url}/versions").gives()["results"][1]
        assert (last["version"], last["changed_files"], last["commit_count"]) == (2, None, None)
        for name in LISTS[:2]:
            api(alice).get(f"{url}/{name}").fails(422, "too_expensive")
    before = run.spawned
    api(alice).get(f"{url}/files").fails(422, "too_expensive")
    assert run.spawned == before, "for ten minutes"
    PullVersion.objects.filter(version=2).update(due_at="2020-01-01T00:00:00Z")
    assert names(api(alice).get(f"{url}/files").gives()) == ["arch", "window"]
    last = api(alice).get(f"{url}/versions").gives()["results"][1]
    assert (last["changed_files"], last["commit_count"]) == (2, 2)


def test_of_two_who_ask_for_it_at_once_both_get_it(api, pull, alice, url, monkeypatch):
    """Another request has stored the contents before git's answer arrives."""
    forget()
    tell = versions.contents_between

    def told_to_another_first(*asked):
        monkeypatch.setattr(versions, "contents_between", tell)
        versions.read_contents(PullVersion.objects.get())
        return tell(*asked)

    monkeypatch.setattr(versions, "contents_between", told_to_another_first)
    assert names(api(alice).get(f"{url}/files").gives()) == ["arch"]
