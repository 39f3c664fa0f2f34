"""A push moves a ref only from where it is: what two pushes under way say cannot make a loop."""

from __future__ import annotations

import pytest

from apps.git.protocol import FLUSH, pkt
from apps.repos.http.push import accept_refs, read_commands, stale_moves
from apps.repos.models import PushJournal
from tests.git.scratch import Scratch
from tests.principals import access_of

NOWHERE = "d" * 40


def begin_push(by, old: str, new: str) -> dict[str, str]:
    """The command list of a push whose pack has not come yet; returns what is refused."""
    line = pkt(f"{old} {new} refs/heads/main\0report-status".encode())
    request, _ = read_commands(iter([line + FLUSH]))
    _, refused = accept_refs(by, request, stale_moves(by.repo, request))
    return refused


@pytest.mark.django_db
def test_a_move_has_to_begin_where_the_ref_is(make, team_repo, alice):
    """Two such steps would be a way from the ref's commit back to it, by a push to nowhere."""
    store = Scratch(team_repo.git.path)
    tip = store.commit({"a": b"1"})
    assert store.update_ref("refs/heads/main", tip, "0" * 40)
    by = access_of(alice, team_repo)
    assert begin_push(by, tip, NOWHERE) == {}
    reason = "this is not what is there now"
    assert begin_push(by, NOWHERE, tip) == {"refs/heads/main": reason}
    assert begin_push(by, NOWHERE, "0" * 40) == {"refs/heads/main": reason}
    assert list(PushJournal.objects.values_list("old", "new")) == [(tip, NOWHERE)]
