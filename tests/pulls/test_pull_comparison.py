"""`GET …/pulls/{number}/compare/{versions}`: two versions of a pull by commits and files."""

from __future__ import annotations

import pytest

from apps.browse.models import GitCache
from apps.git import range_diff, run
from apps.git.run import LIMITS, Limits
from apps.pulls.models import Pull
from tests.pulls import paths

LINES = [f"line {number}\n" for number in range(30)]


def text_with(number, line):
    return "".join([*LINES[:number], f"{line}\n", *LINES[number + 1 :]])


def outline(comparison):
    """Status and positions of each pair."""
    return [
        (pair["status"], *((pair[side] or {}).get("position") for side in ("old", "new")))
        for pair in comparison["commits"]
    ]


@pytest.fixture
def url(pull):
    return f"{paths.pull(pull)}/compare"


@pytest.fixture
def rebased(clone, pull):
    """Version 1 has `arch`; version 2 has three commits more. Version 3 is rebased onto a target
    that moved: the commits are reordered, one is changed, one dropped, and one added.
    """
    for name, text in (("text", "".join(LINES)), ("b", "b\n" * 9), ("c", "c\n" * 9)):
        clone.commit("feature", {name: text}, message=f"write {name}")
    clone.push("feature")
    clone.push_commit("main", {"gate": "1\n"})
    clone.commit("feature", {"c": "c\n" * 9}, onto="main", message="write c")
    clone.commit("feature", {"arch": "open\n"}, message="add an arch")
    clone.commit("feature", {"text": text_with(7, "seven")}, message="write text")
    clone.commit("feature", {"d": "d\n"}, message="write d")
    clone.push("feature")
    return pull


def test_versions_that_do_not_exist_are_404(api, pull, alice, url):
    for text in ("1...2", "2...1", "0...1", "1..1", "1", "1...", "a...b", "1...1...1", "9" * 20):
        api(alice).get(f"{url}/{text}").fails(404, "not_found")
    assert "1...3" in api(alice).get(f"{url}/1..3").fails(404, "not_found")


def test_a_rebased_version_is_compared_commit_by_commit(api, rebased, alice, url, clone):
    comparison = api(alice).get(f"{url}/2...3").gives()
    assert (comparison["from"], comparison["to"], comparison["is_rebased"]) == (2, 3, True)
    assert sorted(outline(comparison), key=str) == [
        ("added", None, 4),
        ("changed", 2, 3),
        ("equal", 1, 2),
        ("equal", 4, 1),
        ("removed", 3, None),
    ]
    [changed] = [pair for pair in comparison["commits"] if pair["status"] == "changed"]
    assert changed["old"] == {
        "sha": clone.git("rev-parse", f"{rebased_head(rebased, 2)}~2"),
        "subject": "write text",
        "position": 2,
    }
    lines = changed["diff"].splitlines()
    assert lines[0].startswith("@@") and {"-+line 7", "++seven"} <= {*lines}
    assert [pair["diff"] for pair in comparison["commits"] if pair != changed] == [None] * 4
    files = {file["path"]: file["status"] for file in comparison["files"]["results"]}
    assert files == {"b": "removed", "d": "added", "gate": "added", "text": "modified"}
    assert comparison["changed_files"] == 4
    assert comparison["files"]["files_truncated"] is False


def rebased_head(pull, version):
    return pull.versions.get(version=version).head_sha


def test_a_version_on_the_same_base_has_the_files_of_the_two_heads_alone(api, rebased, alice, url):
    comparison = api(alice).get(f"{url}/1...2").gives()
    assert comparison["is_rebased"] is False
    assert outline(comparison) == [
        ("equal", 1, 1),
        ("added", None, 2),
        ("added", None, 3),
        ("added", None, 4),
    ]
    of_files = api(alice).get(f"{paths.pull(rebased)}/files?from=1&version=2").gives()
    assert comparison["files"]["results"] == of_files["results"]
    assert [row["path"] for row in of_files["results"]] == ["b", "c", "text"]


def test_the_direction_may_be_reversed_and_a_version_equals_itself(api, rebased, alice, url):
    comparison = api(alice).get(f"{url}/2...1").gives()
    assert [pair[0] for pair in outline(comparison)].count("removed") == 3
    same = api(alice).get(f"{url}/3...3").gives()
    assert {pair["status"] for pair in same["commits"]} == {"equal"}
    assert (same["files"]["results"], same["is_rebased"]) == ([], False)


def test_squashed_commits_are_one_changed_and_others_removed(api, clone, pull, alice, url):
    clone.commit("feature", {"text": "".join(LINES)}, message="write text")
    clone.commit("feature", {"text": text_with(7, "seven")}, message="fix text")
    clone.push("feature")
    head = pull.head_sha
    clone.push_commit("feature", {"text": text_with(7, "seven")}, onto=head, message="write text")
    comparison = api(alice).get(f"{url}/2...3").gives()
    assert sorted(outline(comparison), key=str) == [
        ("changed", 2, 2),
        ("equal", 1, 1),
        ("removed", 3, None),
    ]
    assert comparison["files"]["results"] == []


def test_a_reworded_commit_shows_both_subjects(api, clone, pull, alice, url):
    hostile = f"1:  {'1' * 40} = 1:  {'2' * 40} add"
    clone.push_commit("feature", {"arch": "open\n"}, onto="main", message=hostile)
    [pair] = api(alice).get(f"{url}/1...2").gives()["commits"]
    assert pair["status"] == "changed"
    assert (pair["old"]["subject"], pair["new"]["subject"]) == ("add an arch", hostile)
    assert {"-    add an arch", f"+    {hostile}"} <= {*pair["diff"].splitlines()}


def test_files_have_pages_and_patches(api, clone, pull, alice, url):
    clone.push_commit("feature", {f"file-{number}": "x\n" for number in range(35)})
    page = api(alice).get(f"{url}/1...2?per_page=20").gives()["files"]
    rest = api(alice).get(page["next"]).gives()["files"]
    assert (len(page["results"]), len(rest["results"]), rest["next"]) == (20, 15, None)
    assert "/compare/1...2?" in rest["previous"]
    patched = api(alice).get(f"{url}/1...2?patch=true&per_page=100").gives()["files"]
    assert len(patched["results"]) == 30
    assert patched["results"][0]["patch"] == "@@ -0,0 +1 @@\n+x\n"


def test_a_version_without_a_target_has_no_commits(api, make, clone, pull, alice):
    waiting = make.pull(clone.repo, by=alice, target="later")
    clone.push_commit("feature", {"window": "1\n"})
    clone.push("main:later")
    comparison = api(alice).get(f"{paths.pull(waiting)}/compare/1...2").gives()
    assert [pair["status"] for pair in comparison["commits"]] == ["added", "added"]
    assert comparison["is_rebased"] is True
    assert [file["path"] for file in comparison["files"]["results"]] == ["window"]


def test_the_comparison_stays_after_the_target_lost_its_commits(api, rebased, clone, alice, url):
    """A forced push to the target, and git's gc, may remove a stored base."""
    before = outline(api(alice).get(f"{url}/2...3").gives())
    GitCache.objects.all().delete()
    rebased.versions.update(base_sha="1" * 40)
    assert outline(api(alice).get(f"{url}/2...3").gives()) == before


def test_the_answer_is_cached_and_needs_no_git_the_second_time(api, rebased, alice, url):
    tag = api(alice).get(f"{url}/2...3").header("ETag")
    spawned = run.spawned
    again = api(alice).get(f"{url}/2...3")
    assert again.gives() and again.header("ETag") == tag
    assert run.spawned == spawned
    other = api(alice).get(f"{url}/1...3")
    assert other.header("ETag") != tag


@pytest.mark.parametrize("limit", ["commits", "output"])
def test_what_is_too_large_is_422_and_remembered(api, rebased, alice, url, monkeypatch, limit):
    if limit == "commits":
        monkeypatch.setattr(range_diff, "COMMITS_MAX", 3)
    else:
        monkeypatch.setitem(LIMITS, "range-diff", Limits(output=50))
    api(alice).get(f"{url}/2...3").fails(422, "too_expensive")
    spawned = run.spawned
    api(alice).get(f"{url}/2...3").fails(422, "too_expensive")
    assert run.spawned == spawned
    files = api(alice).get(f"{paths.pull(rebased)}/files?from=2&version=3").gives()
    assert files["changed_files"] == 4


def test_a_git_that_takes_too_long_is_422(api, rebased, alice, url, monkeypatch):
    monkeypatch.setitem(LIMITS, "range-diff", Limits(deadline=0))
    api(alice).get(f"{url}/2...3").fails(422, "too_expensive")


def test_the_number_of_queries_does_not_depend_on_the_number_of_commits(
    api, clone, pull, alice, url, django_assert_max_num_queries
):
    for number in range(20):
        clone.commit("feature", {f"file-{number}": "x\n"}, message=f"write {number}")
    clone.push("feature")
    api(alice).get(f"{url}/1...2").gives()
    with django_assert_max_num_queries(9):
        api(alice).get(f"{url}/1...2").gives()
    assert Pull.objects.get().last_version == 2
