"""The site of the admin: grouped by the staff's work, with the sign-in of all pages."""

from __future__ import annotations

from functools import wraps
from operator import itemgetter
from typing import Any

from django.contrib.admin import AdminSite
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.urls import reverse

from apps.core.sessions import prolong

GROUPS = ("People", "Site", "Teams and repositories", "Conversations", "Record")
"""The groups of the index, in its order; each `StaffAdmin` names its own."""


class StaffSite(AdminSite):
    """Lets in active staff, whether superuser or not: `is_staff` alone decides.

    Signing in and out and one's password are pages of the site, with its rate limits.
    """

    site_header = site_title = "Guildhall"
    index_title = "Administration"
    index_template = "admin/staff_index.html"

    def admin_view(self, view: Any, cacheable: bool = False) -> Any:
        """Each request prolongs the session, as on any other page."""
        inside = super().admin_view(view, cacheable)

        @wraps(inside)
        def run(request: HttpRequest, *args: Any, **kwargs: Any) -> Any:
            if self.has_permission(request):
                prolong(request)
            return inside(request, *args, **kwargs)

        return run

    def get_app_list(self, request: HttpRequest, app_label: str | None = None) -> list[Any]:
        groups: dict[str, list[tuple[int, Any]]] = {name: [] for name in GROUPS}
        for app in super().get_app_list(request):
            for entry in app["models"]:
                shown: Any = self.get_model_admin(entry["model"])
                groups[shown.group].append((shown.position, entry))
        home = reverse("admin:index", current_app=self.name)
        return [
            {
                "name": name,
                "app_label": name.split()[0].lower(),
                "app_url": home,
                "has_module_perms": True,
                "models": [entry for _, entry in sorted(placed, key=itemgetter(0))],
            }
            for name, placed in groups.items()
            if placed
        ]

    def app_index(self, request: HttpRequest, app_label: str, extra_context: Any = None) -> Any:
        """Work is not divided as the code is."""
        return HttpResponseRedirect(reverse("admin:index", current_app=self.name))

    def login(self, request: HttpRequest, extra_context: Any = None) -> HttpResponse:
        return HttpResponseRedirect(reverse("signin"))

    def logout(self, request: HttpRequest, extra_context: Any = None) -> Any:
        return HttpResponseRedirect(reverse("home"))

    def password_change(self, request: HttpRequest, extra_context: Any = None) -> Any:
        return HttpResponseRedirect(reverse("password"))

    password_change_done = password_change
