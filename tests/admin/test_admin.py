"""The admin as a whole: who has access, and how staff signs in."""

import re

from django.conf import settings
from django.core.management import call_command

from apps.accounts.models import Invite, User
from apps.core.admin import GROUPS
from apps.core.requests import DAY
from apps.site.models import RateLimit
from tests.admin.urls import admin_url, registered, row_url
from tests.factories import UserFactory
from tests.web.page_client import PASSWORD, PageClient

LISTS = [admin_url(model) for model in registered()]


def test_only_active_staff_has_access(visit, bob):
    gone = UserFactory.create(username="gone", staff=True)
    User.objects.filter(pk=gone.pk).update(is_active=False)
    nobody, refused = [visit(), visit(gone)], visit(bob)
    for path in ("/admin/", *LISTS):
        login = f"/admin/login/?next={path}"
        for person in nobody:
            person.get(path).redirects_to(login, 302)
            person.get(login).redirects_to(f"/signin?next=/admin/login/%3Fnext%3D{path}", 302)
        refused.get(path).redirects_to(login, 302)
        assert refused.get(login).gives(403).h1 == "You do not have access"


def test_staff_signs_in_on_the_page_for_everybody(visit, db):
    UserFactory.create(username="kim", staff=True, clear_password=PASSWORD)
    person = visit()
    person.sign_in("kim", "wrong", next="/admin/").gives(422)
    person.sign_in("kim", next="/admin/").redirects_to("/admin/")
    assert "Administration" in person.get("/admin/").gives().h1
    person.get("/admin/password_change/").redirects_to("/settings/password", 302)
    person.post("/admin/logout/").redirects_to("/", 302)
    person.post("/admin/login/", username="kim", password=PASSWORD).gives(405)


def test_staff_has_all_rights_whether_superuser_or_not(visit, db):
    call_command("createsuperuser", username="root", email="", interactive=False, verbosity=0)
    plain = UserFactory.create(username="kim", staff=True)
    User.objects.filter(pk=plain.pk).update(is_superuser=False)
    plain.refresh_from_db()
    pages = [visit(one).get("/admin/") for one in (plain, User.objects.get(username="root"))]
    links = [re.findall(r'href="(/admin/\w+/\w+/[^"]*)"', page.gives().html) for page in pages]
    assert links[0] == links[1] and {*LISTS} <= {*links[0]}


def test_the_index_is_grouped_by_work(staff):
    groups = re.findall(r"<caption>(.*?)</caption>", staff.get("/admin/").html)
    assert tuple(groups) == GROUPS
    staff.get("/admin/accounts/").redirects_to("/admin/", 302)
    assert (
        'href="/"' in staff.get("/admin/").html and 'href="/settings"' in staff.get("/admin/").html
    )


def test_a_form_without_a_csrf_token_does_nothing(sam, events):
    row = UserFactory.create(username="kim")
    with events():
        for path in (row_url(row), row_url(row, "deactivate"), admin_url(RateLimit, "add")):
            PageClient(sam, strict=True).post(path, display_name="X").gives(403)


def test_unknown_actions_and_rows_are_refused(staff, sam, events):
    with events():
        for path in (row_url(sam, "fly"), admin_url(User, "row_action", 10**9, "deactivate")):
            staff.post(path).gives(404)
        staff.get(admin_url(User, "change", 10**9)).redirects_to("/admin/", 302)
        staff.get(admin_url(Invite, "change", "x")).redirects_to("/admin/", 302)


def test_a_visit_prolongs_the_session_once_a_day(staff, visit, bob):
    session = staff.client.session
    session[DAY] = 1
    session.save()
    assert settings.SESSION_COOKIE_NAME in staff.get("/admin/").response.cookies
    assert settings.SESSION_COOKIE_NAME not in staff.get("/admin/").response.cookies
    assert settings.SESSION_COOKIE_NAME not in visit(bob).get("/admin/").response.cookies
