"""The resource `/users/{username}/offboard`, and the admin's page that does the same."""

from __future__ import annotations

from typing import Any

from django.contrib import admin, messages
from django.http import HttpResponse
from django.shortcuts import get_object_or_404, redirect
from django.template.response import TemplateResponse

from apps.accounts.models import NOT_GONE, User
from apps.accounts.principal import Principal
from apps.core.access import Level
from apps.core.errors import ApiError
from apps.core.lookup import get_or_missing
from apps.core.operation import operation
from apps.core.views import ApiViewSet
from config.offboarding import actions
from config.offboarding.plan import plan_for
from config.offboarding.serializers import OffboardingRecord, OffboardUser, offboarding_record


class OffboardViewSet(ApiViewSet):
    """/users/{username}/offboard"""

    schema_tags = ["users"]
    http_method_names = ["put"]
    principal: Principal
    user: User

    def load_objects(self) -> None:
        people = User.objects.filter(NOT_GONE)
        self.user = get_or_missing(people, "user", username_key=self.kwargs["username"])

    @operation(
        Level.STAFF,
        request=OffboardUser,
        response=OffboardingRecord,
        errors=("invalid_transition", "last_owner", "user_not_found"),
    )
    def update(self) -> dict[str, Any]:
        """Off-board a person: deactivate the account, and end everything that it can be used for.

        `dry_run` answers what would change, and changes nothing. Otherwise `confirm` is the
        username. Tokens are revoked, sessions, live streams and pushes that are under way end, and
        the person leaves all teams. `successor` becomes owner of teams that would have none. Texts,
        reviews and repositories stay.
        """
        plan = actions.offboard(principal=self.principal, user=self.user, **self.validated_data)
        return offboarding_record(plan)


def offboard_page(request: Any, pk: int) -> HttpResponse:
    """/admin/offboard/<pk>/: the plan, and a form that carries it out."""
    user = get_object_or_404(User.objects.filter(NOT_GONE), pk=pk)
    confirm, successor = (request.POST.get(name, "").strip() for name in ("confirm", "successor"))
    problem, status = "", 200
    if request.method == "POST":
        try:
            actions.offboard(
                principal=request.principal, user=user, confirm=confirm, successor=successor
            )
        except ApiError as error:
            problem, status = error.detail, error.status
        else:
            messages.success(request, f"{user} is off-boarded.")
            return redirect("admin:accounts_user_change", user.pk)
    context = {
        **admin.site.each_context(request),
        "title": f"Off-board {user}",
        "person": user,
        "plan": offboarding_record(plan_for(user, dry_run=True)),
        "problem": problem,
        "successor": successor,
    }
    return TemplateResponse(request, "admin/staff_offboard.html", context, status=status)
