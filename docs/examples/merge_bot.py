"""Merge each pull as soon as somebody approves it: `API=… TOKEN=… python3 merge_bot.py SCOPE`."""

import json
import sys
import urllib.error
from urllib.parse import urlencode

from guildhall import ask, follow


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


follow(handle, scope=sys.argv[1], kind="review-created")
