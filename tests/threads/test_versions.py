"""…/versions of threads, pulls and replies."""

from __future__ import annotations

import pytest

from apps.threads.models import ReplyVersion, ThreadVersion
from tests.races import together
from tests.threads import paths


def test_each_edit_of_a_reply_keeps_what_was_there(api, reply, alice, carol):
    first = api(alice).get(paths.reply(reply)).gives()
    links = [{"kind": "url", "target": "https://example.org"}]
    api(carol).patch(paths.reply(reply), body="Better.", links=links).gives()
    api(alice).patch(paths.reply(reply), status="accepted").gives()
    versions = api(alice).get(paths.versions(reply)).gives()["results"]
    assert [version["version"] for version in versions] == [1, 2, 3]
    assert [version["body"] for version in versions] == [first["body"], "Better.", "Better."]
    assert [version["links"] for version in versions] == [[], links, links]
    assert [version["status"] for version in versions] == ["open", "open", "accepted"]
    assert [version["edited_by_username"] for version in versions] == ["carol", "carol", "alice"]
    now = api(alice).get(paths.reply(reply)).gives()
    common = ("version", "kind", "status", "body", "links")
    assert {name: versions[-1][name] for name in common} == {name: now[name] for name in common}
    assert versions[0]["created_at"] == first["created_at"]
    assert versions[-1]["created_at"] == now["edited_at"]
    for version in versions:
        assert api(alice).get(f"{paths.versions(reply)}/{version['version']}").gives() == version
    api(alice).get(f"{paths.versions(reply)}/4").fails(404, "not_found")


def test_what_changes_nothing_is_no_version(api, reply, thread, carol, alice):
    api(carol).patch(paths.reply(reply), body=reply.body, kind=reply.kind).gives()
    api(alice).patch(paths.thread(thread), title=thread.title, priority="high").gives()
    assert ReplyVersion.objects.count() == ThreadVersion.objects.count() == 1


def test_versions_come_in_pages(api, reply, carol):
    for number in range(3):
        api(carol).patch(paths.reply(reply), body=f"Body {number}").gives()
    page = api(carol).get(f"{paths.versions(reply)}?per_page=3").gives()
    assert [record["version"] for record in page["results"]] == [1, 2, 3]
    rest = api(carol).get(page["next"]).gives()
    assert [record["version"] for record in rest["results"]] == [4]


def test_versions_of_a_deleted_reply_are_for_staff(api, make, reply, alice, carol, sam):
    make.reply(reply.thread, by=alice, to=reply)
    api(carol).delete(paths.reply(reply)).gives(204)
    for person in (alice, carol):
        api(person).get(paths.versions(reply)).fails(404, "not_found")
        api(person).get(f"{paths.versions(reply)}/1").fails(404, "not_found")
    [version] = api(sam).get(paths.versions(reply)).gives()["results"]
    assert version["body"] == reply.body != ""
    api(sam).get(f"{paths.versions(reply)}/1").gives()


def test_each_title_and_body_of_a_thread_is_kept(api, thread, alice, bob, sam):
    api(alice).patch(paths.thread(thread), title="Anew").gives()
    changed = api(sam).patch(paths.thread(thread), body="More.", status="resolved").gives()
    api(alice).patch(paths.thread(thread), status="closed").gives()
    versions = api(bob).get(paths.versions(thread)).gives()["results"]
    assert [version["version"] for version in versions] == [1, 2, 3]
    assert [version["title"] for version in versions] == [thread.title, "Anew", "Anew"]
    assert [version["body"] for version in versions] == [thread.body, thread.body, "More."]
    assert [version["edited_by_username"] for version in versions] == ["alice", "alice", "sam"]
    assert (changed["version"], changed["updated_at"]) == (3, versions[-1]["created_at"])
    assert api(bob).get(f"{paths.versions(thread)}/2").gives() == versions[1]
    api(bob).get(f"{paths.versions(thread)}/9").fails(404, "not_found")


def test_a_pull_has_versions_of_its_title_and_body_in_its_thread(api, make, open_repo, alice):
    pull = make.pull(open_repo, by=alice)
    url = f"{open_repo.api_path}/pulls/{pull.number}"
    api(alice).put(url, title="Anew", status="draft").gives()
    versions = api(alice).get(paths.versions(pull.thread)).gives()["results"]
    assert [version["title"] for version in versions] == [pull.thread.title, "Anew"]
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
    assert [version["version"] for version in versions] == [*range(1, 10)]
    assert sorted(version["body"] for version in versions[1:]) == texts
    assert versions[-1]["body"] == api(alice).get(paths.reply(reply)).gives()["body"]
