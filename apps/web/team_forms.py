"""The forms of teams."""

from __future__ import annotations

from apps.teams.models import Role
from apps.teams.serializers import AddMember
from apps.web.forms import PageForm, menu, most, text_field


class NewMember(PageForm):
    request_serializer = AddMember

    username = text_field(
        "Username",
        length=most(AddMember, "username"),
        autocomplete="off",
        autocapitalize="none",
        spellcheck="false",
    )
    role = menu("Role", Role)


class SetRole(PageForm):
    role = menu("Role", Role)
