"""The migrations of threads, with existing rows."""

from __future__ import annotations

from importlib import import_module

import pytest
from django.db import connection
from django.utils import timezone

from apps.threads.models import Reply, Thread
from tests.migrations import as_of


@pytest.mark.django_db(transaction=True)
def test_what_was_said_before_versions_were_kept_is_the_newest_version(make, acme, alice, bob):
    thread = make.thread(make.repo(acme, "api", by=alice), by=alice)
    changed = make.thread(thread.repo, by=alice)
    reply, edited = (make.reply(thread, by=bob) for _ in range(2))
    later = timezone.now()
    Thread.objects.filter(pk=changed.pk).update(updated_at=later)
    Reply.objects.filter(pk=edited.pk).update(version=3, edited_at=later, body="Third.")
    with as_of("threads", "0002_replies"):
        pass
    [first], [unknown] = thread.versions.all(), changed.versions.all()
    assert (first.version, first.title, first.body) == (1, thread.title, thread.body)
    assert (first.edited_by, first.created_at) == (alice, thread.created_at)
    assert (unknown.version, unknown.edited_by, unknown.created_at) == (1, None, later)
    [only], [third] = reply.versions.all(), edited.versions.all()
    assert (only.version, only.body, only.links, only.edited_by) == (1, reply.body, [], bob)
    assert (third.version, third.body, third.edited_by) == (3, "Third.", None)


@pytest.mark.skipif(connection.vendor != "postgresql", reason="PostgreSQL's own")
@pytest.mark.django_db
def test_titles_have_an_index_where_the_role_may_make_it_and_are_searched_elsewhere(
    api, make, acme, alice
):
    make.thread(make.repo(acme, "api", by=alice), by=alice, title="Zebra crossing")
    migration = import_module("apps.threads.migrations.0008_search_in_titles")

    def indexes(role: str) -> int:
        with connection.cursor() as cursor:
            cursor.execute("DROP EXTENSION IF EXISTS pg_trgm CASCADE")
            cursor.execute("SET CONSTRAINTS ALL IMMEDIATE")
            cursor.execute(f"SET LOCAL ROLE {role}" if role else "RESET ROLE")
            with connection.schema_editor() as editor:
                migration.make_index(None, editor)
            cursor.execute("RESET ROLE")
            cursor.execute("SELECT COUNT(*) FROM pg_indexes WHERE indexname = 'thread_title'")
            return int(cursor.fetchone()[0])

    with connection.cursor() as cursor:
        cursor.execute("CREATE ROLE guildhall_without_rights")
    assert indexes("guildhall_without_rights") == 0
    assert len(api(alice).get("/threads?search=zebra").gives()["results"]) == 1
    assert indexes("") == 1
    assert len(api(alice).get("/threads?search=zebra").gives()["results"]) == 1


@pytest.mark.skipif(connection.vendor != "postgresql", reason="PostgreSQL's own")
@pytest.mark.django_db(transaction=True)
def test_an_index_that_an_interrupted_migration_left_is_replaced():
    migration = import_module("apps.threads.migrations.0009_short_searches")
    break_it = "UPDATE pg_index SET indisvalid = false WHERE indexrelid = %s::regclass"
    read = "SELECT indisvalid FROM pg_index WHERE indexrelid = %s::regclass"
    with connection.schema_editor(atomic=False) as editor, connection.cursor() as cursor:
        cursor.execute(break_it, ["thread_title_parts"])
        migration.make_index(None, editor)
        cursor.execute(read, ["thread_title_parts"])
        assert cursor.fetchone() == (True,)
