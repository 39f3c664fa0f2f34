"""Staff changes settings and rate limits, and reads the usage of these."""

import re
from functools import partial

from apps.site import limits
from apps.site.actions import create_rate_limit
from apps.site.models import RateLimit, SiteSettings
from tests.admin.test_accounts import errors
from tests.admin.urls import admin_url, row_url
from tests.principals import principal_of

SETTINGS = {
    "signups_enabled": "on",
    "signups_require_invite": "on",
    "signup_invite_creators": "staff",
    "signup_invite_max_per_24h": "100",
    "signup_invite_min_account_age": "0s",
    "rate_limits_enabled": "on",
}
LIMIT = {"scope": "write", "max_requests": "5", "window_seconds": "60", "is_enabled": "on"}


def test_settings_are_one_page_and_change_as_over_the_api(staff, events):
    row = SiteSettings.load()
    staff.get(admin_url(SiteSettings)).redirects_to(row_url(row), 302)
    staff.get(admin_url(SiteSettings, "add")).gives(403)
    with events():
        staff.post(row_url(row), **SETTINGS).redirects_to(admin_url(SiteSettings), 302)
        for name, value in (
            ("signup_invite_max_per_24h", "100001"),
            ("signup_invite_min_account_age", "3 fortnights"),
            ("signup_invite_creators", "everybody"),
        ):
            assert "errorlist" in staff.post(row_url(row), **{**SETTINGS, name: value}).gives().html
    changed = {**SETTINGS, "signup_invite_min_account_age": "3 d"}
    del changed["signups_require_invite"]
    with events("site-settings-updated") as recorded:
        staff.post(row_url(row), **changed).redirects_to(admin_url(SiteSettings), 302)
    changes = {"signup_invite_min_account_age", "signups_require_invite"}
    assert {*recorded[0].data["changed"]} == changes
    assert not SiteSettings.load().signups_require_invite


def test_a_rate_limit_is_made_changed_and_lifted(staff, events):
    RateLimit.objects.all().delete()
    with events():
        for bad in ({"scope": "nothing"}, {"max_requests": "0"}, {"window_seconds": "86401"}):
            refused = staff.post(admin_url(RateLimit, "add"), **{**LIMIT, **bad})
            assert refused.status in {200, 422} and "errorlist" in refused.html
    with events("rate-limit-created"):
        staff.post(admin_url(RateLimit, "add"), **LIMIT).redirects_to(admin_url(RateLimit), 302)
    row = RateLimit.objects.get()
    with events():
        again = staff.post(admin_url(RateLimit, "add"), **LIMIT).gives(409)
        assert "already" in errors(again) and 'value="write"' in again.html
        staff.post(row_url(row), **LIMIT).redirects_to(admin_url(RateLimit), 302)
    with events("rate-limit-updated") as recorded:
        staff.post(row_url(row), **{**LIMIT, "max_requests": "6", "is_enabled": ""})
    assert recorded[0].data["changed"] == ["max_requests", "is_enabled"]
    with events("rate-limit-deleted"):
        staff.post(row_url(row, "remove")).redirects_to(admin_url(RateLimit), 302)
    assert not RateLimit.objects.exists()


def test_the_list_shows_who_uses_a_limit_most(staff, sam, api, bob, carol):
    RateLimit.objects.all().delete()
    limit = partial(create_rate_limit, principal=principal_of(sam), window_seconds=3600)
    limit(scope="authenticated", max_requests=9)
    limit(scope="anonymous", max_requests=7)
    assert not limits.usage()["anonymous"].callers
    for _ in range(3):
        api(bob).get("/users/self").gives()
    api(carol).get("/users/self").gives()
    api().get("/check-username?username=x")
    rows = re.findall(r"<tr>.*?</tr>", staff.get(admin_url(RateLimit)).html, re.DOTALL)
    anonymous, authenticated = rows[-2:]
    assert "127.0.0.1: 1 of 7" in anonymous
    assert re.search(r">2</td>.*bob</a>: 3 of 9", authenticated, re.DOTALL)
    shown = staff.get(row_url(RateLimit.objects.get(scope="authenticated"))).text
    assert "bob : 3 of 9" in shown
