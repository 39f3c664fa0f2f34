"""Concurrent requests to a real server with the real git.

Races inside one process are in the `test_races.py` of each app.
"""

from __future__ import annotations

from itertools import pairwise

from tests.races import together
from tests.repos.test_git_http import api_path, events_of


def test_of_parallel_pushes_to_one_branch_one_wins_and_the_others_are_told(server, path, git):
    people = [git() for _ in range(3)]
    first = people[0].commit()
    people[0]("push", "--quiet", people[0].url, "main")
    for person in people[1:]:
        person("pull", "--quiet", person.url, "main")
    tips = [person.commit() for person in people]
    ways = [lambda p=person: p.run("push", p.url, "main") for person in people]
    ended = together(*ways)
    assert sorted(done.returncode for done in ended) == [0, 1, 1]
    for done in ended:
        assert done.returncode == 0 or "rejected]" in done.stdout
    won = next(tip for tip, done in zip(tips, ended, strict=True) if done.returncode == 0)
    assert people[0]("ls-remote", people[0].url, "refs/heads/main").split()[0] == won
    found = server.api("alice").get(f"/events?scope=repo:{path}&kind=branch-pushed").gives()
    moves = [(event["data"]["before"], event["data"]["after"]) for event in found["results"]]
    assert moves == [(first, won)]


def test_parallel_pushes_to_different_branches_all_arrive(server, path, git):
    people = [git() for _ in range(3)]
    tips = {f"branch-{number}": person.commit() for number, person in enumerate(people)}
    names = list(tips)
    together(
        *(
            lambda p=person, n=name: p("push", "--quiet", p.url, f"main:{n}")
            for person, name in zip(people, names, strict=True)
        )
    )
    shown = people[0]("ls-remote", "--heads", people[0].url).splitlines()
    assert {line.split("refs/heads/")[1]: line.split()[0] for line in shown} == tips
    assert sorted(events_of(server, path)[1:]) == [("branch-created", name) for name in names]


def test_a_push_arrives_whatever_its_repository_is_called_by_then(server, path, git):
    ours, alice, before = git(), server.api("alice"), path.rpartition("/")[2]
    sha = ours.commit()
    now = f"{before}-now"
    _, renamed = together(
        lambda: ours("push", "--quiet", ours.url, "main"),
        lambda: alice.put(api_path(path), name="Api", slug=now),
    )
    renamed.gives()
    there = f"{path.rpartition('/')[0]}/{now}"
    kinds = [kind for kind, _ in events_of(server, there)]
    assert sorted(kinds) == ["branch-created", "repo-created", "repo-updated"]
    assert ours("ls-remote", ours.url, "refs/heads/main").split()[-2:] == [sha, "refs/heads/main"]


def test_a_merge_stands_and_a_push_to_its_target_lands_on_it_or_before_it_or_is_refused(
    server, path, git
):
    ours, alice, pulls = git(), server.api("alice"), f"{api_path(path)}/pulls"
    ours.commit("base.txt")
    ours("push", "--quiet", ours.url, "main", "main:feature")
    theirs = git()
    theirs("pull", "--quiet", theirs.url, "feature")
    feature = theirs.commit("feature.txt")
    theirs("push", "--quiet", theirs.url, "main:feature")
    wanted = {"source_branch": "feature", "target_branch": "main"}
    made = alice.post(pulls, title="Feature", body="", **wanted).gives(201)
    tip = ours.commit("meanwhile.txt")
    merged, pushed = together(
        lambda: alice.post(f"{pulls}/{made['number']}/merge"),
        lambda: ours.run("push", ours.url, "main"),
    )
    commit = merged.gives()["merge_commit_sha"]
    ours("fetch", "--quiet", ours.url, "main")
    history = ours("rev-list", "FETCH_HEAD").split()
    assert {commit, feature} <= set(history)
    assert (tip in history) == (pushed.returncode == 0)
    assert pushed.returncode == 0 or "rejected]" in pushed.stdout
    found = alice.get(f"/events?scope=repo:{path}&kind=branch-pushed").gives()["results"]
    moves = [(event["data"]["before"], event["data"]["after"]) for event in reversed(found)]
    on_main = [move for move in moves if feature not in move]
    assert on_main[-1][1] == history[0]
    assert all(one[1] == other[0] for one, other in pairwise(on_main))


def test_of_two_forks_by_one_person_one_is_made_and_the_other_is_told(server, path):
    alice, bob = server.api("alice"), server.api("bob")
    slug = path.rpartition("/")[2]
    alice.put(api_path(path), name="Api", slug=slug, visibility="public").gives()
    answers = together(*[lambda: bob.post(f"{api_path(path)}/forks")] * 2)
    made, refused = sorted(answers, key=lambda answer: answer.status)
    refused.fails(409, "fork_exists")
    assert bob.get(f"{api_path(path)}/forks/user/bob").gives()["uuid"] == made.gives(201)["uuid"]
