"""A client that uses only the API and never pushes."""

from __future__ import annotations

from apps.git import run


def test_the_contract_alone_is_enough(api, repo, alice, sam):
    base, git = f"{repo.api_path}/pulls", run.spawned
    wanted = {"title": "T", "body": "B", "source_branch": "topic", "target_branch": "main"}
    pull = api(alice).post(base, **wanted).gives(201)
    twin = api(alice).post(base, **wanted).gives(201)
    listed = api(alice).get(base).gives()["results"]
    assert [row["number"] for row in listed] == [twin["number"], pull["number"]]
    url = f"{base}/{pull['number']}"
    assert api(alice).put(url, title="New").gives()["title"] == "New"
    reviews = f"{url}/reviews"
    review = api(sam).post(reviews, status="approved", body="Fine").gives(201)
    assert (review["is_eligible"], review["is_stale"]) == (True, False)
    one = f"{reviews}/{review['uuid']}"
    assert api(sam).put(one, status="changes_requested").gives()["status"] == "changes_requested"
    assert len(api(alice).get(reviews).gives()["results"]) == 1
    api(sam).delete(one).gives(204)
    for status in ("draft", "open", "closed", "open"):
        assert api(alice).put(f"{url}/status", status=status).gives()["status"] == status
    api(alice).post(f"{url}/merge").fails(409, "branch_missing")
    assert api(alice).get(url).gives()["status"] == "open"
    assert run.spawned == git, "nothing of this asks git"
