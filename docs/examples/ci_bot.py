"""Build each new commit, and report its status.

`API=… TOKEN=… SECRET=whsec_… python3 ci_bot.py PORT COMMAND…` receives a webhook at PORT, runs
COMMAND in a checkout of each commit that was pushed, and reports the context `ci`. It needs
`pip install standardwebhooks`. COMMAND runs code of everybody who can open a pull: use a container.
"""

import json
import os
import subprocess
import sys
import tempfile
import threading
import time
import urllib.error
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

from guildhall import ask, git_environment, site
from standardwebhooks import Webhook, WebhookVerificationError

PORT, *COMMAND = sys.argv[1:]
QUEUE = Path("queue")
VERIFIER = Webhook(os.environ["SECRET"])
KINDS = ("branch-created", "branch-pushed", "pull-created", "pull-pushed")


class Receiver(BaseHTTPRequestHandler):
    """Stores each delivery in the queue before it answers: from then on it cannot be lost."""

    def do_POST(self):
        body = self.rfile.read(int(self.headers["Content-Length"]))
        try:
            headers = {name.lower(): value for name, value in self.headers.items()}
            VERIFIER.verify(body, headers)
        except WebhookVerificationError:
            return self.answer(401)
        part = QUEUE / f"{self.headers['webhook-id']}.part"
        part.write_bytes(body)
        os.replace(part, part.with_suffix(".json"))  # a second delivery replaces the first
        self.answer(204)

    def answer(self, status):
        self.send_response(status)
        self.end_headers()


def build(event):
    """Run COMMAND for the new commit of this event. A second time does no harm."""
    sha = event["data"].get("head_sha") or event["data"].get("after")
    if event["kind"] not in KINDS or not sha:
        return
    report(event, sha, "pending")
    try:
        passed = run(f"{site()}/{event['repo_path']}.git", sha)
    except subprocess.SubprocessError as failed:  # no checkout, or no end
        print(failed, flush=True)
        return report(event, sha, "error")
    report(event, sha, "success" if passed else "failure")


def report(event, sha, state):
    kind, owner, name = event["repo_path"].split("/")
    url = f"{os.environ['API']}/{kind}/{owner}/repos/{name}/commits/{sha}/statuses"
    ask("POST", url, {"context": "ci", "state": state})
    print(sha, state, flush=True)


def run(url, sha):
    """Whether COMMAND ends with 0 in a checkout of the commit. It does not get the secrets."""
    environment = {k: v for k, v in os.environ.items() if k not in ("TOKEN", "SECRET")}
    with tempfile.TemporaryDirectory() as folder:
        for arguments in (["init", "-q"], ["fetch", "-q", "--depth=1", url, sha]):
            subprocess.run(["git", *arguments], cwd=folder, env=git_environment(), check=True)
        subprocess.run(["git", "checkout", "-q", "FETCH_HEAD"], cwd=folder, check=True)
        return subprocess.run(COMMAND, cwd=folder, env=environment, timeout=3600).returncode == 0


def work():
    """Build each commit of the queue, oldest first. If Guildhall is away, stop until later."""
    for path in sorted(QUEUE.glob("*.json"), key=lambda path: path.stat().st_mtime_ns):
        try:
            build(json.loads(path.read_text())["data"])
        except urllib.error.HTTPError as refused:
            print(path.name, refused.read().decode(), flush=True)
            if refused.code == 429 or refused.code >= 500:
                return
        except OSError as failed:
            print(path.name, failed, flush=True)
            return
        path.unlink()


QUEUE.mkdir(exist_ok=True)
server = ThreadingHTTPServer(("", int(PORT)), Receiver)
print("Listening at port", server.server_port, flush=True)
threading.Thread(target=server.serve_forever).start()
while True:
    work()
    time.sleep(1)
