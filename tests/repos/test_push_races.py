"""Pushes that meet another push, or a rename of their repository: who wins, and who is told."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

from tests.repos.test_githttp import api_path, events_of


def at_once(*calls):
    """What each returns, in order."""
    with ThreadPoolExecutor(len(calls)) as pool:
        return [done.result() for done in [pool.submit(call) for call in calls]]


def test_of_parallel_pushes_to_one_branch_one_wins_and_the_others_are_told(server, path, git):
    people = [git() for _ in range(3)]
    first = people[0].commit()
    people[0]("push", "--quiet", people[0].url, "main")
    for person in people[1:]:
        person("pull", "--quiet", person.url, "main")
    tips = [person.commit() for person in people]
    ways = [lambda p=person: p.run("push", p.url, "main") for person in people]
    ended = at_once(*ways)
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
    at_once(
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
    _, renamed = at_once(
        lambda: ours("push", "--quiet", ours.url, "main"),
        lambda: alice.put(api_path(path), name="Api", slug=now),
    )
    renamed.gives()
    there = f"{path.rpartition('/')[0]}/{now}"
    kinds = [kind for kind, _ in events_of(server, there)]
    assert sorted(kinds) == ["branch-created", "repo-created", "repo-updated"]
    assert ours("ls-remote", ours.url, "refs/heads/main").split()[-2:] == [sha, "refs/heads/main"]
