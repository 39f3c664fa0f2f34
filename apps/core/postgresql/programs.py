"""Runs PostgreSQL's own programs, such as `pg_dump`, on Django's database."""

from __future__ import annotations

import os
from subprocess import DEVNULL, run

from django.db import connection
from psycopg.conninfo import make_conninfo
from psycopg.pq import Conninfo


class ProgramError(Exception):
    """The program could not start or failed. The text quotes its standard error."""


def run_program(name: str, *args: str) -> None:
    """Run one of PostgreSQL's programs and wait for its end. `ProgramError` if it fails.

    The password is passed in the environment: everybody on the machine can read command lines.
    """
    options = {option.keyword.decode() for option in Conninfo.get_defaults()}
    given = connection.get_connection_params()
    parameters = {key: value for key, value in given.items() if key in options}
    environment = {**os.environ, "LC_ALL": "C"}
    if password := parameters.pop("password", ""):
        environment["PGPASSWORD"] = password
    command = [name, "--no-password", f"--dbname={make_conninfo(**parameters)}", *args]
    try:
        done = run(command, env=environment, stdin=DEVNULL, capture_output=True, check=False)
    except OSError as error:
        raise ProgramError(f"{name} could not start: {error.strerror}") from error
    if done.returncode:
        message = done.stderr.decode("utf-8", "replace")[-500:]
        raise ProgramError(f"{name} ended with {done.returncode}: {message}")
