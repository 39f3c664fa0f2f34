"""The migrations of accounts with existing rows."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from django.db import connection

from apps.accounts import actions
from apps.accounts.models import User
from apps.accounts.principal import Principal
from apps.accounts.proofs import address_proof, proven_address
from tests.migrations import as_of, migrate_to_newest


def insertion(names: str, values: list[Any]) -> str:
    """The SQL that inserts an account into the table of an older migration."""
    marks = ", ".join(["%s"] * len(values))
    # The column names are constants of these tests.
    return f"INSERT INTO accounts_user ({names}) VALUES ({marks})"  # noqa: S608 - as above


@pytest.fixture
def before_the_keys(transactional_db: None) -> Iterator[None]:
    """The tables of the time when several accounts could have the same address."""
    with as_of("accounts", "0001_initial"):
        yield


def test_an_address_stays_with_the_oldest_active_account(before_the_keys, caplog):
    columns = "password is_superuser uuid username username_key display_name email is_active"
    names = ", ".join([*columns.split(), "is_staff", "created_at"])
    rows = [("idle", "Ann@x.org", False), ("ann", "ann@X.org", True), ("bea", "ANN@x.org", True)]
    rows += [("cy", "", True), ("dee", "", True)]
    with connection.cursor() as cursor:
        for number, (name, email, is_active) in enumerate(rows):
            values: list[Any] = ["", False, f"{number:032x}", name, name, "Ö", email]
            values += [is_active, False, "2026-01-01 00:00:00+00:00"]
            cursor.execute(insertion(names, values), values)
    migrate_to_newest()
    rows_after = User.objects.order_by("id").values_list("email", "email_key", "display_name_key")
    assert list(rows_after) == [
        ("", None, "ö"),
        ("ann@X.org", "ann@x.org", "ö"),
        *[("", None, "ö")] * 3,
    ]
    assert "idle had the e-mail address of ann" in caplog.text
    assert "x.org" not in caplog.text.lower()


@pytest.fixture
def before_the_versions(transactional_db: None) -> Iterator[None]:
    """The tables of the time when only address and password ended a proof."""
    with as_of("accounts", "0005_admin_searches"):
        yield


def test_people_who_were_there_get_proofs_that_end(before_the_versions):
    columns = "password is_superuser uuid username username_key display_name display_name_key"
    names = ", ".join([*columns.split(), "email", "is_active", "is_staff", "created_at"])
    row: list[Any] = ["", False, "0" * 32, "ann", "ann", "", "", ""]
    row += [True, False, "2026-01-01 00:00:00+00:00"]
    with connection.cursor() as cursor:
        cursor.execute(insertion(names, row), row)
    migrate_to_newest()
    ann = User.objects.get()
    proof = address_proof(ann, "ann@example.org")
    assert proven_address(ann, proof) == "ann@example.org"
    actions.confirm_email(principal=Principal(ann), proof=proof)
    assert User.objects.get().credentials_version == 1
