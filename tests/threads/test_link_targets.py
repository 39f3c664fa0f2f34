"""Link targets are looked up when a reply is written: 422 `link_target_not_found`."""

from __future__ import annotations

from apps.git import run
from tests.threads import paths
from tests.threads.test_races import BODY

REFUSED = (422, "link_target_not_found")


def refusal(api, person, thread, kind: str, target: str) -> str | None:
    """The error message for a link; None if the link is accepted."""
    links = [{"kind": "url", "target": "https://example.org"}, {"kind": kind, "target": target}]
    answer = api(person).post(paths.replies(thread), **BODY, links=links)
    if answer.status == 201:
        return None
    answer.fails(*REFUSED)
    return str(answer.json["detail"])


def test_what_is_absent_and_what_is_hidden_are_refused_in_the_same_words(
    api, make, thread, secret, alice, carol
):
    hidden = f"{secret.repo.path}#{secret.number}"
    reply = make.reply(secret, by=alice)
    existing = [("thread", hidden), ("reply", f"{hidden}/{reply.number}")]
    absent = [("thread", "99"), ("pull", "1"), ("reply", "9"), ("reply", "9/1"), ("commit", "abcd")]
    absent += [("thread", "teams/nobody/api#1"), ("pull", "users/nobody/api/1")]
    absent += [("commit", f"{secret.repo.path}@abcdef")]
    words = {refusal(api, carol, thread, *link) for link in [*existing, *absent]}
    assert len(words) == 1 and None not in words
    assert [refusal(api, alice, thread, *link) for link in existing] == [None, None]
    assert {refusal(api, alice, thread, *link) for link in absent} == words


def test_what_is_there_is_taken(api, make, thread, alice, carol):
    pull = make.pull(thread.repo, by=alice)
    reply = make.reply(pull.thread, by=alice)
    own = make.reply(thread, by=alice)
    here, path = f"#{thread.number}", thread.repo.path.upper().replace("TEAMS/", "teams/")
    good = [("thread", here), ("thread", f"{pull.number}"), ("pull", f"#{pull.number}")]
    good += [("reply", f"{own.number}"), ("reply", f"{pull.number}/{reply.number}")]
    good += [("file", "absent"), ("other", "x"), ("thread", "https://example.org/1")]
    good += [("thread", f"{path.replace('USERS/', 'users/')}#{thread.number}")]
    assert [refusal(api, carol, thread, *link) for link in good] == [None] * len(good)
    api(alice).delete(paths.reply(own)).gives(204)
    assert refusal(api, carol, thread, "reply", f"{own.number}")


def test_two_gits_ask_for_all_commits(api, thread, clone, alice):
    shas = [clone.sha("main"), clone.push_commit("main", {"a": "1\n"})]
    targets = [shas[0], shas[1][:7], shas[0].upper()[:8]]
    before = run.spawned
    links = [{"kind": "commit", "target": target} for target in targets]
    api(alice).post(paths.replies(thread), **BODY, links=links).gives(201)
    assert run.spawned - before == 2
    for wrong in ("f" * 40, "0" * 7):
        links = [{"kind": "commit", "target": wrong}]
        api(alice).post(paths.replies(thread), **BODY, links=links).fails(*REFUSED)


def test_links_that_a_reply_has_are_not_looked_up_again(api, make, thread, alice, carol):
    other = make.thread(thread.repo, by=alice)
    links = [{"kind": "thread", "target": f"{other.number}"}]
    reply = make.reply(thread, by=carol, links=links)
    api(alice).delete(paths.thread(other)).gives(204)
    more = [*links, {"kind": "url", "target": "https://example.org"}]
    api(carol).patch(paths.reply(reply), body="New.", links=more).gives()
    wrong = [*links, {"kind": "thread", "target": f"#{other.number}"}]
    api(carol).patch(paths.reply(reply), links=wrong).fails(*REFUSED)
    assert api(carol).get(paths.reply(reply)).gives()["links"] == more
