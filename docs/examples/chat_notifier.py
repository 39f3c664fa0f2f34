"""Write what happens into a chat: `API=… TOKEN=… CHAT=… python3 chat_notifier.py SCOPE [KIND…]`.

CHAT is the address of an incoming webhook of the chat (Mattermost, Rocket.Chat, Slack, Zulip's
Slack-compatible one): it takes a JSON object with a `text`.
"""

import json
import os
import sys
import urllib.request

from guildhall import follow, skip_history

SCOPE, *KINDS = sys.argv[1:]


def sentence(event):
    """For example: `alice: pull-created in teams/acme/api, "Add a gate" http://…`."""
    summary = event["summary"]
    title = f', "{summary["thread_title"]}"' if summary["thread_title"] else ""
    place = event["repo_path"] or event["team_slug"] or "the site"
    link = f" {summary['web_url']}" if summary["web_url"] else ""
    return f"{event['actor_user_username'] or 'Somebody'}: {event['kind']} in {place}{title}{link}"


def notify(event):
    """Write to the chat. If it is away, the program waits and goes on with the same event."""
    body = json.dumps({"text": sentence(event)}).encode()
    request = urllib.request.Request(os.environ["CHAT"], body, {"Content-Type": "application/json"})
    try:
        urllib.request.urlopen(request, timeout=15).close()
    except OSError as failed:
        print("The chat does not answer:", failed, flush=True)
        raise ConnectionError("the chat does not answer") from failed


skip_history(scope=SCOPE)
follow(notify, scope=SCOPE, kind=KINDS)
