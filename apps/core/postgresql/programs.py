"""Runs PostgreSQL's own programs, such as `pg_dump`, on Django's database."""

from __future__ import annotations

import os
from subprocess import DEVNULL, run

from django.db import connection


class ProgramError(Exception):
    """The program could not start or failed. The text quotes its standard error."""


def run_program(name: str, *args: str) -> None:
    """Run one of PostgreSQL's programs and wait for its end. `ProgramError` if it fails.

    The password is passed in the environment: everybody on the machine can read command lines.
    """
    connection.ensure_connection()
    info = connection.connection.info
    environment = {**os.environ, "PGPASSWORD": info.password, "LC_ALL": "C"}
    command = [name, "--no-password", f"--dbname={info.dsn}", *args]
    try:
        done = run(command, env=environment, stdin=DEVNULL, capture_output=True, check=False)
    except OSError as error:
        raise ProgramError(f"{name} could not start: {error.strerror}") from error
    if done.returncode:
        message = done.stderr.decode("utf-8", "replace")[-500:]
        raise ProgramError(f"{name} ended with {done.returncode}: {message}")
