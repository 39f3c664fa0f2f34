"""manage.py create_user, create_token, list_tokens, revoke_token, restore_deleted."""

import io
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from django.core.management import CommandError, call_command

from apps.accounts.actions import create_token
from apps.accounts.models import ApiToken, User
from tests.api import Api
from tests.databases import connected_to
from tests.principals import principal_of

ROOT = Path(__file__).resolve().parents[2]
NOBODYS = "00000000-0000-4000-8000-000000000000"


@pytest.fixture
def manage(db):
    """`manage("create_user", "dave")` returns the output of the command without its line end."""

    def run(*arguments):
        printed = io.StringIO()
        call_command(*arguments, stdout=printed)
        return printed.getvalue().removesuffix("\n")

    return run


REFUSED = [
    (["create_user", "alice"], '"alice" is taken'),
    (["create_user", "ALICE"], '"ALICE" is taken'),
    (["create_user", "self"], "username: "),
    (["create_user", "two words"], "username: "),
    (["create_user", "dave", "--email", "dave"], "valid email"),
    (["create_token", "nobody", "--name", "laptop"], 'no user "nobody"'),
    (["create_token", "two\nlines", "--name", "laptop"], r'no user "two\nlines"'),
    (["create_token", "alice", "--name", " "], "name: May not be blank."),
    (["create_token", "alice", "--name", "x" * 256], "name: "),
    (["create_token", "alice", "--name", "laptop", "--expires-in", "soon"], "a duration such as"),
    (["create_token", "alice", "--name", "laptop", "--expires-in", "0s"], "in the future"),
    (["create_token", "alice", "--name", "laptop", "--expires-in", "11y"], "at most 10 years"),
    (["list_tokens", "nobody"], 'no user "nobody"'),
    (["revoke_token", NOBODYS], f"no token {NOBODYS}"),
    (["revoke_token", "laptop"], "UUID"),
    (["restore_deleted", "teams/acme"], "no deletion of teams/acme"),
]


def test_a_command_that_cannot_do_its_work_says_so_in_one_line(manage, alice):
    before = ApiToken.objects.count()
    for arguments, reason in REFUSED:
        with pytest.raises(CommandError) as refusal:
            manage(*arguments)
        assert reason in str(refusal.value) and "\n" not in str(refusal.value), arguments
    assert (User.objects.count(), ApiToken.objects.count()) == (1, before)


@pytest.fixture
def shell(tmp_path):
    """`shell("migrate")` runs manage.py in a process of its own, with a database of its own."""
    environment = {"PATH": os.environ["PATH"], "DATA_DIR": str(tmp_path)}

    def run(*arguments):
        command = [sys.executable, ROOT / "manage.py", *arguments]
        ended = subprocess.run(command, env=environment, capture_output=True, text=True)
        return ended.returncode, ended.stdout, ended.stderr

    return run


def test_where_there_are_no_tables_the_one_line_says_what_makes_them(manage, tmp_path):
    with connected_to(tmp_path / "empty.db"), pytest.raises(CommandError) as refusal:
        manage("revoke_token", NOBODYS)
    assert "manage.py migrate" in str(refusal.value) and "\n" not in str(refusal.value)


@pytest.mark.slow
@pytest.mark.once
def test_the_shell_sees_the_line_on_standard_error_and_a_status(shell, tables, tmp_path):
    """tests/events/test_serve.py tries the same with `serve`."""
    code, _, said = shell("revoke_token", NOBODYS)
    assert code == 1 and said.count("\n") == 1 and "manage.py migrate" in said
    shutil.copy(tables, tmp_path / "guildhall.db")
    said = f"CommandError: There is no token {NOBODYS}.\n"
    assert shell("revoke_token", NOBODYS) == (1, "", said)


def test_a_person_is_made_who_may_be_staff(manage, events):
    with events("user-joined"):
        assert manage("create_user", "Dave", "--email", "dave@example.org") == "Created Dave."
    dave = User.objects.get(username_key="dave")
    assert (dave.email, dave.is_staff, dave.is_superuser) == ("dave@example.org", False, False)
    assert not dave.has_usable_password()
    manage("create_user", "erin", "--staff")
    assert User.objects.get(username="erin").is_staff


def test_a_password_can_be_given_on_standard_input(manage, monkeypatch):
    monkeypatch.setattr(sys, "stdin", io.StringIO("correct horse\nignored\n"))
    manage("create_user", "dave", "--password-stdin")
    assert User.objects.get(username="dave").check_password("correct horse")


def test_a_password_from_standard_input_has_to_be_a_good_one(manage, monkeypatch):
    for typed in ("", "\n", "short\n", "password\n"):
        monkeypatch.setattr(sys, "stdin", io.StringIO(typed))
        with pytest.raises(CommandError, match=r"^password: "):
            manage("create_user", "dave", "--password-stdin")
    assert not User.objects.exists()


def test_a_token_is_all_that_is_printed_and_works(manage, alice, client):
    text = manage("create_token", "Alice", "--name", "laptop", "--expires-in", "30d")
    assert text.startswith("ght_") and "\n" not in text
    answer = client.get("/api/v1/api-tokens/self", headers={"Authorization": f"Bearer {text}"})
    assert answer.json()["name"] == "laptop" and answer.json()["expires_at"] is not None


def test_tokens_are_listed_without_secrets_and_revoked_by_uuid(manage, alice, bob):
    text = manage("create_token", "bob", "--name", "laptop")
    token = ApiToken.objects.get(name="laptop")
    assert "laptop" in manage("list_tokens") and "laptop" not in manage("list_tokens", "alice")
    assert text not in manage("list_tokens", "bob")
    assert manage("revoke_token", str(token.uuid)) == f"Revoked {token.token_prefix}… of bob."
    token.refresh_from_db()
    assert token.revoked_at is not None
    assert str(token.uuid) in manage("list_tokens", "bob")
    assert "revoked" in manage("list_tokens", "bob")


def test_a_name_of_several_lines_or_of_control_characters_is_one_quoted_line(manage, bob):
    create_token(principal=principal_of(bob), owner=bob, name="lap\x1b[2J\ntop")
    lines = manage("list_tokens", "bob").splitlines()
    assert len(lines) == bob.tokens.count()
    assert lines[-1].endswith(r'"lap\u001b[2J\ntop"')


def test_a_token_is_created_with_a_scope(manage, team_repo):
    options = ["--permission", "read", "--repo", "teams/acme/api"]
    text = manage("create_token", "alice", "--name", "deploy", *options)
    record = Api(text).get("/api-tokens/self").gives()
    assert (record["permission"], record["repo_paths"]) == ("read", ["teams/acme/api"])
