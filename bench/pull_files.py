"""The tab Files of a pull of 300 files and 10,000 changed lines, in process: the compressed size of
the first page, and the processor time once its rows are cached. See bench/README.md.
"""

from __future__ import annotations

import statistics
import sys
import time
from uuid import uuid4

from django.test import Client
from in_process import FOLDER, migrate

from apps.accounts.access import access_to_user
from apps.accounts.actions import create_user
from apps.accounts.principal import Principal
from apps.pulls.actions import create_pull, mark_file
from apps.pulls.models import Pull
from apps.pulls.versions import files_of, get_version
from apps.repos.access import RepoAccess, access_to
from apps.repos.actions import create_repo
from apps.site.models import SiteSettings
from tests.browse.code import code_of, push

FILES, LINES, TURNS = 300, 17, 15
BYTES_MAX, SECONDS_MAX = 200_000, 0.1
LINE = '    value_{n} = compute({n}, "{word} {file}", key=None, size=width * {n} + 1)\n'


def main() -> None:
    migrate()
    SiteSettings.load()
    ada = create_user(principal=None, username="ada", password=uuid4().hex)
    space = access_to_user(Principal(ada), ada)
    repo = create_repo(access=space, name="Api", slug="api", visibility="public")
    code = code_of(repo)
    before = code.commit_with(contents("old"))
    push(repo, "refs/heads/main", before, by=ada)
    push(repo, "refs/heads/topic", code.commit_with(contents("new"), before), by=ada)
    access = access_to(Principal(ada), repo)
    pull = create_pull(
        access=access, title="Many", body="", source_branch="topic", target_branch="main"
    )
    client = Client()
    client.force_login(ada)
    address = f"/{repo.path}/pulls/{pull.number}/files"
    results = [measure(client, "all files", address)]
    results.append(measure(client, "side by side", f"{address}?view=split"))
    mark_half(access, pull)
    results.append(measure(client, "half of them viewed", address))
    if not all(results):
        sys.exit("over the limits")


def contents(word: str) -> dict[bytes, bytes]:
    return {
        f"src/part{file % 20}/module{file}.py".encode(): "".join(
            f"def f{n}():\n    pass\n\n\n" * 3 + LINE.format(n=n, word=word, file=file)
            for n in range(LINES)
        ).encode()
        for file in range(FILES)
    }


def mark_half(access: RepoAccess, pull: Pull) -> None:
    version = get_version(pull, None)
    for file in files_of(version, "bench").files[: FILES // 2] if version else ():
        mark_file(access=access, pull=pull, file=file, is_viewed=True)


def measure(client: Client, name: str, address: str) -> bool:
    """Print the size and the time of a page; whether both are within the limits."""
    sizes, seconds = set(), []
    for turn in range(TURNS + 2):
        begin = time.process_time()
        response = client.get(address, headers={"Accept-Encoding": "gzip"})
        took = time.process_time() - begin
        if response.status_code != 200:
            sys.exit(f"{name}: {response.status_code}")
        if turn >= 2:
            seconds.append(took)
            sizes.add(len(response.content))
    size, middle = max(sizes), statistics.median(seconds)
    print(f"{name}: {size / 1000:.0f} KB compressed, {middle * 1000:.0f} ms of processor time")
    return size <= BYTES_MAX and middle <= SECONDS_MAX


if __name__ == "__main__":
    main()
    FOLDER.cleanup()
