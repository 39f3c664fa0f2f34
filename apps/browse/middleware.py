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
from django.core.handlers.asgi import ASGIRequest
from django.http import HttpRequest
from django.http.response import HttpResponseBase

from apps.core.errors import PLAIN, Unavailable
from apps.core.middleware import Next, error_answer
from apps.core.requests import address_of

SLOW = re.compile(r"/api/v1/(?:teams|users)/[^/]+/repos/[^/]+/(?:archive|blame|compare)(?:/|\Z)")
MOST_REFUSED = 8
"""503s that a caller gets within one `Retry-After` before the next ones come from here: a program
with several connections may be told on each of them, before any of them has read it.
"""
MOST_CALLERS = 4096
MOST_HELD_UP = 32


@dataclass
class Told:
    """How often a caller was told to come back later, and until when that is."""

    until: float
    times: int = 0


class Impatient:
    """Who was told so lately in this process."""

    def __init__(self) -> None:
        self.told: OrderedDict[bytes, Told] = OrderedDict()
        self.lock = Lock()

    def seconds_left(self, caller: bytes) -> float:
        """How long a caller is refused who was told too often; 0 for others."""
        with self.lock:
            told = self.told.get(caller)
        if told is None or told.times < MOST_REFUSED:
            return 0.0
        return max(0.0, told.until - monotonic())

    def note(self, caller: bytes, seconds: float) -> None:
        """A caller was told to come back after so many seconds."""
        now = monotonic()
        with self.lock:
            told = self.told.setdefault(caller, Told(now + seconds))
            if told.until <= now:
                told.until, told.times = now + seconds, 0
            told.times += 1
            self.told.move_to_end(caller)
            if len(self.told) > MOST_CALLERS:
                self.told.popitem(last=False)


impatient = Impatient()
_held_up = BoundedSemaphore(MOST_HELD_UP)


def refuse_impatient(get_response: Next) -> Next:
    """Answer 503 before anything is looked up to whoever does not wait as they are told."""

    def answer(request: HttpRequest) -> HttpResponseBase:
        if not SLOW.match(request.path_info):
            return get_response(request)
        caller = caller_of(request)
        if seconds := impatient.seconds_left(caller):
            hold_up(request, seconds)
            headers = {"Retry-After": str(math.ceil(seconds))}
            return error_answer(Unavailable(*PLAIN[503], headers=headers))
        response = get_response(request)
        if response.status_code == 503 and (told := response.get("Retry-After")):
            impatient.note(caller, float(told))
        return response

    return answer


def hold_up(request: HttpRequest, seconds: float) -> None:
    """Have such a caller wait for the refusal, for a second at most, where a thread is there for
    each request: what is answered at once is asked again at once.
    """
    if isinstance(request, ASGIRequest) and _held_up.acquire(blocking=False):
        try:
            time.sleep(min(seconds, 1.0))
        finally:
            _held_up.release()


def caller_of(request: HttpRequest) -> bytes:
    """Who calls, as far as can be told without looking anything up: the token or session that they
    send, which need not be a good one, or their address.
    """
    session = request.COOKIES.get(settings.SESSION_COOKIE_NAME)
    sent = request.headers.get("Authorization") or session
    address = address_of(request.META, settings.TRUSTED_PROXIES)
    return hashlib.blake2b((sent or address).encode("utf-8", "replace"), digest_size=16).digest()
