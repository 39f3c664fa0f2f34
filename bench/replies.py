"""Time of reading a thread with 10,000 replies, compared with 100 replies. See bench/README.md.

    .venv/bin/python bench/replies.py

Under gunicorn, on SQLite; with DATABASE_URL on PostgreSQL.
"""

from __future__ import annotations

from measuring import alices, compare, serving

FEW, MANY, PER_PAGE = 100, 10_000, 50
FILL = """
from apps.accounts.models import User
from apps.accounts.principal import Principal
from apps.repos.access import access_to, access_to_owner
from apps.repos.actions import create_repo
from apps.threads.actions import create_reply, create_thread
alice = User.objects.get(username="alice")
repo = create_repo(access=access_to_owner(Principal(alice), alice), name="R", slug="r")
access = access_to(Principal(alice), repo)
for count in ({few}, {many}):
    thread, made = create_thread(access=access, title="T", body="Why?", kind="question"), []
    for number in range(count):
        parent = made[number // 3].number if number % 4 else None
        body = f"Because of {{number}}."
        made.append(create_reply(
            access=access, thread=thread, kind="answer", body=body, parent_reply_number=parent
        ))
"""


def main() -> None:
    threads = "/api/v1/users/alice/repos/r/threads"
    few, many = (f"{threads}/{number}/replies?per_page={PER_PAGE}" for number in (1, 2))
    last = MANY // PER_PAGE
    reads = {
        f"page 1 of {FEW:,} replies": few,
        f"page 1 of {MANY:,} replies": many,
        f"page {last} of {MANY:,} replies": f"{many}&page={last}",
        f"the thread with {FEW:,} replies": f"{threads}/1",
        f"the thread with {MANY:,} replies, of which 500 come": f"{threads}/2",
    }
    with serving() as (server, _):
        site = alices(server)
        server.run(FILL.format(few=FEW, many=MANY))
        found = compare({words: (site.ask(path), 200) for words, path in reads.items()}, times=10)
    first = next(iter(found.values()))
    for words, median in found.items():
        print(f"  {words:48} {median * 1000:7.1f} ms   {median / first:5.2f}")


if __name__ == "__main__":
    main()
