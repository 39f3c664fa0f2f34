"""`…/pulls/{number}`: read and update."""

from __future__ import annotations

from tests.pulls import paths


def test_a_pull_is_read(api, bare_pull, carol):
    url = paths.pull(bare_pull)
    read = api(carol).get(url).gives()
    assert (read["number"], read["uuid"]) == (1, str(bare_pull.uuid))
    for number in (0, 2, 999_999_999):
        api(carol).get(f"{paths.pulls(bare_pull.repo)}/{number}").fails(404, "not_found")


def test_a_thread_is_no_pull(api, make, open_repo, carol):
    thread = make.thread(open_repo, by=carol)
    api(carol).get(f"{paths.pulls(open_repo)}/{thread.number}").fails(404, "not_found")


def test_its_author_changes_a_pull(api, bare_pull, carol, alice, events):
    with events("pull-updated") as recorded:
        changed = api(carol).put(paths.pull(bare_pull), title="Widen", body="").gives()
    assert (changed["title"], changed["body"]) == ("Widen", "")
    assert changed["updated_at"] > changed["created_at"]
    assert recorded[0].data == {"changed": ["title", "body"]}
    assert recorded[0].title == "Widen"
    number = bare_pull.number
    thread = api(alice).get(f"{bare_pull.repo.api_path}/threads/{number}").gives()
    assert (thread["title"], thread["body"]) == ("Widen", "")


def test_what_changes_nothing_is_no_event(api, bare_pull, carol, events):
    url = paths.pull(bare_pull)
    same = {"title": "Widen the gate", "body": "It is narrow.", "status": "open"}
    before = api(carol).get(url).gives()
    with events():
        assert api(carol).put(url, **same).gives() == before
        assert api(carol).put(url).gives() == before


def test_who_may_not_change_it_is_told_so_before_the_body_is_read(
    api, make, open_repo, alice, carol
):
    pull = make.pull(open_repo, by=alice)
    said = api(carol).put(paths.pull(pull), title=7).fails(403, "role_required")
    assert "you have read" in said


def test_a_status_wins_over_the_words_that_change_with_it(api, bare_pull, carol, events):
    with events("pull-drafted") as recorded:
        api(carol).put(paths.pull(bare_pull), body="Soon.", status="draft").gives()
    assert recorded[0].data == {"changed": ["body", "status"], "before": "open", "after": "draft"}


def test_a_refused_status_changes_no_words(api, bare_pull, carol):
    url = paths.pull(bare_pull)
    api(carol).put(url, status="closed").gives()
    refused = api(carol).put(url, title="New", status="draft")
    refused.fails(409, "invalid_transition")
    assert api(carol).get(url).gives()["title"] == "Widen the gate"


NO_CHANGES = [
    ({"status": "merged"}, "validation_failed", "/merge"),
    ({"status": "resolved"}, "validation_failed", "open, draft, closed"),
    ({"title": ""}, "validation_failed", "title"),
    ({"source_branch": "other"}, "unknown_field", "source_branch"),
]


def test_a_body_that_is_no_change_is_refused(api, bare_pull, carol):
    for body, code, text in NO_CHANGES:
        assert text in api(carol).put(paths.pull(bare_pull), **body).fails(422, code)
