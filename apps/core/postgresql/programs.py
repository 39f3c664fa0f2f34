"""Runs PostgreSQL's own programs, such as `pg_dump`, on Django's database."""

from __future__ import annotations

import os
from subprocess import DEVNULL, run
from tempfile import NamedTemporaryFile

from django.db import connection
from psycopg.conninfo import make_conninfo
from psycopg.pq import Conninfo

SERVICE = "guildhall"
"""The name of the section of the service file."""


class ProgramError(Exception):
    """The program could not start or failed. The text quotes its standard error."""


def run_program(name: str, *args: str) -> None:
    """Run one of PostgreSQL's programs and wait for its end. `ProgramError` if it fails.

    The password is passed in the environment, and the password of a client's key, which has no
    variable, in a service file: everybody on the machine can read command lines.
    """
    options = {option.keyword.decode() for option in Conninfo.get_defaults()}
    given = connection.get_connection_params()
    parameters = {key: value for key, value in given.items() if key in options}
    environment = {**os.environ, "LC_ALL": "C"}
    if password := parameters.pop("password", ""):
        environment["PGPASSWORD"] = password
    with NamedTemporaryFile("w") as file:  # only its owner can read it
        if password := parameters.pop("sslpassword", ""):
            if "service" in parameters:
                text = "Move sslpassword from DATABASE_URL into the file of its service"
                raise ProgramError(f"{text}: {name} takes it from there only.")
            print(f"[{SERVICE}]\nsslpassword={password}", file=file, flush=True)
            environment["PGSERVICEFILE"], parameters["service"] = file.name, SERVICE
        command = [name, "--no-password", f"--dbname={make_conninfo(**parameters)}", *args]
        _run(command, environment)


def _run(command: list[str], environment: dict[str, str]) -> None:
    name = command[0]
    try:
        done = run(command, env=environment, stdin=DEVNULL, capture_output=True, check=False)
    except OSError as error:
        raise ProgramError(f"{name} could not start: {error.strerror}") from error
    if done.returncode:
        message = done.stderr.decode("utf-8", "replace")[-500:]
        raise ProgramError(f"{name} ended with {done.returncode}: {message}")
