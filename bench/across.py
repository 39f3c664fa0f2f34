"""Time of lists across repositories, compared with the list of one repository. See bench/README.md.

DATABASE_URL names an empty database of PostgreSQL's, which is filled; an argument says how many
threads it gets. In process, without a server; the lists take turns, and the best turn counts.
"""

from __future__ import annotations

import sys
import time
from typing import Any

from django.db import connection
from django.db.models import F
from django.test import Client
from in_process import migrate

from apps.accounts.actions import create_token, create_user
from apps.accounts.models import User
from apps.repos.models import Repo, Visibility
from tests import crowded

REPOS, ROUNDS = 10_000, 9
PATHS = {
    "all": "",
    "the page after 3,000": "before={far}",
    "`status=open`, one in 500": "status=open",
    "`status=open` of one team": "status=open&team=crowd-777",
    "`created_by`": "created_by=crowd-6",
    "`participant`": "participant=crowd-6",
    "`search`, in all titles": "search=pushes",
    "`search`, in few": "search=pushes+7777",
    "`search`, in none": "search=zebra",
    "`search`, two letters, in none": "search=zz",
}
OF_PULLS = {"`awaiting_review_from=self`": "awaiting_review_from=self"}
OF_THREADS = {"`priority=urgent`, one in 10,000": "priority=urgent"}


def main(rows: int) -> None:
    migrate()
    if not User.objects.filter(username="crowd-1").exists():
        crowded.fill(REPOS, rows)
    measure()


def measure() -> None:
    """Print a table for each kind of site: what others may read, and the caller."""
    for name in ("stranger", "staff"):
        if not User.objects.filter(username=name).exists():
            create_user(principal=None, username=name, is_staff=name == "staff")
    clients = {name: client(User.objects.get(username=name)) for name in CALLERS}
    for each in (REPOS, 150, 7):
        Repo.objects.update(visibility=Visibility.PRIVATE)
        some = Repo.objects.alias(rest=F("pk") % each).filter(rest=1)
        shown = some.update(visibility=Visibility.INTERNAL)
        with connection.cursor() as cursor:
            cursor.execute("VACUUM ANALYZE repos_repo")
        print(f"\n{REPOS} repositories, {shown} of them internal", flush=True)
        for kind in ("threads", "pulls"):
            table(kind, clients)


CALLERS = ("stranger", "crowd-777", "staff")


def client(person: Any) -> Any:
    token = create_token(principal=None, owner=person, name="bench")[1]
    return Client(headers={"Authorization": f"Bearer {token}"})


def table(kind: str, clients: dict[str, Any]) -> None:
    own = Repo.objects.filter(owner_team__slug="crowd-777")[0]
    base = f"/api/v1{own.api_path}/{kind}"
    paths = {**PATHS, **(OF_PULLS if kind == "pulls" else OF_THREADS)}
    far = {name: far_cursor(one, kind) for name, one in clients.items()}
    best: dict[tuple[str, str], float] = {}
    for _ in range(ROUNDS):
        for name, one in clients.items():
            for words, query in paths.items():
                path = f"/api/v1/{kind}?{query.format(far=far[name])}"
                spent = seconds(one, path)
                best[words, name] = min(best.get((words, name), spent), spent)
        spent = seconds(clients["crowd-777"], base)
        best["", ""] = min(best.get(("", ""), spent), spent)
    unit = best["", ""]
    print(f"| {kind} | {' | '.join(clients)} |  (one repository: {unit * 1000:.1f} ms)")
    for words in paths:
        print(f"| {words} | {' | '.join(f'{best[words, name] / unit:.2f}' for name in clients)} |")


def far_cursor(one: Any, kind: str) -> str:
    """A cursor after 30 pages of 100, or the last one."""
    cursor, path = f"{9:0>17}-{0:032}", f"/api/v1/{kind}?per_page=100"
    for _ in range(30):
        page = one.get(path).json()
        if page["next"] is None:
            break
        path = page["next"]
        cursor = path.partition("before=")[2].partition("&")[0]
    return cursor


def seconds(one: Any, path: str) -> float:
    began = time.perf_counter()
    answer = one.get(path)
    spent = time.perf_counter() - began
    if answer.status_code != 200:
        raise SystemExit(answer.content.decode())
    return spent


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 1_000_000)
