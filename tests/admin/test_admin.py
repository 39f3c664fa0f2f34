"""What holds for the admin as a whole: who gets in, and by which way."""

import re

from django.conf import settings
from django.contrib import admin
from django.core.management import call_command

from apps.accounts.models import Invite, User
from apps.core.admin.site import WORK
from apps.core.sessions import DAY
from apps.site.models import RateLimit
from tests.admin.urls import address, at
from tests.web.page_client import PASSWORD, PageClient

LISTS = [address(model) for model in admin.site._registry]


def test_nobody_but_active_staff_gets_in(visit, bob, make):
    gone = make.user("gone", is_staff=True)
    User.objects.filter(pk=gone.pk).update(is_active=False)
    nobody, refused = [visit(), visit(gone)], visit(bob)
    for path in ("/admin/", *LISTS):
        login = f"/admin/login/?next={path}"
        for person in nobody:
            person.get(path).leads(login, 302)
            person.get(login).leads(f"/signin?next=/admin/login/%3Fnext%3D{path}", 302)
        refused.get(path).leads(login, 302)
        assert refused.get(login).gives(403).h1 == "This is not open to you"


def test_the_way_in_is_the_site_s_own_sign_in(visit, make, db):
    make.user("kim", is_staff=True, password=PASSWORD)
    person = visit()
    person.sign_in("kim", "wrong", next="/admin/").gives(422)
    person.sign_in("kim", next="/admin/").leads("/admin/")
    assert "Administration" in person.get("/admin/").gives().h1
    person.get("/admin/password_change/").leads("/settings/password", 302)
    person.post("/admin/logout/").leads("/", 302)
    person.post("/admin/login/", username="kim", password=PASSWORD).gives(405)


def test_staff_has_all_rights_whether_superuser_or_not(visit, make, db):
    call_command("createsuperuser", username="root", email="", interactive=False, verbosity=0)
    plain = make.user("kim", is_staff=True)
    User.objects.filter(pk=plain.pk).update(is_superuser=False)
    plain.refresh_from_db()
    pages = [visit(one).get("/admin/") for one in (plain, User.objects.get(username="root"))]
    links = [re.findall(r'href="(/admin/\w+/\w+/[^"]*)"', page.gives().html) for page in pages]
    assert links[0] == links[1] and {*LISTS} <= {*links[0]}


def test_the_index_is_grouped_by_work(staff):
    groups = re.findall(r"<caption>(.*?)</caption>", staff.get("/admin/").html)
    assert tuple(groups) == WORK
    staff.get("/admin/accounts/").leads("/admin/", 302)
    assert (
        'href="/"' in staff.get("/admin/").html and 'href="/settings"' in staff.get("/admin/").html
    )


def test_a_form_without_a_csrf_token_does_nothing(sam, make, events):
    row = make.user("kim")
    with events():
        for path in (at(row), at(row, "deactivate"), address(RateLimit, "add")):
            PageClient(sam, strict=True).post(path, display_name="X").gives(403)


def test_moves_and_rows_that_are_not_there_are_404(staff, sam, events):
    with events():
        for path in (at(sam, "fly"), address(User, "move", 10**9, "deactivate")):
            staff.post(path).gives(404)
        staff.get(address(User, "change", 10**9)).leads("/admin/", 302)
        staff.get(address(Invite, "change", "x")).leads("/admin/", 302)


def test_a_visit_prolongs_the_session_once_a_day(staff, visit, bob):
    session = staff.client.session
    session[DAY] = 1
    session.save()
    assert settings.SESSION_COOKIE_NAME in staff.get("/admin/").response.cookies
    assert settings.SESSION_COOKIE_NAME not in staff.get("/admin/").response.cookies
    assert settings.SESSION_COOKIE_NAME not in visit(bob).get("/admin/").response.cookies
