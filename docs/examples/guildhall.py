"""Requests to the API, and a stream of events that resumes. The other examples import it.

`API` is the address of the API, such as `https://guildhall.example.org/api/v1`, and `TOKEN` a
token. The id of the last handled event is stored in the file `last-event-id` of the working folder.
"""

import http.client
import json
import os
import time
import urllib.error
import urllib.request
from pathlib import Path
from urllib.parse import urlencode, urlsplit

LAST = Path("last-event-id")


def ask(method, url, body=None):
    headers = {"Authorization": f"Bearer {os.environ['TOKEN']}", "Content-Type": "application/json"}
    data = None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(url, data, headers, method=method)
    return urllib.request.urlopen(request, timeout=60)  # three heartbeats


def follow(handle, **query):
    """Call `handle` with each event that matches `query`, in order. It does not return.

    An event is remembered when `handle` has returned. After a crash before that, or after an
    OSError of `handle`, the event comes again.
    """
    while True:
        wait = 1.0
        try:
            for event in events({**query, "last_event_id": last()}):
                handle(event)
                remember(event)
        except urllib.error.HTTPError as refused:
            if refused.code in (400, 401, 403, 404, 422):
                raise  # no token, no access, no such scope: waiting changes nothing
            wait = float(refused.headers.get("Retry-After") or 5)
        except (OSError, http.client.HTTPException):
            pass  # cut off, or not there yet: go on after the last event
        time.sleep(wait)


def events(query):
    parameters = urlencode(query, doseq=True)
    with ask("GET", f"{os.environ['API']}/tail-events?{parameters}") as stream:
        yield from (json.loads(line[6:]) for line in stream if line.startswith(b"data: "))


def skip_history(**query):
    """Let the first run of a program begin after the newest event instead of at the beginning."""
    if not LAST.exists():
        parameters = urlencode({**query, "per_page": 1}, doseq=True)
        page = json.load(ask("GET", f"{os.environ['API']}/events?{parameters}"))
        remember(page["results"][0] if page["results"] else {"id": 0})


def last():
    return LAST.read_text() if LAST.exists() else "0"


def remember(event):
    new = LAST.with_suffix(".new")
    new.write_text(str(event["id"]))
    os.replace(new, LAST)


def site():
    """The address of the site, without the path of the API."""
    return urlsplit(os.environ["API"])._replace(path="").geturl()


def git_environment():
    """The environment in which git sends the token to the site. No command line contains it."""
    return {
        **os.environ,
        "GIT_CONFIG_COUNT": "1",
        "GIT_CONFIG_KEY_0": f"http.{site()}/.extraHeader",
        "GIT_CONFIG_VALUE_0": f"Authorization: Bearer {os.environ['TOKEN']}",
    }
