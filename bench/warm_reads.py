"""Time of reading a file, a folder and a raw file, with a git that stays and with one to start.

In process, on SQLite, in a packed repository of 2,000 files. The two take turns; medians, and their
ratio. See bench/README.md.
"""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import time

from django.test import Client
from in_process import migrate

from apps.accounts.actions import create_token, create_user
from apps.accounts.principal import Principal
from apps.git import batch, run
from apps.repos.access import access_to_owner
from apps.repos.actions import create_repo
from apps.repos.models import Repo
from apps.repos.pushes import reconcile

ROUNDS, FOLDERS, FILES, LINES = int(os.environ.get("ROUNDS", "100")), 40, 50, 100
READS = {
    "a file": "contents/d07/f07",
    "a folder": "tree/d07",
    "a folder with sizes": "tree/d07?sizes=true",
    "a raw file": "raw/d07/f07",
}


def main() -> None:
    migrate()
    alice = create_user(principal=None, username="alice")
    space = access_to_owner(Principal(alice), alice)
    repo = create_repo(access=space, name="Code", slug="code", visibility="public")
    fill(repo)
    token = create_token(principal=None, owner=alice, name="bench")[1]
    client = Client(headers={"Authorization": f"Bearer {token}"})
    print("| | a git to start | a git that stays | ratio |\n|---|---|---|---|")
    for name, end in READS.items():
        took = measure(client, f"/api/v1/users/alice/repos/code/{end}")
        cold, warm = (1000 * statistics.median(took[stays]) for stays in (False, True))
        print(f"| {name} | {cold:.1f} ms | {warm:.1f} ms | {warm / cold:.2f} |")


def fill(repo: Repo) -> None:
    """Give the repository one commit, in a pack."""
    lines = ["commit refs/heads/main", "committer A <a@example.org> 1 +0000", "data 1", "x"]
    for number in range(FOLDERS * FILES):
        path = f"d{number // FILES:02}/f{number % FILES:02}"
        text = "".join(f"line {line} of {path}\n" for line in range(LINES))
        lines += [f"M 644 inline {path}", f"data {len(text)}", text]
    command = ["git", f"--git-dir={repo.git.path}", "-c", "fastimport.unpackLimit=1", "fast-import"]
    subprocess.run([*command, "--quiet"], input="\n".join(lines), text=True, check=True)
    reconcile(repo=repo)


def measure(client: Client, path: str) -> dict[bool, list[float]]:
    """Seconds of each read with a git that stays (True), and with one to start."""
    took: dict[bool, list[float]] = {True: [], False: []}
    for number in range(2 * ROUNDS + 4):
        stays = bool(number % 2)
        if not stays:
            batch.end_idle()
        gits, begin = run.spawned, time.perf_counter()
        answer = client.get(path)
        seconds = time.perf_counter() - begin
        if answer.status_code != 200 or stays == (run.spawned > gits):
            sys.exit(f"{path}: {answer.status_code}, {run.spawned - gits} gits started")
        if number >= 4:
            took[stays].append(seconds)
    return took


if __name__ == "__main__":
    main()
