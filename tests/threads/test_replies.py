"""…/threads/{number}/replies: listing replies, and replying."""

from __future__ import annotations

from apps.threads.models import Thread
from tests.threads import paths

BODY = {"kind": "comment", "body": "Same here."}


def test_a_reader_replies(api, thread, carol, events):
    with events("reply-created") as recorded:
        made = api(carol).post(paths.replies(thread), **BODY).gives(201)
    assert {name: made[name] for name in BODY} == BODY
    assert "parent_reply_number" not in made
    assert (made["number"], made["thread_number"], made["depth"]) == (1, thread.number, 0)
    assert (made["status"], made["links"], made["version"]) == ("open", [], 1)
    assert (made["is_deleted"], made["deleted_at"], made["edited_at"]) == (False, None, None)
    assert made["created_by_uuid"] == str(carol.uuid)
    assert made["created_by_username"] == "carol"
    assert made["created_at"] == made["updated_at"]
    assert len(made["uuid"]) == 36
    assert recorded[0].web_suffix == f"/threads/{thread.number}#reply-1"
    assert api(carol).get(f"{paths.replies(thread)}/1").gives() == made


def test_a_reply_to_a_reply_names_its_parent(api, thread, carol, alice):
    url = paths.replies(thread)
    api(carol).post(url, **BODY).gives(201)
    child = api(alice).post(url, **BODY, parent_reply_number=1).gives(201)
    assert (child["number"], child["parent_reply_number"], child["depth"]) == (2, 1, 1)
    grandchild = api(carol).post(url, **BODY, parent_reply_number=2.0).gives(201)
    assert (grandchild["parent_reply_number"], grandchild["depth"]) == (2, 2)


def test_no_parent_may_be_said_in_so_many_words(api, thread, alice):
    reply = api(alice).post(paths.replies(thread), **BODY, parent_reply_number=None).gives(201)
    assert (reply["depth"], "parent_reply_number" in reply) == (0, False)


def test_a_reply_counts_in_its_thread(api, thread, alice, carol):
    for person, counts in ((alice, (1, 1)), (carol, (2, 2)), (carol, (3, 2))):
        reply = api(person).post(paths.replies(thread), **BODY).gives(201)
        read = api(alice).get(paths.thread(thread)).gives()
        assert (read["reply_count"], read["participant_count"]) == counts
        assert read["last_activity_at"] == reply["created_at"] > read["updated_at"]


def test_a_parent_must_be_there(api, thread, alice):
    url = paths.replies(thread)
    api(alice).post(url, **BODY).gives(201)
    for number in (0, -1, 2, 10**18, 2**63, 1e300):
        answer = api(alice).post(url, **BODY, parent_reply_number=number)
        answer.fails(422, "parent_reply_not_found")


def test_a_parent_of_another_thread_is_none(api, make, thread, alice):
    other = make.thread(thread.repo, by=alice)
    make.reply(other, by=alice)
    answer = api(alice).post(paths.replies(thread), **BODY, parent_reply_number=1)
    answer.fails(422, "parent_reply_not_found")


def test_a_deleted_parent_is_not_answered(api, make, thread, alice):
    parent = make.reply(thread, by=alice)
    child = make.reply(thread, by=alice, to=parent)
    api(alice).delete(paths.reply(parent)).gives(204)
    answer = api(alice).post(paths.replies(thread), **BODY, parent_reply_number=1)
    answer.fails(409, "parent_reply_deleted")
    answer = api(alice).post(paths.replies(thread), **BODY, parent_reply_number=child.number)
    assert answer.gives(201)["depth"] == 2


def test_replies_nest_fifty_levels_deep(api, make, team_repo, alice):
    thread = make.thread(team_repo, by=alice)
    last = make.reply(thread, by=alice)
    for _ in range(49):
        last = make.reply(thread, by=alice, to=last)
    url = paths.replies(thread)
    deepest = api(alice).post(url, **BODY, parent_reply_number=last.number).gives(201)
    assert deepest["depth"] == 50
    answer = api(alice).post(url, **BODY, parent_reply_number=deepest["number"])
    answer.fails(422, "reply_too_deep")
    assert len(api(alice).get(paths.thread(thread)).gives()["replies"]) == 51


BAD_VALUES = [
    ("kind", ""),
    ("kind", "Comment"),
    ("kind", "a b"),
    ("kind", "comment\n"),
    ("kind", "x" * 31),
    ("kind", 1),
    ("body", ""),
    ("body", " \n\u3000"),
    ("body", "x" * 65_537),
    ("body", "a\0b"),
    ("body", None),
    ("parent_reply_number", "1"),
    ("parent_reply_number", 1.5),
    ("parent_reply_number", True),
    ("status", "deleted"),
    ("links", {}),
    ("links", None),
    ("links", [1]),
    ("links", [{"kind": "url"}]),
    ("links", [{"kind": "url", "target": ""}]),
    ("links", [{"kind": "url", "target": "ftp://example.org"}]),
    ("links", [{"kind": "note", "target": "x" * 2049}]),
    ("links", [{"kind": "note", "target": "x"}] * 101),
]


def test_a_bad_value_is_refused_by_name(api, make, team_repo, alice):
    thread = make.thread(team_repo, by=alice)
    url = paths.replies(thread)
    for field, value in BAD_VALUES:
        answer = api(alice).post(url, **{**BODY, field: value})
        assert answer.fails(422, "validation_failed").startswith(field), (field, value)
    assert api(alice).get(url).gives()["results"] == []


def test_kind_and_body_are_required_and_nothing_unknown_is_taken(api, thread, alice):
    url = paths.replies(thread)
    detail = api(alice).post(url).fails(422, "validation_failed")
    assert detail == "kind: This field is required. body: This field is required."
    api(alice).post(url, **BODY, author="bob").fails(422, "unknown_field")
    link = {"kind": "url", "target": "https://example.org", "title": "x"}
    api(alice).post(url, **BODY, links=[link]).fails(422, "unknown_field")
    api(alice).send("POST", url).fails(400, "malformed_request")


def test_open_words_and_their_links_are_kept_as_sent(api, thread, alice):
    links = [
        {"kind": "url", "target": "https://example.org/a?b=c#d"},
        {"kind": "design-note", "target": " anything at all "},
    ]
    body = {"kind": "field_note-2", "body": " é\u2028", "status": "accepted", "links": links}
    made = api(alice).post(paths.replies(thread), **body).gives(201)
    assert {name: made[name] for name in body} == body


def test_a_body_may_be_as_long_as_the_limit(api, make, team_repo, alice):
    thread = make.thread(team_repo, by=alice)
    longest = "é" * 65_536
    made = api(alice).post(paths.replies(thread), kind="comment", body=longest).gives(201)
    assert made["body"] == longest


def test_replies_are_listed_in_the_order_of_their_tree_in_pages(api, make, thread, alice, carol):
    one = make.reply(thread, by=alice)
    two = make.reply(thread, by=carol)
    make.reply(thread, by=alice, to=two)
    make.reply(thread, by=alice, to=one)
    make.reply(thread, by=alice, to=one)
    first = api(carol).get(f"{paths.replies(thread)}?per_page=3").gives()
    assert [row["number"] for row in first["results"]] == [1, 4, 5]
    second = api(carol).get(first["next"]).gives()
    assert [row["number"] for row in second["results"]] == [2, 3]
    whole = api(carol).get(paths.thread(thread)).gives()
    assert whole["replies"] == [*first["results"], *second["results"]]
    assert len(whole["replies"]) == Thread.objects.get().reply_count
