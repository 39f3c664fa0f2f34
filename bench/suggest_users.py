"""Time of `/suggest-users` and `/users` with 100,000 people: median, maximum and query plans.

.venv/bin/python bench/suggest_users.py, or with the DATABASE_URL of an empty database, which is
filled. Each request goes through the whole of Django.
"""

from __future__ import annotations

import statistics
import time

from django.db import connection
from django.test import Client
from in_process import migrate

from apps.accounts.actions import create_token, create_user
from apps.accounts.models import User

PEOPLE = 100_000
ROUNDS = 50
FIRST = ["anna", "bo", "cem", "dana", "eli", "fay", "gus", "hana", "ivo", "jo"]


def fill() -> str:
    """People whose names share beginnings; returns the token of another person."""
    migrate()
    for start in range(0, PEOPLE, 5000):
        User.objects.bulk_create(
            User(
                username=f"{FIRST[n % 10]}{n}",
                username_key=f"{FIRST[n % 10]}{n}",
                display_name=f"{FIRST[n // 7 % 10]} number {n}",
                display_name_key=f"{FIRST[n // 7 % 10]} number {n}",
                email=f"{n}@example.org",
                email_key=f"{n}@example.org",
            )
            for n in range(start, start + 5000)
        )
    with connection.cursor() as cursor:
        cursor.execute("ANALYZE")
    asker = create_user(principal=None, username="asker")
    return create_token(principal=None, owner=asker, name="bench")[1]


def measure(path: str, token: str | None) -> None:
    client, taken = Client(SERVER_NAME="localhost"), []
    headers = {"Authorization": f"Bearer {token}"} if token else {}
    for _ in range(ROUNDS):
        begin = time.perf_counter()
        answer = client.get(f"/api/v1{path}", headers=headers)
        taken.append(1000 * (time.perf_counter() - begin))
        if answer.status_code != 200:
            raise SystemExit(answer.content)
    who = "known" if token else "anonymous"
    print(f"{statistics.median(taken):7.1f} {max(taken):7.1f}  {who:9} {path}")


if __name__ == "__main__":
    token = fill()
    print(f"{connection.vendor}, {User.objects.count()} people: median, slowest (ms)")
    for path in ("/suggest-users?name=an", "/suggest-users?name=anna77", "/suggest-users?name=zz"):
        measure(path, None)
        measure(path, token)
    measure("/suggest-users?email=77777@example.org", token)
    measure("/users", token)
    measure("/users?search=7777", token)
    for name in ("username", "display_name"):
        print(User.objects.filter(is_active=True).beginning(name, "anna77")[:5].explain())
