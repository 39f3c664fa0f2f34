"""The event scope `pull:teams/<t>/<r>/<n>` and `pull:users/<u>/<r>/<n>`: a pull and its thread."""

from __future__ import annotations

from apps.accounts.principal import Principal
from apps.core.errors import plain_error
from apps.events.models import Key
from apps.pulls.models import Pull
from apps.threads.scopes import ThreadEventScope


class PullEventScope(ThreadEventScope):
    """That of the companion thread, by which the log knows the pull; 404 for other threads."""

    def key(self, principal: Principal, text: str) -> Key:
        key = super().key(principal, text)
        if not Pull.objects.filter(thread=key.value).exists():
            raise plain_error(404)
        return key
