"""…/replies/{reply_number}: reading, changing and deleting a reply, and its placeholder."""

from __future__ import annotations

from tests.threads import paths


def test_a_reply_is_read_by_readers(api, reply, alice):
    api(alice).get(f"{paths.replies(reply.thread)}/2").fails(404, "not_found")
    read = api(alice).get(paths.reply(reply)).gives()
    assert read == api(alice).get(paths.replies(reply.thread)).gives()["results"][0]


def test_only_its_creator_changes_a_reply(api, reply, alice, carol, sam, events):
    for person in (alice, sam):
        api(person).patch(paths.reply(reply), body="No.").fails(403, "not_creator")
        both = {"body": "No.", "status": "rejected"}
        api(person).patch(paths.reply(reply), **both).fails(403, "not_creator")
        api(person).patch(paths.reply(reply)).fails(403, "not_creator")
    with events("reply-updated") as recorded:
        body = api(carol).patch(paths.reply(reply), body="Better.", kind="answer").gives()
    assert (body["body"], body["kind"], body["version"]) == ("Better.", "answer", 2)
    assert body["edited_at"] == body["updated_at"] > body["created_at"]
    assert recorded[0].data == {"changed": ["kind", "body"]}
    read = api(alice).get(paths.thread(reply.thread)).gives()
    assert read["replies"] == [body]
    assert read["last_activity_at"] == body["edited_at"]


def test_what_changes_nothing_is_no_version_and_no_event(api, reply, carol, events):
    before = api(carol).get(paths.reply(reply)).gives()
    same = {name: before[name] for name in ("kind", "body", "status", "links")}
    with events():
        assert api(carol).patch(paths.reply(reply), **same).gives() == before
        assert api(carol).patch(paths.reply(reply)).gives() == before


def test_links_are_replaced_as_a_whole(api, reply, carol):
    links = [{"kind": "thread", "target": "#1"}]
    assert api(carol).patch(paths.reply(reply), links=links).gives()["links"] == links
    assert api(carol).patch(paths.reply(reply), links=[]).gives()["links"] == []


def test_a_bad_change_is_refused(api, reply, carol):
    url = paths.reply(reply)
    for field, value in (
        ("body", " "),
        ("kind", "No Word"),
        ("status", "deleted"),
        ("links", [{"kind": "commit", "target": "main"}]),
    ):
        api(carol).patch(url, **{field: value}).fails(422, "validation_failed")
    api(carol).patch(url, parent_reply_number=1).fails(422, "unknown_field")


def test_only_the_creator_deletes_a_reply(api, reply, alice, carol, sam, events):
    url = paths.reply(reply)
    for person in (alice, sam):
        api(person).delete(url).fails(403, "not_creator")
    with events("reply-deleted") as recorded:
        api(carol).delete(url).gives(204)
    assert recorded[0].target["number"] == reply.number
    with events():
        for person in (alice, carol, sam):
            api(person).delete(url).fails(409, "reply_already_deleted")
    api(carol).get(url).fails(404, "not_found")
    api(carol).patch(url, body="x").fails(404, "not_found")


def test_deleting_checks_the_repository_before_the_reply(api, make, repo, alice, carol):
    reply = make.reply(make.thread(repo, by=alice), by=alice)
    api(alice).delete(paths.reply(reply)).gives(204)
    api(carol).delete(paths.reply(reply)).fails(403, "forbidden")
    api(carol).delete(f"{paths.threads(repo)}/9/replies/9").fails(403, "forbidden")
    api(alice).delete(f"{paths.threads(repo)}/9/replies/9").fails(404, "not_found")
    api(alice).delete(f"{paths.replies(reply.thread)}/9").fails(404, "not_found")
    api(alice).delete("/users/alice/repos/none/threads/1/replies/1").fails(404, "not_found")


def test_a_deleted_reply_with_live_ones_below_is_shown_as_a_placeholder(
    api, make, reply, alice, carol
):
    child = make.reply(reply.thread, by=alice, to=reply)
    api(carol).delete(paths.reply(reply)).gives(204)
    placeholder = api(alice).get(paths.reply(reply)).gives()
    deleted_at = placeholder.pop("deleted_at")
    assert placeholder == {
        "number": 1,
        "depth": 0,
        "is_deleted": True,
        "status": "deleted",
        "kind": "comment",
        "body": "",
        "links": [],
        "anchor": None,
        "created_by_uuid": None,
        "created_by_username": None,
        "created_by_is_bot": None,
    }
    replies = api(alice).get(paths.thread(reply.thread)).gives()["replies"]
    assert replies[0] == {**placeholder, "deleted_at": deleted_at}
    assert [row["number"] for row in replies] == [reply.number, child.number]
    api(carol).patch(paths.reply(reply), body="x").fails(409, "reply_already_deleted")


def test_a_placeholder_in_the_middle_keeps_its_parent_and_goes_with_the_last_below(
    api, make, reply, carol
):
    middle = make.reply(reply.thread, by=carol, to=reply)
    leaf = make.reply(reply.thread, by=carol, to=middle)
    api(carol).delete(paths.reply(middle)).gives(204)
    replies = api(carol).get(paths.replies(reply.thread)).gives()["results"]
    expected = [(1, False), (2, True), (3, False)]
    assert [(row["number"], row["is_deleted"]) for row in replies] == expected
    assert (replies[1]["parent_reply_number"], replies[1]["depth"]) == (1, 1)
    api(carol).delete(paths.reply(leaf)).gives(204)
    replies = api(carol).get(paths.replies(reply.thread)).gives()["results"]
    assert [row["number"] for row in replies] == [1]
    api(carol).delete(paths.reply(middle)).fails(409, "reply_already_deleted")


def test_the_words_of_a_deleted_reply_are_gone_and_its_number_stays_taken(api, make, reply, carol):
    links = [{"kind": "note", "target": "secret"}]
    api(carol).patch(paths.reply(reply), body="secret", links=links).gives()
    api(carol).delete(paths.reply(reply)).gives(204)
    reply.refresh_from_db()
    assert (reply.body, reply.links) == ("", [])
    assert make.reply(reply.thread, by=carol).number == 2


def test_a_deleted_reply_no_longer_counts(api, reply, alice, carol):
    before = api(alice).get(paths.thread(reply.thread)).gives()
    assert (before["reply_count"], before["participant_count"]) == (1, 2)
    api(carol).delete(paths.reply(reply)).gives(204)
    after = api(alice).get(paths.thread(reply.thread)).gives()
    assert (after["reply_count"], after["participant_count"]) == (0, 1)
    assert after["last_activity_at"] == before["last_activity_at"]
