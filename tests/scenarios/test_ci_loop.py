"""CI that gates merges: the bot of docs/examples/ci_bot.py, and the page docs/integrations.md."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.gitclient import Git
from tests.programs import Program
from tests.server import ROOT, Server
from tests.waiting import eventually
from tests.webhooks.test_receiver_example import free_port

pytestmark = [pytest.mark.slow, pytest.mark.once]

LOCAL = {"WEBHOOK_ALLOW_HTTP": "true", "WEBHOOK_ALLOWED_NETS": "127.0.0.0/8"}
REPO = "/teams/acme/repos/api"
PULL = f"{REPO}/pulls/1"
PAGE = (ROOT / "docs" / "integrations.md").read_text().split("\n## ")[1]
ACCOUNT, *BLOCKS = re.findall(r"^ *```sh\n(.*?)^ *```$", PAGE, re.MULTILINE | re.DOTALL)
INSTALLATION = "&& python3 -m venv ../bot/venv && ../bot/venv/bin/pip install -q standardwebhooks"


class Loop:
    """A repository of alice's, whose `main` requires a status of a bot, and the bot's program."""

    def __init__(self, server: Server, folder: Path) -> None:
        self.alice = alice = server.api("alice")
        alice.post("/teams", name="Acme", slug="acme").gives(201)
        alice.post("/teams/acme/repos", name="Api", slug="api").gives(201)
        self.work = Git(folder / "work", f"{server.url}/teams/acme/api.git", server.token("alice"))
        self.push("main", "pass")
        alice.post("/teams/acme/bots", username="acme-ci").gives(201)
        tokens = "/teams/acme/bots/acme-ci/api-tokens"
        token = alice.post(tokens, name="ci", permission="write", repo_paths=["teams/acme/api"])
        kinds = ["pull-created", "pull-pushed"]
        hook = alice.post(f"{REPO}/webhooks", url="http://127.0.0.1:1", kinds=kinds).gives(201)
        self.hook = f"{REPO}/webhooks/{hook['uuid']}"
        self.bot = Program(
            folder / "bot",
            server,
            "alice",
            *("ci_bot.py", "0", "grep", "-q", "pass", "tests"),
            TOKEN=token.gives(201)["token"],
            SECRET=hook["secret"],
        )
        alice.post(
            f"{REPO}/protections",
            branch="main",
            required_approvals=0,
            required_statuses=["ci"],
            status_reporters=["acme-ci"],
        ).gives(201)

    def call_bot(self, starts: int) -> None:
        """Let the webhook call the bot, at the free port that it has after so many starts."""
        written = self.bot.log.read_text
        ports = eventually(
            lambda: re.findall(r"^Listening at port (\d+)$", written(), re.M)[starts - 1 :]
        )
        self.alice.patch(self.hook, url=f"http://127.0.0.1:{ports[0]}").gives()

    def push(self, branch: str, text: str) -> str:
        head = self.work.commit("tests", text)
        self.work("push", "--quiet", self.work.url, f"HEAD:{branch}")
        return head

    def pull(self) -> Any:
        return self.alice.get(PULL).gives()

    def auto_merge(self, head: str) -> None:
        self.alice.put(f"{PULL}/auto-merge", strategy="merge", expected_head_sha=head).gives()


def test_a_push_is_built_and_merged_once_its_status_is_green(tmp_path, new_server):
    with new_server(tmp_path, **LOCAL) as server:
        loop = Loop(server, tmp_path)
        with loop.bot as bot:
            loop.call_bot(starts=1)
            red = loop.push("topic", "fail")
            loop.alice.post(
                f"{REPO}/pulls", title="A", body="", source_branch="topic", target_branch="main"
            ).gives(201)
            loop.auto_merge(red)
            eventually(lambda: loop.pull()["checks"] == {"state": "failure", "sha": red})
            loop.alice.post(f"{PULL}/merge").fails(409, "statuses_required")
            bot.kill()
            green = loop.push("topic", "pass")
            assert loop.pull()["auto_merge"] is None  # a push ends it
            loop.auto_merge(green)
            eventually(lambda: loop.alice.get(loop.hook).gives()["consecutive_failures"])
            assert loop.pull()["status"] == "open"
            bot.start()
            loop.call_bot(starts=2)
            eventually(lambda: loop.pull()["status"] == "merged")
        assert loop.work("ls-remote", loop.work.url, "main")[:40] == loop.pull()["merge_commit_sha"]
        built = re.findall(r"^(\w{40}) (failure|success)$", bot.log.read_text(), re.M)
        assert set(built) == {(red, "failure"), (green, "success")}


def test_the_commands_of_the_page_run_the_whole_loop(tmp_path, new_server):
    with new_server(tmp_path, **LOCAL) as server:
        port = str(free_port())
        assert INSTALLATION in PAGE and "create_token olga" in ACCOUNT
        script = "".join(BLOCKS).replace(INSTALLATION, "").replace("8800", port)
        script = script.replace("http://127.0.0.1:8000", server.url)
        script = script.replace("venv/bin/python", sys.executable) + "\nkill %%\n"
        done = subprocess.run(
            ["timeout", "300", "bash", "-c", script],  # ends the bot too
            cwd=ROOT,
            env={"PATH": os.environ["PATH"], "TOKEN": server.token("alice"), "TMPDIR": tmp_path},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stdout
        statuses = re.findall(r"^\d{3}$", done.stdout, re.M)
        promised = re.findall(r" # (\d{3})$", "".join(BLOCKS), re.M)
        assert statuses == promised, done.stdout
        assert server.api("alice").get(PULL).gives()["status"] == "merged"
