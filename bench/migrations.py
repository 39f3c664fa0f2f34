"""Time of each migration since 1.0.0 on large tables, and the longest wait of a writer beside it.

`.venv/bin/python bench/migrations.py ROWS`: threads, as many versions of pulls, three times as many
events. DATABASE_URL names an empty database of PostgreSQL's; without it a temporary one of SQLite.
"""

from __future__ import annotations

import os
import sys
import time
from threading import Event, Thread

import in_process  # noqa: F401 - sets Django up
from django.db import connection, connections, transaction
from django.db.migrations.executor import MigrationExecutor

from tests.test_migrations import V1_0_0

IS_POSTGRESQL = connection.vendor == "postgresql"
WORDS = {
    "uuid": "gen_random_uuid()" if IS_POSTGRESQL else "lower(hex(randomblob(16)))",
    "json": "CAST('{}' AS jsonb)" if IS_POSTGRESQL else "'{}'",
    "now": "now()" if IS_POSTGRESQL else "datetime('now')",
    "time": "now() - n * interval '10 seconds'"
    if IS_POSTGRESQL
    else "datetime('now', '-' || (n * 10) || ' seconds')",
}
ROWS = "WITH RECURSIVE r(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM r WHERE n < {})"
FILL = """
INSERT INTO accounts_user (username, username_key, uuid, password, is_superuser, display_name,
    display_name_key, email, is_active, is_staff, created_at, credentials_version, deactivations,
    wants_mail)
[thousand]
SELECT 'p' || n, 'p' || n, [uuid], '', false, '', '', '', true, false, [now], 0, 0, false FROM r;
INSERT INTO teams_team (uuid, name, slug, is_active, created_at, updated_at)
SELECT [uuid], 'T', 't' || id, true, created_at, created_at FROM accounts_user;
INSERT INTO repos_repo (uuid, name, slug, visibility, default_branch, is_empty, is_archived,
    last_number, created_at, updated_at, owner_team_id, fork_count)
SELECT [uuid], 'R', 'r', 'private', 'main', false, false, 0, created_at, created_at, id, 0
FROM teams_team;
INSERT INTO threads_thread (uuid, number, title, body, kind, priority, status, last_reply_number,
    reply_count, participant_count, last_activity_at, created_at, updated_at, created_by_id,
    repo_id, version, body_html, html_version)
[rows]
SELECT [uuid], n, 'Pushes of large repositories are slow since ' || n, '', 'pull', 'normal', 'open',
    0, 0, 1, [time], [time], [time], n % 1000 + 1, n % 997 + 1, 1, '', 0 FROM r;
INSERT INTO pulls_pull (number, uuid, source_branch, target_branch, status, commit_count, additions,
    deletions, changed_files, updated_at, repo_id, thread_id, source_repo_id, source_moved)
SELECT number, [uuid], 'topic', 'main', 'open', 1, 1, 1, 1, created_at, repo_id, id, repo_id, false
FROM threads_thread;
INSERT INTO pulls_pullversion (pull_id, version, head_sha, created_at, tries)
SELECT id, 1, '8c11dc25e68348d39ea5105efae6f0a5529585c6', updated_at, 0 FROM pulls_pull;
INSERT INTO events_event (kind, actor_id, team_id, repo_id, thread_id, number, is_pull, target,
    data, created_at)
[events]
SELECT CASE n % 3 WHEN 0 THEN 'reply-created' WHEN 1 THEN 'branch-pushed' ELSE 'pull-updated' END,
    n % 1000 + 1, n % 997 + 1, n % 997 + 1, n % {rows} + 1, n, true, [json],
    [json], [time] FROM r
"""
WRITES = {
    "events": "INSERT INTO events_event (kind, actor_id, repo_id, is_pull, target, data, "
    "created_at) VALUES ('x', 1, 1, false, '{}', '{}', CURRENT_TIMESTAMP)",
    "threads": "UPDATE threads_thread SET title = 'Changed' WHERE id = 7",
    "versions": "UPDATE pulls_pullversion SET tries = 1 WHERE id = 7",
}


class Writer(Thread):
    """Writes to each table in turn; `waits` are the longest seconds of a write by table."""

    def __init__(self) -> None:
        super().__init__(daemon=True)
        self.done = Event()
        self.waits = dict.fromkeys(WRITES, 0.0)

    def run(self) -> None:
        while not self.done.wait(0.01):
            for table, statement in WRITES.items():
                begin = time.monotonic()
                with transaction.atomic(), connection.cursor() as cursor:
                    cursor.execute(statement)
                self.waits[table] = max(self.waits[table], time.monotonic() - begin)
        connections.close_all()


def fill(rows: int) -> None:
    numbers = {"thousand": ROWS.format(1000), "rows": ROWS.format(rows)}
    text = FILL.replace("{rows}", str(rows))
    for word, sql in {**WORDS, **numbers, "events": ROWS.format(3 * rows)}.items():
        text = text.replace(f"[{word}]", sql)
    with connection.cursor() as cursor:
        if not IS_POSTGRESQL:
            cursor.execute("PRAGMA cache_size = -1000000")  # KiB: a third of the time
        for statement in text.split(";\n"):
            cursor.execute(statement)
        cursor.execute("ANALYZE")
    connection.close()  # SQLite then empties the log, which the first migration would wait for


def measure(app: str, name: str) -> None:
    writer = Writer()
    writer.start()
    begin = time.monotonic()
    MigrationExecutor(connection).migrate([(app, name)])
    seconds = time.monotonic() - begin
    writer.done.set()
    writer.join()
    waits = ", ".join(f"{table} {wait:.2f} s" for table, wait in writer.waits.items())
    load = f"load {os.getloadavg()[0]:.1f}"
    print(f"{app}.{name}: {seconds:.1f} s; longest waits: {waits}; {load}", flush=True)


def main(rows: int) -> None:
    loader = MigrationExecutor(connection).loader
    ours = [key for key in loader.disk_migrations if key[0] in {*V1_0_0, "jobs"}]
    old = [key for key in ours if int(key[1][:4]) == V1_0_0.get(key[0])]
    MigrationExecutor(connection).migrate(old)
    fill(rows)
    print(f"{connection.vendor}, {rows} threads", flush=True)
    for app, name in sorted(key for key in ours if int(key[1][:4]) > V1_0_0.get(key[0], 0)):
        measure(app, name)


if __name__ == "__main__":
    main(int(sys.argv[1]))
