"""The pages of one model in the admin. They show, ask, and call the actions of the API."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, cast

from django.contrib import messages
from django.contrib.admin import ModelAdmin, ShowFacets
from django.db import OperationalError
from django.db.models import Model, QuerySet
from django.http import Http404, HttpRequest, HttpResponse, HttpResponseRedirect
from django.template.response import TemplateResponse
from django.urls import path, reverse

from apps.core.admin.forms import ActionForm
from apps.core.admin.lists import FirstPages, OneOrder
from apps.core.errors import ApiError, as_api_error
from apps.core.requests import SiteRequest

if TYPE_CHECKING:
    Base = ModelAdmin[Any]
else:
    Base = ModelAdmin

PAGES = ("changelist", "add", "change")
"""What is kept of Django's pages: none deletes past the actions, and events are the history."""


@dataclass(frozen=True)
class RowAction:
    """A button on the page of a row, which asks on a page of its own before it acts.

    `act(by=…, row=…)` calls the action, with the principal; `asks` says what it will do.
    """

    name: str
    label: str
    act: Callable[..., object]
    asks: str
    done: str
    offered: Callable[[Any], bool] = lambda row: True
    ends: bool = False
    """Whether the row is gone afterwards, or no step leads back."""


def with_refusal(response: HttpResponse, error: ApiError) -> HttpResponse:
    """The page with the status and the headers that the API would give."""
    response.status_code = error.status
    for name, value in error.headers.items():
        response[name] = value
    return response


class StaffAdmin(Base):
    """Lists and pages for staff. What changes something is `add`, `change` or a row action.

    `layout` are the fieldsets of a page; of these, `changes` can be changed. `add_form` is for new
    rows, None where the admin makes none. Staff may do all of it: permission rows are not asked.
    """

    group = ""
    position = 0
    """Its group in the index, and its position there."""
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
    paginator = FirstPages
    show_full_result_count = False
    show_facets = ShowFacets.NEVER
    actions = None
    view_on_site = False
    change_list_template = "admin/staff_list.html"
    change_form_template = add_form_template = "admin/staff_form.html"

    def add(self, by: Any, **wanted: Any) -> Model:
        """Make a row through its action, and return it. `by` is the principal."""
        raise NotImplementedError

    def change(self, by: Any, row: Any, **wanted: Any) -> None:
        """Change a row through its action."""
        raise NotImplementedError

    def found(self, rows: QuerySet[Any], text: str) -> QuerySet[Any]:
        """The rows that a search finds; asked only where `search_help_text` says what it takes."""
        raise NotImplementedError

    # Who may what

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
        return (self.found(queryset, text) if text else queryset), False

    def get_changelist(self, request: HttpRequest, **kwargs: Any) -> type[OneOrder]:
        return OneOrder

    def lookup_allowed(self, lookup: str, value: str, request: HttpRequest) -> bool:
        """Only the filters that are offered: `?digest__startswith=` would tell a secret by bits."""
        return lookup in {getattr(one, "parameter_name", one) for one in self.list_filter}

    # A page, and what is sent from it

    def get_fieldsets(self, request: HttpRequest, obj: Any = None) -> Any:
        if obj is None and self.add_form is not None:
            return [(None, {"fields": list(self.add_form.base_fields)})]
        return self.layout

    def get_readonly_fields(self, request: HttpRequest, obj: Any = None) -> Any:
        if obj is None:
            return ()
        shown = [name for _, part in self.layout for name in part["fields"]]
        return [name for name in shown if name not in self.changes]

    def get_form(self, request: Any, obj: Any = None, change: bool = False, **kwargs: Any) -> Any:
        kwargs["form"] = self.form if obj is not None else self.add_form or self.form
        made: Any = super().get_form(request, obj, change=change, **kwargs)
        made.refusal = getattr(request, "refusal", None)
        return made

    def changeform_view(
        self,
        request: Any,
        object_id: str | None = None,
        form_url: str = "",
        extra_context: dict[str, Any] | None = None,
    ) -> HttpResponse:
        """What the action refuses undoes all of it, and the form comes back with the reason."""
        page = partial(super().changeform_view, request, object_id, form_url)
        context = {"show_save_and_add_another": False, **(extra_context or {})}
        context["row_actions"] = self._offered(request, object_id)
        try:
            return page(context)
        except (ApiError, OperationalError) as refused:
            request.refusal = error = as_api_error(refused)
            response = page(context)
            return with_refusal(response, cast("ApiError", error))

    def save_form(self, request: HttpRequest, form: Any, change: bool) -> Any:
        """Call the action: nothing else makes a change from a form that was sent."""
        by = cast("SiteRequest", request).principal
        if not change:
            return self.add(by, **form.wanted)
        self.change(by, form.instance, **form.wanted)
        return form.instance

    def save_model(self, request: HttpRequest, obj: Any, form: Any, change: bool) -> None:
        """The action has saved it."""

    def save_related(self, request: HttpRequest, form: Any, formsets: Any, change: bool) -> None:
        """The action has saved all that belongs to it."""

    def log_addition(self, request: HttpRequest, obj: Any, message: Any) -> Any:
        """The action has recorded its event; there is no second log."""

    log_change = log_addition

    # Row actions

    def get_urls(self) -> list[Any]:
        label, name = self.opts.app_label, self.opts.model_name
        kept = {f"{label}_{name}_{page}" for page in PAGES}
        view = self.admin_site.admin_view(self.row_action_view)
        return [
            *(line for line in super().get_urls() if line.name in kept),
            path("<int:pk>/<slug:name>/", view, name=f"{label}_{name}_row_action"),
        ]

    def _offered(self, request: HttpRequest, object_id: str | None) -> list[tuple[str, RowAction]]:
        """The actions that a row offers now, each with its address."""
        row = self.get_object(request, object_id) if object_id and self.row_actions else None
        if row is None:
            return []
        offered = [one for one in self.row_actions if one.offered(row)]
        return [(self.address("row_action", row.pk, one.name), one) for one in offered]

    def address(self, page: str, *args: Any) -> str:
        name = f"admin:{self.opts.app_label}_{self.opts.model_name}_{page}"
        return reverse(name, args=args, current_app=self.admin_site.name)

    def row_action_view(self, request: HttpRequest, pk: int, name: str) -> HttpResponse:
        """Ask, and on POST do it; a refusal is shown on the page of the row."""
        row = self.get_queryset(request).filter(pk=pk).first()
        action = next((one for one in self.row_actions if one.name == name), None)
        if row is None or action is None:
            raise Http404
        if request.method == "POST":
            return self._go(request, row, action)
        if not action.offered(row):
            return HttpResponseRedirect(self.address("change", pk))
        context = {
            "title": f"{action.label}: {row}",
            "row": row,
            "row_action": action,
            "list": self.address("changelist"),
            "back": self.address("change", pk),
        }
        return self.render(request, "admin/staff_row_action.html", context)

    def render(
        self, request: HttpRequest, template: str, context: dict[str, Any], status: int = 200
    ) -> HttpResponse:
        """A page beside Django's, with what all pages of the admin show."""
        shared = {**self.admin_site.each_context(request), "opts": self.opts}
        return TemplateResponse(request, template, {**shared, **context}, status=status)

    def _go(self, request: HttpRequest, row: Any, action: RowAction) -> HttpResponse:
        told, back = str(row), self.address("change", row.pk)
        try:
            action.act(by=cast("SiteRequest", request).principal, row=row)
        except (ApiError, OperationalError) as refused:
            messages.error(request, cast("ApiError", as_api_error(refused)).detail)
            return HttpResponseRedirect(back)
        messages.success(request, action.done.format(told))
        gone = not self.get_queryset(request).filter(pk=row.pk).exists()
        return HttpResponseRedirect(self.address("changelist") if gone else back)
