"""Refusals and their form."""

from __future__ import annotations

import pytest
from django.core.exceptions import PermissionDenied, RequestDataTooBig, SuspiciousOperation
from django.db import IntegrityError, OperationalError
from django.http import Http404
from rest_framework import exceptions as drf

from apps.accounts.models import User
from apps.accounts.principal import ANONYMOUS, Principal
from apps.core import errors
from apps.core.access import Access, Level, Permission
from apps.core.errors import ApiError, as_api_error, plain_error

pytestmark = pytest.mark.once


def test_conflicting_paths_are_shown_where_there_are_some_to_name():
    error = errors.Conflict("merge_conflict", "x", conflict_paths=["a", "b"])
    assert error.body()["conflict_paths"] == ["a", "b"]


@pytest.mark.parametrize(
    ("exception", "status", "code"),
    [
        (Http404("secret"), 404, "not_found"),
        (PermissionDenied("secret"), 403, "forbidden"),
        (RequestDataTooBig("secret"), 413, "payload_too_large"),
        (SuspiciousOperation("secret"), 400, "malformed_request"),
        (OperationalError("secret"), 503, "unavailable"),
        (drf.MethodNotAllowed("GET"), 405, "method_not_allowed"),
        (drf.NotFound("secret"), 404, "not_found"),
    ],
)
def test_what_django_raises_becomes_a_refusal_without_its_text(exception, status, code):
    error = as_api_error(exception)
    assert error is not None
    assert (error.status, error.code) == (status, code)
    assert "secret" not in error.detail


@pytest.mark.parametrize("defect", [ValueError("x"), KeyError("x"), IntegrityError("x")])
def test_a_defect_is_no_refusal(defect):
    assert as_api_error(defect) is None


@pytest.mark.parametrize(
    ("status", "code"),
    [
        (400, "malformed_request"),
        (404, "not_found"),
        (405, "method_not_allowed"),
        (414, "uri_too_long"),
        (418, "malformed_request"),
        (500, "internal_error"),
        (502, "internal_error"),
        (503, "unavailable"),
    ],
)
def test_a_bare_status_has_a_code_and_a_text(status, code):
    error = plain_error(status)
    assert (error.status, error.code) == (status, code)
    assert error.detail.endswith(".")


def refusal(has: Level, needed: Level) -> str | None:
    try:
        Named(ANONYMOUS, has).require(needed)
    except ApiError as error:
        assert error.status == 403
        return error.code
    return None


LEVELS = [Level.NONE, Level.READ, Level.WRITE, Level.ADMIN, Level.OWNER]


class Named(Access):
    name = "teams/acme"
    api_path = "/teams/acme"


@pytest.mark.parametrize("has", LEVELS)
@pytest.mark.parametrize("needed", LEVELS[1:])
def test_a_level_lets_in_whoever_has_it_or_a_higher_one(has, needed):
    code = "forbidden" if has is Level.NONE else "role_required"
    assert refusal(has, needed) == (None if has >= needed else code)


def test_staff_is_asked_for_by_what_one_is_and_not_by_level():
    staff = User(username="sam", is_staff=True)
    with pytest.raises(ApiError) as refused:
        Principal(User(username="bob")).check_staff()
    assert refused.value.code == "staff_required"
    Principal(staff).check_staff()
    with pytest.raises(ApiError):
        Principal(staff, permission=Permission.WRITE).check_staff()


@pytest.mark.parametrize("needed", [Level.PUBLIC, Level.NONE])
def test_where_no_level_is_needed_everybody_is_let_in(needed):
    assert refusal(Level.NONE, needed) is None


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
