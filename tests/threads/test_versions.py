"""…/versions of threads, pulls and replies: what stood there before an edit."""

from __future__ import annotations

import pytest

from apps.threads.models import ReplyVersion, ThreadVersion
from tests.threads import paths
from tests.threads.test_races import together


@pytest.fixture
def reply(make, thread, carol):
    """Carol's reply to alice's thread."""
    return make.reply(thread, by=carol)


def test_each_edit_of_a_reply_keeps_what_was_there(api, reply, alice, carol):
    first = api(alice).get(paths.reply(reply)).gives()
    links = [{"kind": "url", "target": "https://example.org"}]
    api(carol).patch(paths.reply(reply), body="Better.", links=links).gives()
    api(alice).patch(paths.reply(reply), status="accepted").gives()
    versions = api(alice).get(paths.versions(reply)).gives()["results"]
    assert [one["version"] for one in versions] == [1, 2, 3]
    assert [one["body"] for one in versions] == [first["body"], "Better.", "Better."]
    assert [one["links"] for one in versions] == [[], links, links]
    assert [one["status"] for one in versions] == ["open", "open", "accepted"]
    assert [one["edited_by_username"] for one in versions] == ["carol", "carol", "alice"]
    now = api(alice).get(paths.reply(reply)).gives()
    common = ("version", "kind", "status", "body", "links")
    assert {name: versions[-1][name] for name in common} == {name: now[name] for name in common}
    assert (versions[0]["created_at"], versions[-1]["created_at"]) == (
        first["created_at"],
        now["edited_at"],
    )
    for one in versions:
        assert api(alice).get(f"{paths.versions(reply)}/{one['version']}").gives() == one
    api(alice).get(f"{paths.versions(reply)}/4").fails(404, "not_found")


def test_what_changes_nothing_is_no_version(api, reply, thread, carol, alice):
    api(carol).patch(paths.reply(reply), body=reply.body, kind=reply.kind).gives()
    api(alice).patch(paths.thread(thread), title=thread.title, priority="high").gives()
    assert ReplyVersion.objects.count() == ThreadVersion.objects.count() == 1


def test_versions_come_in_pages(api, reply, carol):
    for number in range(3):
        api(carol).patch(paths.reply(reply), body=f"Body {number}").gives()
    page = api(carol).get(f"{paths.versions(reply)}?per_page=3").gives()
    assert [one["version"] for one in page["results"]] == [1, 2, 3]
    rest = api(carol).get(page["next"]).gives()
    assert [one["version"] for one in rest["results"]] == [4]


def test_versions_of_a_deleted_reply_are_for_staff(api, make, reply, alice, carol, sam):
    make.reply(reply.thread, by=alice, to=reply)
    api(carol).delete(paths.reply(reply)).gives(204)
    for person in (alice, carol):
        api(person).get(paths.versions(reply)).fails(404, "not_found")
        api(person).get(f"{paths.versions(reply)}/1").fails(404, "not_found")
    [kept] = api(sam).get(paths.versions(reply)).gives()["results"]
    assert kept["body"] == reply.body != ""
    api(sam).get(f"{paths.versions(reply)}/1").gives()


def test_each_title_and_body_of_a_thread_is_kept(api, thread, alice, bob, sam):
    api(alice).patch(paths.thread(thread), title="Anew").gives()
    changed = api(sam).patch(paths.thread(thread), body="More.", status="resolved").gives()
    api(alice).patch(paths.thread(thread), status="closed").gives()
    versions = api(bob).get(paths.versions(thread)).gives()["results"]
    assert [one["version"] for one in versions] == [1, 2, 3]
    assert [one["title"] for one in versions] == [thread.title, "Anew", "Anew"]
    assert [one["body"] for one in versions] == [thread.body, thread.body, "More."]
    assert [one["edited_by_username"] for one in versions] == ["alice", "alice", "sam"]
    assert (changed["version"], changed["updated_at"]) == (3, versions[-1]["created_at"])
    assert api(bob).get(f"{paths.versions(thread)}/2").gives() == versions[1]
    api(bob).get(f"{paths.versions(thread)}/9").fails(404, "not_found")


def test_a_pull_has_versions_of_its_title_and_body_in_its_thread(api, make, open_repo, alice):
    pull = make.pull(open_repo, by=alice)
    api(alice).put(
        f"{open_repo.api_path}/pulls/{pull.number}", title="Anew", status="draft"
    ).gives()
    versions = api(alice).get(paths.versions(pull.thread)).gives()["results"]
    assert [one["title"] for one in versions] == [pull.thread.title, "Anew"]
    assert versions[-1]["edited_by_username"] == "alice"


@pytest.mark.django_db(transaction=True)
def test_parallel_edits_of_a_reply_have_a_version_each(api, reply, alice, carol):
    texts = [f"Body {number}" for number in range(8)]
    clients = [api(carol) for _ in texts]
    answers = together(
        *(
            lambda c=client, t=text: c.patch(paths.reply(reply), body=t)
            for client, text in zip(clients, texts, strict=True)
        )
    )
    assert {answer.status for answer in answers} == {200}
    versions = api(alice).get(paths.versions(reply)).gives()["results"]
    assert [one["version"] for one in versions] == [*range(1, 10)]
    assert sorted(one["body"] for one in versions[1:]) == texts
    assert versions[-1]["body"] == api(alice).get(paths.reply(reply)).gives()["body"]
