"""A 404 names the part of the path that does not exist."""

from __future__ import annotations

import pytest

pytestmark = pytest.mark.once

UUID = "00000000-0000-4000-8000-000000000000"
REPO = "/teams/acme/repos/private"


@pytest.mark.parametrize(
    ("method", "path", "detail"),
    [
        ("GET", "/teams/nobody", 'There is no team "nobody".'),
        ("GET", "/teams/nobody/repos/x", 'There is no team "nobody".'),
        ("PUT", "/teams/nobody/repos/x", 'There is no team "nobody".'),
        ("GET", "/teams/acme/repos/x", 'There is no repository "x" in teams/acme.'),
        ("PUT", "/teams/acme/repos/x", 'There is no repository "x" in teams/acme.'),
        ("GET", "/teams/acme/repos/x/threads/1", 'There is no repository "x" in teams/acme.'),
        ("GET", "/users/nobody/repos/x", 'There is no user "nobody".'),
        ("GET", "/users/alice/repos/x", 'There is no repository "x" in users/alice.'),
        ("GET", "/users/nobody", 'There is no user "nobody".'),
        ("GET", "/teams/acme/members/nobody", 'There is no member "nobody" in acme.'),
        ("GET", f"{REPO}/threads/99", "There is no thread 99 in teams/acme/private."),
        ("GET", f"{REPO}/threads/99/replies/1", "There is no thread 99 in teams/acme/private."),
        ("GET", f"{REPO}/threads/1/replies/99", "There is no reply 99 in this thread."),
        ("GET", f"{REPO}/pulls/99", "There is no pull 99 in teams/acme/private."),
        ("GET", f"{REPO}/protections/{UUID}", f'There is no protection "{UUID}" in '),
        ("GET", f"/rate-limits/{UUID}", f'There is no rate limit "{UUID}".'),
        ("GET", f"/uploads/{UUID}", f'There is no upload "{UUID}".'),
        ("GET", "/events/999999999", "There is no event 999999999."),
        ("GET", "/events?scope=user:nobody", 'There is no user "nobody".'),
    ],
)
def test_a_404_says_what_is_not_there(sample, db, method, path, detail):
    assert detail in sample.api("sam").send(method, path).fails(404, "not_found")
