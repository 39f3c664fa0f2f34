"""The admin of all apps: columns, lists, forms, pages and the site. It knows no model."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Iterable, Iterator, Sequence
from copy import copy
from dataclasses import dataclass
from functools import partial, wraps
from operator import itemgetter
from typing import TYPE_CHECKING, Any, cast
from urllib.parse import urlencode

from django import forms
from django.contrib import admin, messages
from django.contrib.admin import AdminSite, ModelAdmin, ShowFacets
from django.contrib.admin.views.main import ChangeList
from django.core.paginator import Paginator
from django.db import OperationalError
from django.db.models import Model, QuerySet
from django.http import Http404, HttpRequest, HttpResponse, HttpResponseRedirect
from django.template.response import TemplateResponse
from django.urls import path, reverse
from django.utils.formats import localize
from django.utils.functional import cached_property
from django.utils.html import format_html, format_html_join
from django.utils.safestring import SafeString

from apps.core.changes import compare_with_page
from apps.core.errors import ApiError, as_api_error
from apps.core.requests import SiteRequest, prolong
from apps.core.serializers import RequestSerializer

if TYPE_CHECKING:  # these take a type argument in the stubs alone
    PaginatorOfAny = Paginator[Any]
    ModelFormOfAny = forms.ModelForm[Any]
    ModelAdminOfAny = ModelAdmin[Any]
else:
    PaginatorOfAny, ModelFormOfAny, ModelAdminOfAny = Paginator, forms.ModelForm, ModelAdmin

NONE = "-"


def row_link(row: Model | None, text: str = "") -> str:
    """A link to the admin's page of a row, with its name or this text; a dash for None."""
    if row is None:
        return NONE
    name = f"admin:{row._meta.app_label}_{row._meta.model_name}_change"
    return format_html('<a href="{}">{}</a>', reverse(name, args=[row.pk]), text or str(row))


def link_to(model: type[Model], text: str, page: str = "changelist", **query: str) -> str:
    """A link to the list of a model (or its page `add`), filtered by the query."""
    address = reverse(f"admin:{model._meta.app_label}_{model._meta.model_name}_{page}")
    return format_html('<a href="{}?{}">{}</a>', address, urlencode(query), text)


def moment(when: dt.datetime | None) -> str:
    """A time in the format of the site; "never" for None."""
    return str(localize(when)) if when else "never"


def badge(word: str, good: bool | None = None) -> SafeString:
    """A state in one word, in the colour for good, bad or neutral."""
    css_class = {True: "good", False: "bad", None: "none"}[good]
    return format_html('<span class="state {}">{}</span>', css_class, word)


def bulleted(lines: Iterable[str], *, more: str = "") -> str:
    """A bulleted list, with `more` as its last line if given; a dash for no lines."""
    lines_and_count = [*lines, *([more] if more else [])]
    items = format_html_join("", "<li>{}</li>", [(line,) for line in lines_and_count])
    return format_html('<ul class="rows">{}</ul>', items) if items else NONE


ROWS_MAX = 2_000
"""Number of rows on the pages of a list; older rows are found by search or filters."""


class CappedPaginator(PaginatorOfAny):
    """A paginator that counts no further than `ROWS_MAX`, because COUNT of a long table is slow."""

    rows_max = ROWS_MAX

    @cached_property
    def count(self) -> int:
        rows: Any = self.object_list
        return int(rows.order_by().values("pk")[: self.rows_max].count())


class FixedOrderChangeList(ChangeList):
    """A list in the order of its `ModelAdmin`, which has an index; the query cannot change it."""

    def get_ordering(self, request: HttpRequest, queryset: QuerySet[Any]) -> list[Any]:
        return list(self.model_admin.get_ordering(request))


class Choices(admin.SimpleListFilter):
    """A filter by words: values of the column `parameter_name`, unless `chosen` is overridden."""

    parameter_name = ""
    words: tuple[str, ...] = ()

    def lookups(self, request: HttpRequest, model_admin: Any) -> Iterator[tuple[str, str]]:
        return (
            (word, word.replace("_", " ").replace("-", " ").capitalize()) for word in self.words
        )

    def queryset(self, request: HttpRequest, queryset: QuerySet[Any]) -> QuerySet[Any]:
        word = self.value()
        return self.chosen(queryset, word) if word in self.words else queryset

    def chosen(self, rows: Any, word: str) -> Any:
        return rows.filter(**{self.parameter_name: word})


class Flag(Choices):
    """A filter by a boolean column; the first of the two words stands for true."""

    column = ""

    def chosen(self, rows: Any, word: str) -> Any:
        return rows.filter(**{self.column: word == self.words[0]})


class ActionForm(ModelFormOfAny):
    """A form that calls an action. It validates with the `request_serializer` of the API.

    `action_data` are the arguments of the action: for a change, the fields that were changed on the
    page, and stored values of required fields. The row is not changed: the action compares with the
    stored values.
    """

    request_serializer: type[RequestSerializer] | None = None
    refusal: ApiError | None = None
    """The action's refusal of these values, which the form shows."""

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self.label_suffix = ""
        self.action_data: dict[str, Any] = {}
        if self.instance.pk is not None:
            compare_with_page(self)

    def full_clean(self) -> None:
        """Validate as Django does, but on a copy of the row, without the rules of the model: Django
        would write the values into the row.
        """
        row, copied = self.instance, copy(self.instance)
        copied.full_clean = lambda **_: None
        self.instance = copied
        try:
            super().full_clean()
        finally:
            self.instance = row

    def clean(self) -> dict[str, Any]:
        """Validate by the request serializer; show a refusal of the action at its field."""
        data = self._data()
        if self.request_serializer is None:
            self.action_data = data
        elif not self.errors:
            self._validate(self.request_serializer(data=data))
        if self.refusal is not None:
            name, colon, text = self.refusal.detail.partition(": ")
            field = name if colon and name in self.fields else None
            self.add_error(field, text if field else self.refusal.detail)
        return self.cleaned_data

    def _data(self) -> dict[str, Any]:
        values = self.cleaned_data
        if self.instance.pk is None:
            return dict(values)
        declared = self.request_serializer().fields if self.request_serializer else {}
        required = {name for name in values if getattr(declared.get(name), "required", False)}
        stored = {name: self.initial[name] for name in required}
        return stored | {name: values[name] for name in values if name in self.changed_data}

    def _validate(self, serializer: RequestSerializer) -> None:
        if serializer.is_valid():
            self.action_data = dict(serializer.validated_data)
            return
        for name, reasons in serializer.errors.items():
            self.add_error(name if name in self.fields else None, [str(one) for one in reasons])


PAGES = ("changelist", "add", "change")
"""Pages of Django that are kept: others would delete past the actions, or show its own history."""


@dataclass(frozen=True)
class RowAction:
    """A button on the page of a row, with a page that asks for confirmation.

    `act(principal=…, row=…)` calls the action with the principal; `asks` describes its effect.
    """

    name: str
    label: str
    act: Callable[..., object]
    asks: str
    done: str
    offered: Callable[[Any], bool] = lambda row: True
    ends: bool = False
    """Whether it deletes the row, or cannot be undone."""
    typed: Callable[[Any], str] | None = None
    """The text that has to be typed to confirm it, which `act` gets as `confirm` and checks."""


class StaffAdmin(ModelAdminOfAny):
    """Lists and pages for staff. Only `add`, `change` and row actions change anything.

    `layout` are the fieldsets of a page, and `changes` the editable fields. `add_form` is for new
    rows; None if the admin adds none. Staff has all permissions: Django's are not used.
    """

    group = ""
    position = 0
    """Its group in the index, and its position in the group."""
    layout: Sequence[tuple[str | None, dict[str, Any]]] = ()
    changes: tuple[str, ...] = ()
    add_form: type[ActionForm] | None = None
    row_actions: tuple[RowAction, ...] = ()
    form = ActionForm
    intro = ""
    """A sentence above the list."""

    ordering = ("-pk",)
    sortable_by = ()
    list_per_page = 100
    paginator = CappedPaginator
    show_full_result_count = False
    show_facets = ShowFacets.NEVER
    actions = None
    view_on_site = False
    change_list_template = "admin/staff_list.html"
    change_form_template = add_form_template = "admin/staff_form.html"

    def add(self, principal: Any, **values: Any) -> Model:
        """Create a row by its action, and return it."""
        raise NotImplementedError

    def change(self, principal: Any, row: Any, **values: Any) -> None:
        """Change a row by its action."""
        raise NotImplementedError

    def search(self, rows: QuerySet[Any], text: str) -> QuerySet[Any]:
        """The rows that match a search; called only if there is a `search_help_text`."""
        raise NotImplementedError

    # Permissions

    def has_module_permission(self, request: HttpRequest) -> bool:
        return self.has_view_permission(request)

    def has_view_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return bool(request.user.is_active and request.user.is_staff)

    def has_add_permission(self, request: HttpRequest) -> bool:
        return self.add_form is not None and self.has_view_permission(request)

    def has_change_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return bool(self.changes) and self.has_view_permission(request)

    def has_delete_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return False

    # Lists

    def get_search_fields(self, request: HttpRequest) -> tuple[str, ...]:
        return ("pk",) if self.search_help_text else ()

    def get_search_results(
        self, request: HttpRequest, queryset: QuerySet[Any], search_term: str
    ) -> tuple[QuerySet[Any], bool]:
        text = search_term.strip() if self.search_help_text else ""
        return (self.search(queryset, text) if text else queryset), False

    def get_changelist(self, request: HttpRequest, **kwargs: Any) -> type[FixedOrderChangeList]:
        return FixedOrderChangeList

    def lookup_allowed(self, lookup: str, value: str, request: HttpRequest) -> bool:
        """Only the declared filters: `?digest__startswith=` would reveal a secret bit by bit."""
        declared = {getattr(entry, "parameter_name", entry) for entry in self.list_filter}
        return lookup in declared

    # The page of a row, and its form

    def get_fieldsets(self, request: HttpRequest, obj: Any = None) -> Any:
        if obj is None and self.add_form is not None:
            return [(None, {"fields": list(self.add_form.base_fields)})]
        return self.layout

    def get_readonly_fields(self, request: HttpRequest, obj: Any = None) -> Any:
        if obj is None:
            return ()
        fields = [name for _, part in self.layout for name in part["fields"]]
        return [name for name in fields if name not in self.changes]

    def get_form(self, request: Any, obj: Any = None, change: bool = False, **kwargs: Any) -> Any:
        kwargs["form"] = self.form if obj is not None else self.add_form or self.form
        form_class: Any = super().get_form(request, obj, change=change, **kwargs)
        form_class.refusal = getattr(request, "refusal", None)
        return form_class

    def changeform_view(
        self,
        request: Any,
        object_id: str | None = None,
        form_url: str = "",
        extra_context: dict[str, Any] | None = None,
    ) -> HttpResponse:
        """A refusal of the action rolls everything back, and the form is shown again with the
        reason, and the status and headers of the API.
        """
        page = partial(super().changeform_view, request, object_id, form_url)
        context = {"show_save_and_add_another": False, **(extra_context or {})}
        context["row_actions"] = self._offered(request, object_id)
        try:
            return page(context)
        except (ApiError, OperationalError) as refused:
            request.refusal = error = cast("ApiError", as_api_error(refused))
            response = page(context)
            response.status_code = error.status
            for name, value in error.headers.items():
                response[name] = value
            return response

    def save_form(self, request: HttpRequest, form: Any, change: bool) -> Any:
        """Call the action: nothing else changes anything when a form was sent."""
        principal = cast("SiteRequest", request).principal
        if not change:
            return self.add(principal, **form.action_data)
        self.change(principal, form.instance, **form.action_data)
        return form.instance

    def save_model(self, request: HttpRequest, obj: Any, form: Any, change: bool) -> None:
        """The action has saved it."""

    def save_related(self, request: HttpRequest, form: Any, formsets: Any, change: bool) -> None:
        """The action has saved related rows."""

    def log_addition(self, request: HttpRequest, obj: Any, message: Any) -> Any:
        """The action has recorded its event; there is no second log."""

    log_change = log_addition

    # Row actions

    def get_urls(self) -> list[Any]:
        label, name = self.opts.app_label, self.opts.model_name
        names = {f"{label}_{name}_{page}" for page in PAGES}
        view = self.admin_site.admin_view(self.row_action_view)
        return [
            *(route for route in super().get_urls() if route.name in names),
            path("<int:pk>/<slug:name>/", view, name=f"{label}_{name}_row_action"),
        ]

    def _offered(self, request: HttpRequest, object_id: str | None) -> list[tuple[str, RowAction]]:
        """The actions that are offered for a row now, each with its address."""
        row = self.get_object(request, object_id) if object_id and self.row_actions else None
        if row is None:
            return []
        offered = [action for action in self.row_actions if action.offered(row)]
        return [(self.address("row_action", row.pk, action.name), action) for action in offered]

    def address(self, page: str, *args: Any) -> str:
        name = f"admin:{self.opts.app_label}_{self.opts.model_name}_{page}"
        return reverse(name, args=args, current_app=self.admin_site.name)

    def row_action_view(self, request: HttpRequest, pk: int, name: str) -> HttpResponse:
        """Ask for confirmation; on POST act, and show a refusal on the page of the row."""
        row = self.get_queryset(request).filter(pk=pk).first()
        action = next((entry for entry in self.row_actions if entry.name == name), None)
        if row is None or action is None:
            raise Http404
        if request.method == "POST":
            return self._act(request, row, action)
        if not action.offered(row):
            return HttpResponseRedirect(self.address("change", pk))
        context = {
            "title": f"{action.label}: {row}",
            "row": row,
            "row_action": action,
            "typed": action.typed(row) if action.typed else "",
            "list": self.address("changelist"),
            "back": self.address("change", pk),
        }
        return self.render(request, "admin/staff_row_action.html", context)

    def render(
        self, request: HttpRequest, template: str, context: dict[str, Any], status: int = 200
    ) -> HttpResponse:
        """A page besides those of Django, with the context of all pages of the admin."""
        shared = {**self.admin_site.each_context(request), "opts": self.opts}
        return TemplateResponse(request, template, {**shared, **context}, status=status)

    def _act(self, request: HttpRequest, row: Any, action: RowAction) -> HttpResponse:
        row_name, back = str(row), self.address("change", row.pk)
        typed = {"confirm": request.POST.get("confirm", "")} if action.typed else {}
        try:
            action.act(principal=cast("SiteRequest", request).principal, row=row, **typed)
        except (ApiError, OperationalError) as refused:
            messages.error(request, cast("ApiError", as_api_error(refused)).detail)
            return HttpResponseRedirect(back)
        messages.success(request, action.done.format(row_name))
        exists = self.get_queryset(request).filter(pk=row.pk).exists()
        return HttpResponseRedirect(back if exists else self.address("changelist"))


GROUPS = ("People", "Site", "Teams and repositories", "Conversations", "Record")
"""The groups of the index, in order; each `StaffAdmin` names its group."""


class StaffSite(AdminSite):
    """Lets in active staff: `is_staff` alone decides, not superuser.

    Sign-in, sign-out and password are the pages of the site, with their rate limits.
    """

    site_header = site_title = "Guildhall"
    index_title = "Administration"
    index_template = "admin/staff_index.html"

    def admin_view(self, view: Any, cacheable: bool = False) -> Any:
        """Each request prolongs the session, as on any other page."""
        wrapped = super().admin_view(view, cacheable)

        @wraps(wrapped)
        def run(request: HttpRequest, *args: Any, **kwargs: Any) -> Any:
            if self.has_permission(request):
                prolong(request, cast("SiteRequest", request).principal.user)
            return wrapped(request, *args, **kwargs)

        return run

    def get_app_list(self, request: HttpRequest, app_label: str | None = None) -> list[Any]:
        groups: dict[str, list[tuple[int, Any]]] = {name: [] for name in GROUPS}
        for app in super().get_app_list(request):
            for entry in app["models"]:
                model_admin: Any = self.get_model_admin(entry["model"])
                groups[model_admin.group].append((model_admin.position, entry))
        home = reverse("admin:index", current_app=self.name)
        return [
            {
                "name": name,
                "app_label": name.split()[0].lower(),
                "app_url": home,
                "has_module_perms": True,
                "models": [entry for _, entry in sorted(entries, key=itemgetter(0))],
            }
            for name, entries in groups.items()
            if entries
        ]

    def app_index(self, request: HttpRequest, app_label: str, extra_context: Any = None) -> Any:
        """The index replaces the pages of single apps, because its groups are not apps."""
        return HttpResponseRedirect(reverse("admin:index", current_app=self.name))

    def login(self, request: HttpRequest, extra_context: Any = None) -> HttpResponse:
        return HttpResponseRedirect(reverse("signin"))

    def logout(self, request: HttpRequest, extra_context: Any = None) -> Any:
        return HttpResponseRedirect(reverse("home"))

    def password_change(self, request: HttpRequest, extra_context: Any = None) -> Any:
        return HttpResponseRedirect(reverse("password"))

    password_change_done = password_change
