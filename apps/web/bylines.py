"""The author and the pusher of a commit, as pages name them.

A commit's author is text of its writer, so an account is shown for it only if a push is known.
"""

from __future__ import annotations

from typing import Any

from apps.browse.pushers import Push


def shown_person(
    name: str, email: str, accounts: dict[str, Any], push: Push | None
) -> dict[str, Any]:
    """A person whom a commit names, for `_signature.html` and `_pusher.html`.

    `accounts` as `accounts_of` has them; `push`: the commit's first push. `account` is the account
    with this address, which has its face if it pushed the commit itself. `pusher` is the push if
    another account made it.
    """
    account = accounts.get(email.lower()) if push else None
    is_pusher = bool(push and account and account.uuid == push.uuid)
    is_named = is_pusher or bool(push and account is None and push.username == name)
    return {
        "name": name,
        "account": account,
        "is_pusher": is_pusher,
        "pusher": None if is_named else push,
    }
