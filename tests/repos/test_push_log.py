"""The server's log says why a push was refused, so that operators can tell."""

from __future__ import annotations

import logging

import pytest

from apps.git.protocol import ZERO, Command
from apps.repos.http.push import MOST_LOGGED, receive
from apps.site.models import DailyCount
from tests.git.scratch import push_body
from tests.principals import access_of
from tests.repos.test_git_http import api_path
from tests.waiting import eventually


@pytest.mark.one_server
def test_a_line_of_the_log_names_repository_person_ref_and_reason(server, path, ours):
    server.api("alice").post(f"{api_path(path)}/protections", branch="main").gives(201)
    ours.commit()
    ours.fails("push", ours.url, "main")
    line = f"Refused push to {path} by alice: 'refs/heads/main' (protected branch)"
    eventually(lambda: line in server.log)
    assert "ght_" not in line and f"{line}," not in server.log


@pytest.mark.one_server
def test_a_line_of_the_log_says_why_a_whole_push_was_refused(server, path, ours):
    names = {"name": "archived", "slug": path.rpartition("/")[2]}
    server.api("alice").put(api_path(path), **names, is_archived=True).gives()
    ours.commit()
    ours.fails("push", ours.url, "main")
    eventually(lambda: f"Refused push to {path} by alice: 409 repo_archived" in server.log)


@pytest.mark.django_db(transaction=True)
def test_no_name_of_a_ref_forges_a_line_and_many_are_counted(team_repo, other, bob, caplog):
    tip = other.commit({})
    forged = Command(ZERO, tip, "refs/heads/x\u2028WARNING\u202e")
    others = [Command(ZERO, tip, f"refs/notes/{n}") for n in range(MOST_LOGGED + 4)]
    with caplog.at_level(logging.INFO, "apps.repos.http.push"):
        receive(access=access_of(bob, team_repo), body=iter([push_body(other, [forged, *others])]))
    [line] = [record.getMessage() for record in caplog.records if "Refused" in record.msg]
    assert line.isascii() and line.endswith(" and 5 more")
    assert r"\u2028" in line
    assert DailyCount.objects.get().refused_pushes == 1


def test_a_whole_push_that_is_refused_is_counted(client, make, team_repo, carol):
    address = "/teams/acme/api.git/info/refs?service=git-receive-pack"
    for person, status, count in ((None, 401, 0), (carol, 403, 1), (carol, 403, 2)):
        token = {"Authorization": f"Bearer {make.token(person)}"} if person else {}
        assert client.get(address, headers=token).status_code == status
        assert sum(DailyCount.objects.values_list("refused_pushes", flat=True)) == count
