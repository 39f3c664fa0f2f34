"""Time of an `Idempotency-Key`: a new reply without and with one, and a replayed answer.

    .venv/bin/python bench/idempotency.py

gunicorn of 8 threads on the database of DATABASE_URL, or SQLite; see bench/README.md.
"""

from __future__ import annotations

from itertools import count

from measuring import alices, compare, serving

FILL = """
from apps.accounts.models import User
from apps.accounts.principal import Principal
from apps.repos.access import access_to, access_to_owner
from apps.repos.actions import create_repo
from apps.threads.actions import create_thread
alice = User.objects.get(username="alice")
repo = create_repo(access=access_to_owner(Principal(alice), alice), name="R", slug="r")
create_thread(access=access_to(Principal(alice), repo), title="T", body="Why?", kind="question")
"""
PATH = "/api/v1/users/alice/repos/r/threads/1/replies"


def main() -> None:
    number = count(1)

    def fresh() -> bytes:
        return b'{"kind": "answer", "body": "Because of %d."}' % next(number)

    def new_key() -> str:
        return f"Idempotency-Key: key-{next(number)}"

    again = '{"kind": "answer", "body": "Once."}'.encode
    with serving() as (server, _):
        site = alices(server)
        server.run(FILL)
        ways = {
            "without a key": (site.ask(PATH, fresh), 201),
            "with a key": (site.ask(PATH, fresh, new_key), 201),
            "the kept answer": (site.ask(PATH, again, lambda: "Idempotency-Key: kept"), 201),
        }
        found = compare(ways)
    for name, seconds in found.items():
        print(f"  {name:16} {seconds * 1e3:6.2f} ms   {seconds / found['without a key']:.2f}")


if __name__ == "__main__":
    main()
