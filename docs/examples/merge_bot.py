"""Merge each pull as soon as somebody approves it: `API=… TOKEN=… python3 merge_bot.py SCOPE`."""

import http.client
import json
import os
import sys
import time
import urllib.error
import urllib.request
from pathlib import Path
from urllib.parse import urlencode

SEEN = Path("last-event-id")


def ask(method, url, body=None):
    headers = {"Authorization": f"Bearer {os.environ['TOKEN']}", "Content-Type": "application/json"}
    data = None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(url, data, headers, method=method)
    return urllib.request.urlopen(request, timeout=60)  # three heartbeats


def events(last):
    query = {"scope": sys.argv[1], "kind": "review-created", "last_event_id": last}
    with ask("GET", f"{os.environ['API']}/tail-events?{urlencode(query)}") as stream:
        yield from (json.loads(line[6:]) for line in stream if line.startswith(b"data: "))


def handle(event):
    review = event["summary"]["api_url"]
    try:
        approved = json.load(ask("GET", review))
        if approved["status"] == "approved" and approved["commit_sha"]:
            guard = urlencode({"expected_head_sha": approved["commit_sha"]})
            ask("POST", f"{review.split('/reviews/')[0]}/merge?{guard}", {})
    except urllib.error.HTTPError as refused:
        code = json.load(refused)["error"]
        if refused.code >= 429 or refused.code == 401 or code == "merge_in_progress":
            raise  # not an answer about this pull: once more, later
        print(review, code, flush=True)


while True:
    wait = 1.0
    try:
        for event in events(SEEN.read_text() if SEEN.exists() else "0"):
            handle(event)  # then remember it: after a crash in between it is handled again
            Path("seen.new").write_text(str(event["id"]))
            os.replace("seen.new", SEEN)
    except urllib.error.HTTPError as refused:
        if refused.code in (400, 401, 403, 404, 422):
            raise  # no token, no access, no such scope: waiting changes nothing
        wait = float(refused.headers.get("Retry-After") or 5)
    except (OSError, http.client.HTTPException):
        pass  # cut off, or not there yet: go on after the last event
    time.sleep(wait)
