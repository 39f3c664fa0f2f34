"""Rejects clients that ignore Retry-After on expensive git endpoints, without any query.

Without this, a crawler that ignores it makes requests of others take 3.5 times as long under
`bin/serve`, and 9.8 times under gunicorn with threads: `bench/crawler.py --rude`.
"""

from __future__ import annotations

import hashlib
import math
import re
import time
from collections import OrderedDict
from dataclasses import dataclass
from threading import BoundedSemaphore, Lock
from time import monotonic

from django.conf import settings
from django.http import HttpRequest
from django.http.response import HttpResponseBase

from apps.core.errors import PLAIN, Unavailable
from apps.core.middleware import Next, error_answer
from apps.core.requests import UNDER_ASGI, address_of

SLOW = re.compile(r"/api/v1/(?:teams|users)/[^/]+/repos/[^/]+/(?:archive|blame|compare)(?:/|\Z)")
MOST_REFUSED = 8
"""Most normal 503s for a caller within one `Retry-After`. There may be several, because a program
with several connections may have sent its requests before it read the first 503.
"""
MOST_CALLERS = 4096
"""Most callers that are remembered."""
MOST_DELAYED = 32
"""Most requests that are delayed at the same time."""


@dataclass
class Busy:
    """The number of 503s that a caller got, and the end of the first one's `Retry-After`."""

    until: float
    count: int = 0


class RecentBusy:
    """The callers that recently got a 503 from this process."""

    def __init__(self) -> None:
        self.by_caller: OrderedDict[bytes, Busy] = OrderedDict()
        self.lock = Lock()

    def seconds_left(self, caller: bytes) -> float:
        """Seconds for which this caller is rejected; 0 if it has not got too many 503s."""
        with self.lock:
            busy = self.by_caller.get(caller)
        if busy is None or busy.count < MOST_REFUSED:
            return 0.0
        return max(0.0, busy.until - monotonic())

    def note(self, caller: bytes, seconds: float) -> None:
        """Count a 503 with this `Retry-After`, in seconds."""
        now = monotonic()
        with self.lock:
            busy = self.by_caller.setdefault(caller, Busy(now + seconds))
            if busy.until <= now:
                busy.until, busy.count = now + seconds, 0
            busy.count += 1
            self.by_caller.move_to_end(caller)
            if len(self.by_caller) > MOST_CALLERS:
                self.by_caller.popitem(last=False)


recent_busy = RecentBusy()
_delays = BoundedSemaphore(MOST_DELAYED)


def reject_early_retries(get_response: Next) -> Next:
    """Middleware that answers 503, without queries, to callers that do not wait."""

    def answer(request: HttpRequest) -> HttpResponseBase:
        if not SLOW.match(request.path_info):
            return get_response(request)
        caller = caller_of(request)
        if seconds := recent_busy.seconds_left(caller):
            delay(request, seconds)
            headers = {"Retry-After": str(math.ceil(seconds))}
            return error_answer(Unavailable(*PLAIN[503], headers=headers))
        response = get_response(request)
        if response.status_code == 503 and (retry_after := response.get("Retry-After")):
            recent_busy.note(caller, float(retry_after))
        return response

    return answer


def delay(request: HttpRequest, seconds: float) -> None:
    """Delay a rejection by at most a second, because such clients repeat answered requests at once.

    Only under ASGI, which adds a thread for requests that wait.
    """
    if UNDER_ASGI in request.META and _delays.acquire(blocking=False):
        try:
            time.sleep(min(seconds, 1.0))
        finally:
            _delays.release()


def caller_of(request: HttpRequest) -> bytes:
    """A key of the caller without a query: a hash of their token or session, which need not be
    valid, or of their address.
    """
    session = request.COOKIES.get(settings.SESSION_COOKIE_NAME)
    credential = request.headers.get("Authorization") or session
    address = address_of(request.META, settings.TRUSTED_PROXIES)
    text = (credential or address).encode("utf-8", "replace")
    return hashlib.blake2b(text, digest_size=16).digest()
