"""`/search`: repositories, pulls, threads and people, by a part of their name or title."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from django import forms
from django.http import HttpResponse, QueryDict

from apps.accounts.queries import list_users
from apps.core.access import Level
from apps.core.errors import Invalid
from apps.core.pagination import with_parameters
from apps.pulls.filters import CrossRepoPullFilterSet
from apps.pulls.models import PULL_ROW, Pull
from apps.pulls.queries import with_open_pulls
from apps.pulls.serializers import pull_records
from apps.repos.queries import list_readable_repos
from apps.threads.filters import CrossRepoThreadFilterSet
from apps.threads.models import LISTED, THREAD_ROW, Thread, ThreadKind
from apps.threads.pagination import CrossRepoList, cursor_of, read_cursor
from apps.threads.serializers import thread_record
from apps.web.decorators import page
from apps.web.responses import PAGE_SIZE, PageRequest, page_of, render_page

Page = dict[str, Any]


class SearchForm(forms.Form):
    """The query; an empty one finds everything, newest first."""

    q = forms.CharField(
        label="Search",
        max_length=200,
        required=False,
        widget=forms.TextInput(attrs={"type": "search", "autocomplete": "off"}),
    )
    type = forms.CharField(required=False, widget=forms.HiddenInput)


@page(Level.NONE)
def search(request: PageRequest) -> HttpResponse:
    """The results of one type, `?type=`, by the same search as in the API."""
    form, result_type = SearchForm(request.GET, label_suffix=""), request.GET.get("type", "repos")
    if result_type not in TYPES or not form.is_valid():
        raise Invalid("validation_failed", "We cannot search for this. Try a shorter text.")
    text = form.cleaned_data["q"]
    name, find = TYPES[result_type]
    types = [
        (name, f"{request.path}?{with_parameters(QueryDict(), q=text or None, type=word)}", word)
        for word, (name, _) in TYPES.items()
    ]
    return render_page(
        request,
        "search",
        form=form,
        query=text,
        result_type=result_type,
        type_name=name,
        types=types,
        page=find(request, text),
    )


def repos(request: PageRequest, text: str) -> Page:
    rows = with_open_pulls(list_readable_repos(request.principal))
    return page_of(request, rows.search(text) if text else rows)


def users(request: PageRequest, text: str) -> Page:
    rows = list_users(request.principal)
    return page_of(request, rows.search(text) if text else rows)


def pulls(request: PageRequest, text: str) -> Page:
    rows: Any = Pull.objects.filter(thread__kind=ThreadKind.PULL.value)
    page = find_by_title(
        request, text, CrossRepoPullFilterSet, rows, [*PULL_ROW.values()], "thread__"
    )
    pairs = [(row.values, row.repo) for row in page["results"]]
    return {**page, "results": pull_records(pairs, request.principal, "")}


def threads(request: PageRequest, text: str) -> Page:
    rows: Any = Thread.objects.filter(LISTED)
    page = find_by_title(request, text, CrossRepoThreadFilterSet, rows, [*THREAD_ROW.values()])
    records = [thread_record(row.values, row.repo, "") for row in page["results"]]
    return {**page, "results": records}


def find_by_title(
    request: PageRequest, text: str, filters: Any, rows: Any, columns: list[str], thread: str = ""
) -> Page:
    """Rows with the text in their title, newest activity first; `?before=` is the cursor."""
    query = QueryDict(mutable=True)
    query["search"] = text
    filtered = filters(query, queryset=rows, request=request)
    across = CrossRepoList(
        rows=filtered.filter_queryset(rows) if filtered.is_valid() else rows.none(),
        columns=columns,
        principal=request.principal,
        thread=thread,
        is_narrow=bool(text),
    )
    before = request.GET.get("before")
    cursor = read_cursor("before", before) if before else None
    rows_found = across.page(after=None, before=cursor, size=PAGE_SIZE + 1, newest_first=True)
    results = rows_found[:PAGE_SIZE]
    older = {"before": cursor_of(results[-1].position)} if len(rows_found) > PAGE_SIZE else None
    newest = with_parameters(request.GET, before=None)
    return {
        "results": results,
        "next": f"{request.path}?{with_parameters(request.GET, **older)}" if older else None,
        "previous": f"{request.path}?{newest}" if before else None,
    }


TYPES: dict[str, tuple[str, Callable[[PageRequest, str], Page]]] = {
    "repos": ("Repositories", repos),
    "pulls": ("Pulls", pulls),
    "threads": ("Threads", threads),
    "users": ("People", users),
}
"""Label and search function by the value of `?type=`."""
