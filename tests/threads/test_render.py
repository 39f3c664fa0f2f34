"""`render=html`: bodies as HTML, with links to targets that the reader may read."""

from __future__ import annotations

import pytest
from django.db import connection

from apps.core import markdown
from apps.threads.models import Reply, Thread
from tests.plans import planned
from tests.threads import paths

ASKED = "?render=html"


def html(api, person, path: str) -> str:
    """The HTML of a record's body for this person, without its paragraph."""
    record: dict[str, str] = api(person).get(path + ASKED).gives()
    return record["body_html"].strip().removeprefix("<p>").removesuffix("</p>")


def link(api, person, row: Thread, text: str) -> str:
    address = api(person).get(paths.thread(row)).gives()["web_url"]
    return f'<a href="{address}">{text}</a>'


def test_records_have_html_only_where_it_is_asked_for(api, make, thread, alice):
    reply = make.reply(thread, by=alice, body="*yes*")
    for path in (paths.thread(thread), paths.reply(reply), paths.versions(reply) + "/1"):
        assert "body_html" not in api(alice).get(path).gives()
        assert "body_html" in api(alice).get(path + ASKED).gives()
        api(alice).get(path + "?render=text").fails(422, "validation_failed")
    assert html(api, alice, paths.reply(reply)) == "<em>yes</em>"
    assert html(api, alice, paths.versions(reply) + "/1") == "<em>yes</em>"
    for path in (paths.threads(thread.repo), paths.replies(thread), paths.versions(reply)):
        for record in api(alice).get(path + ASKED).gives()["results"]:
            assert "body_html" in record
    whole = api(alice).get(paths.thread(thread) + ASKED).gives()
    assert whole["replies"][0]["body_html"] == "<p><em>yes</em></p>\n"


def test_pulls_and_reviews_have_html_too(api, make, open_repo, alice, bob):
    pull = make.pull(open_repo, by=alice, body="~~no~~")
    review = make.review(pull, by=bob, body="**go**")
    home = f"{open_repo.api_path}/pulls"
    path = f"{home}/{pull.number}"
    assert html(api, bob, path) == "<s>no</s>"
    assert html(api, bob, f"{path}/reviews/{review.uuid}") == "<strong>go</strong>"
    for listed, expected in ((home, "<s>no</s>"), (f"{path}/reviews", "<strong>go</strong>")):
        [record] = api(bob).get(listed + ASKED).gives()["results"]
        assert expected in record["body_html"]
        assert "body_html" not in api(bob).get(listed).gives()["results"][0]
    api(alice).put(path, body="*yes*").gives()
    api(bob).put(f"{path}/reviews/{review.uuid}", body="`stop`").gives()
    assert html(api, bob, path) == "<em>yes</em>"
    assert html(api, bob, f"{path}/reviews/{review.uuid}") == "<code>stop</code>"


def test_html_is_kept_with_each_edit_and_goes_with_the_words(api, make, thread, alice):
    reply = make.reply(thread, by=alice, body="*a*")
    make.reply(thread, by=alice, to=reply)
    api(alice).patch(paths.reply(reply), body="*b*").gives()
    api(alice).patch(paths.thread(thread), body="*c*").gives()
    api(alice).patch(paths.reply(reply), status="resolved").gives()
    reply.refresh_from_db()
    thread.refresh_from_db()
    assert (reply.body_html, reply.html_version) == ("<p><em>b</em></p>\n", markdown.VERSION)
    assert (thread.body_html, thread.html_version) == ("<p><em>c</em></p>\n", markdown.VERSION)
    api(alice).delete(paths.reply(reply)).gives(204)
    reply.refresh_from_db()
    assert reply.body_html == ""
    [placeholder, _] = api(alice).get(paths.replies(thread) + ASKED).gives()["results"]
    assert (placeholder["is_deleted"], placeholder["body_html"]) == (True, "")


def test_what_another_renderer_made_is_rendered_anew(api, make, thread, alice):
    reply = make.reply(thread, by=alice, body="*a*")
    Reply.objects.update(body_html="<p>old</p>", html_version=markdown.VERSION - 1)
    assert html(api, alice, paths.reply(reply)) == "<em>a</em>"
    Reply.objects.update(html_version=markdown.VERSION)
    assert html(api, alice, paths.reply(reply)) == "<p>old</p>".strip("</p>")


def test_references_are_links_for_whom_may_read_what_they_lead_to(
    api, make, thread, secret, alice, carol
):
    pull = make.pull(thread.repo, by=alice)
    name = f"{secret.repo.path}#{secret.number}"
    body = f"#{thread.number} #{pull.number} #99 {name} @Carol @nobody"
    reply = make.reply(thread, by=alice, body=body)
    own = link(api, alice, thread, f"#{thread.number}")
    at_pull = link(api, alice, pull.thread, f"#{pull.number}")
    base = own.partition('"')[2].partition(f"/{thread.repo.path}")[0]
    person = f'<a href="{base}/users/carol">@Carol</a>'
    there = link(api, alice, secret, name)
    assert html(api, alice, paths.reply(reply)) == f"{own} {at_pull} #99 {there} {person} @nobody"
    assert html(api, carol, paths.reply(reply)) == f"{own} {at_pull} #99 {name} {person} @nobody"
    api(alice).delete(paths.thread(secret)).gives(204)
    assert html(api, alice, paths.reply(reply)) == f"{own} {at_pull} #99 {name} {person} @nobody"
    assert "/pulls/" in at_pull


def test_a_page_of_references_takes_few_queries(
    api, make, thread, secret, alice, django_assert_max_num_queries
):
    text = f"#1 @alice {secret.repo.path}#{secret.number} @bob @carol #2"
    api(alice).get(paths.thread(thread) + ASKED).gives()  # the first request runs more queries
    counts = []
    for number in (1, 8):
        for _ in range(number):
            make.reply(thread, by=alice, body=text)
        with django_assert_max_num_queries(12) as captured:
            api(alice).get(paths.thread(thread) + ASKED).gives()
        counts.append(len(captured))
    assert counts[0] == counts[1]


@pytest.mark.skipif(connection.vendor != "sqlite", reason="SQLite's own plan")
def test_what_texts_refer_to_is_found_along_indexes(api, make, thread, alice):
    other = make.thread(make.repo(alice, by=alice), by=alice)
    body = f"@alice, #1, {other.repo.path}#{other.number} and {'1' * 40}"
    thread = make.thread(thread.repo, by=alice, body=body)
    with planned(""" UNION ALL SELECT 'thread'""") as steps:
        assert html(api, alice, paths.thread(thread)).count("<a ") == 3
    assert not [step for step in steps if "SCAN" in step], steps
