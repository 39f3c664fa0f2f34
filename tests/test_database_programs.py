"""Passwords of `DATABASE_URL` are not on the command line of PostgreSQL's programs."""

from __future__ import annotations

from pathlib import Path

import pytest
from django.db import connection

from apps.core.postgresql.programs import ProgramError, run_program

pytestmark = [
    pytest.mark.skipif(connection.vendor != "postgresql", reason="PostgreSQL's own"),
    pytest.mark.django_db,
]
SECRETS = {"password": "hush-1", "sslpassword": "hush 2'"}
SHOW = 'echo "$@"; echo "$PGPASSWORD"; cat "$PGSERVICEFILE"; stat -c %a "$PGSERVICEFILE"'


@pytest.fixture
def options(monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    """The options of the database, with secrets."""
    changed = {**connection.settings_dict["OPTIONS"], **SECRETS}
    monkeypatch.setitem(connection.settings_dict, "OPTIONS", changed)
    return changed


def test_passwords_are_in_the_environment_or_in_a_private_file(options, tmp_path: Path):
    program = tmp_path / "show"
    program.write_text(f"#!/bin/sh\n({SHOW}) > {tmp_path}/shown\n")
    program.chmod(0o700)
    run_program(str(program))
    command, password, *file, mode = (tmp_path / "shown").read_text().splitlines()
    assert "hush" not in command and "dbname" in command
    assert password == "hush-1"
    assert (file, mode) == (["[guildhall]", "sslpassword=hush 2'"], "600")


def test_the_programs_read_the_file(options, tmp_path: Path):
    run_program("pg_dump", "--schema-only", f"--file={tmp_path / 'dump'}")
    assert "CREATE TABLE" in (tmp_path / "dump").read_text()


def test_a_service_has_to_contain_the_password_itself(options):
    options["service"] = "ours"
    with pytest.raises(ProgramError, match="Move sslpassword from DATABASE_URL"):
        run_program("pg_dump", "--version")
