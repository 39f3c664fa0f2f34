"""The forms of teams."""

from __future__ import annotations

from apps.teams.models import Role
from apps.teams.serializers import AddMember, CreateTeam, UpdateMember, UpdateTeam
from apps.web.forms import EditForm, PageForm, menu, most, text_field

SLUG = "Lower-case letters and digits, with a single - _ or . between them."


class NewTeam(PageForm):
    request_serializer = CreateTeam

    name = text_field("Name", length=most(CreateTeam, "name"), autocomplete="off")
    slug = text_field(
        "Address",
        length=most(CreateTeam, "slug"),
        help_text=SLUG,
        autocomplete="off",
        autocapitalize="none",
        spellcheck="false",
    )


class TeamSettings(EditForm):
    request_serializer = UpdateTeam

    name = text_field("Name", length=most(UpdateTeam, "name"), autocomplete="off")
    slug = text_field(
        "Address",
        length=most(UpdateTeam, "slug"),
        help_text=f"{SLUG} Old addresses keep working; other teams may take one after 90 days.",
        autocomplete="off",
        autocapitalize="none",
        spellcheck="false",
    )


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
    request_serializer = UpdateMember

    role = menu("Role", Role)
