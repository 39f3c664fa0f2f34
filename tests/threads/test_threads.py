"""…/threads: listing and opening threads."""

from __future__ import annotations

from tests.threads import paths

BODY = {"title": "Slow pushes", "body": "Since Monday.", "kind": "issue"}


def test_a_reader_opens_a_thread(api, open_repo, carol, events):
    url = paths.threads(open_repo)
    with events("thread-created") as recorded:
        made = api(carol).post(url, **BODY).gives(201)
    assert {name: made[name] for name in BODY} == BODY
    assert (made["number"], made["priority"], made["status"]) == (1, "normal", "open")
    assert made["created_by_username"] == "carol"
    assert made["created_by_uuid"] == str(carol.uuid)
    assert (made["reply_count"], made["participant_count"], made["closed_at"]) == (0, 1, None)
    assert made["created_at"] == made["updated_at"] == made["last_activity_at"]
    assert made["api_url"] == f"http://testserver/api/v1{url}/1"
    assert made["web_url"] == f"http://testserver/{open_repo.path}/threads/1"
    assert recorded[0].target == {"kind": "thread", "number": 1}
    assert (recorded[0].title, recorded[0].number) == ("Slow pushes", 1)


def test_a_repository_that_is_not_there_has_no_threads(api, alice):
    api(alice).get("/users/alice/repos/none/threads").fails(404, "not_found")


def test_priority_and_status_can_be_given(api, repo, alice):
    made = api(alice).post(paths.threads(repo), **BODY, priority="urgent", status="closed")
    body = made.gives(201)
    assert (body["priority"], body["status"]) == ("urgent", "closed")
    assert body["closed_at"] == body["created_at"]


def test_the_body_may_be_empty_but_not_left_out(api, repo, alice):
    url = paths.threads(repo)
    assert "body" in api(alice).post(url, title="x", kind="issue").fails(422, "validation_failed")
    api(alice).post(url, title="x", kind="issue", body="").gives(201)


BAD_VALUES = [
    ("title", ""),
    ("title", " \t\n"),
    ("title", "x" * 256),
    ("title", "a\0b"),
    ("title", 5),
    ("title", None),
    ("body", "x" * 65_537),
    ("body", "a\0b"),
    ("body", None),
    ("kind", "pull"),
    ("kind", "rant"),
    ("kind", ["issue"]),
    ("priority", "highest"),
    ("priority", None),
    ("status", "merged"),
    ("status", True),
]


def test_a_bad_value_is_refused_by_name(api, team_repo, alice):
    url = paths.threads(team_repo)
    for field, value in BAD_VALUES:
        answer = api(alice).post(url, **{**BODY, field: value})
        assert answer.fails(422, "validation_failed").startswith(field), (field, value)
    assert api(alice).get(url).gives()["results"] == []


def test_texts_may_be_as_long_as_the_limit(api, team_repo, alice):
    longest = {"title": "é" * 255, "body": "é" * 65_536, "kind": "issue"}
    made = api(alice).post(paths.threads(team_repo), **longest).gives(201)
    assert (made["title"], made["body"]) == (longest["title"], longest["body"])


def test_an_unknown_property_is_refused(api, team_repo, alice):
    answer = api(alice).post(paths.threads(team_repo), **BODY, labels=[])
    assert "labels" in answer.fails(422, "unknown_field")
    api(alice).send("POST", paths.threads(team_repo)).fails(400, "malformed_request")


def test_threads_are_listed_newest_first_in_pages(api, make, repo, alice):
    for title in ("one", "two", "three"):
        make.thread(repo, by=alice, title=title)
    first = api(alice).get(f"{paths.threads(repo)}?per_page=2").gives()
    assert [row["title"] for row in first["results"]] == ["three", "two"]
    second = api(alice).get(first["next"]).gives()
    assert [row["title"] for row in second["results"]] == ["one"]
    assert (first["previous"], second["next"]) == (None, None)


def test_the_list_shows_what_the_read_shows_but_for_the_replies(api, make, repo, alice):
    thread = make.thread(repo, by=alice, **BODY)
    make.reply(thread, by=alice)
    (row,) = api(alice).get(paths.threads(repo)).gives()["results"]
    whole = api(alice).get(paths.thread(thread)).gives()
    assert {**row, "replies": whole["replies"], "replies_truncated": False} == whole


def test_deleted_threads_and_other_repositories_are_not_listed(api, make, repo, alice):
    deleted, listed = make.thread(repo, by=alice), make.thread(repo, by=alice)
    make.thread(make.repo(alice, "other", by=alice), by=alice)
    api(alice).delete(paths.thread(deleted)).gives(204)
    rows = api(alice).get(paths.threads(repo)).gives()["results"]
    assert [row["number"] for row in rows] == [listed.number]


FILTERS = {
    "status=closed": [2],
    "status=open": [3, 1],
    "kind=question": [3],
    "priority=high": [1],
    "created_by=Bob": [3],
    "created_by=nobody": [],
    "search=pUSH": [3, 1],
    "search=": [3, 2, 1],
    "search=100%25": [2],
    "search=push&created_by=alice": [1],
    "unknown=x": [3, 2, 1],
}
ORDERINGS = {
    "number": [1, 2, 3],
    "-number": [3, 2, 1],
    "last_activity_at": [2, 3, 1],
    "-last_activity_at": [1, 3, 2],
}


def numbers(api, user, repo, query):
    threads = api(user).get(f"{paths.threads(repo)}?{query}").gives()["results"]
    return [thread["number"] for thread in threads]


def test_the_list_can_be_filtered(api, make, team_repo, alice, bob):
    make.thread(team_repo, by=alice, title="Push", priority="high")
    make.thread(team_repo, by=alice, title="Clone", body="100% CPU", status="closed")
    make.thread(team_repo, by=bob, title="Why?", body="pushing", kind="question")
    assert {query: numbers(api, alice, team_repo, query) for query in FILTERS} == FILTERS


def test_a_filter_that_means_nothing_is_refused(api, team_repo, alice):
    for name, value in (
        ("status", "merged"),
        ("kind", "pull"),
        ("priority", ""),
        ("ordering", "title"),
        ("search", "%00"),
        ("created_by", "%00"),
    ):
        answer = api(alice).get(f"{paths.threads(team_repo)}?{name}={value}")
        assert answer.fails(422, "validation_failed").startswith(f"{name}: ")


def test_the_list_can_be_ordered(api, make, team_repo, alice):
    first, _, _ = (make.thread(team_repo, by=alice) for _ in range(3))
    make.reply(first, by=alice)
    for ordering, expected in ORDERINGS.items():
        assert numbers(api, alice, team_repo, f"ordering={ordering}") == expected
