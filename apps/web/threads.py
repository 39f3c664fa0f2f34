"""`…/threads`: the threads of a repository, and one with its replies."""

from __future__ import annotations

from typing import Any

from django.contrib import messages
from django.http import HttpResponse, HttpResponseRedirect

from apps.core.access import Level
from apps.core.errors import Invalid
from apps.core.statements import values_of
from apps.repos.access import RepoAccess
from apps.threads import actions
from apps.threads.filters import ThreadFilterSet
from apps.threads.models import THREAD_ROW, Reply, Thread
from apps.threads.queries import (
    Participants,
    get_thread,
    list_replies,
    list_thread_versions,
    list_threads,
)
from apps.threads.rules import KINDS
from apps.threads.serializers import reply_record, thread_record
from apps.web.bodies import with_html
from apps.web.decorators import FORM, repo_page
from apps.web.forms import PageForm
from apps.web.frame import render_repo_page, repo_context
from apps.web.responses import PageRequest, page_number, page_of, redirect_to_path
from apps.web.thread_forms import REPLY_KINDS, EditThread, ReplyForm, ThreadForm, ThreadSearch

REPLIES = 200
"""Replies on a page."""
MOST_PARTICIPANTS = 30


@repo_page()
def threads(request: PageRequest, access: RepoAccess) -> HttpResponse:
    """The list, with a form that narrows it."""
    number, form = page_number(request), ThreadSearch(request.GET)
    chosen, rows = form.filters, list_threads(access.repo)
    filters = ThreadFilterSet(chosen, queryset=Thread.objects.all(), request=request)
    if chosen:
        if filters.errors:
            raise Invalid("validation_failed", "Unknown filter value.")
        rows = filters.filter_queryset(rows)
    page = page_of(request, number, rows, lambda row: record_of(row, access))
    return render_repo_page(
        request, access, "threads", tab="threads", page=page, form=form, is_narrowed=bool(chosen)
    )


def record_of(row: Any, access: RepoAccess) -> dict[str, Any]:
    return thread_record(row, access.repo, "")


@repo_page(methods=FORM, throttle="threads", signed_in=True)
def new_thread(request: PageRequest, access: RepoAccess) -> HttpResponse:
    """Open a thread."""
    form = ThreadForm(request, kind=KINDS[0])
    if request.method == "POST" and form.is_valid():
        with form.refusals():
            thread = actions.create_thread(by=access, **form.cleaned_data)
            return redirect_to_path(address_of(access, thread))
    return form.shown(request, "new_thread", **repo_context(access, "threads"))


@repo_page()
def thread(request: PageRequest, access: RepoAccess, number: int) -> HttpResponse:
    """A thread with 200 of its replies, in the order of their tree."""
    found, page = get_thread(access.repo, number), page_number(request)
    if found.is_companion:
        return HttpResponseRedirect(f"/{access.repo.path}/pulls/{number}")
    return show_thread(request, access, found, page, ReplyForm(request, kind=REPLY_KINDS[0]))


def show_thread(
    request: PageRequest,
    access: RepoAccess,
    found: Thread,
    number: int,
    form: PageForm,
    answered: Reply | None = None,
) -> HttpResponse:
    """The page of a thread; `answered`: the reply that the form at its end answers."""
    context = repo_context(access, "threads")
    page = page_of(
        request,
        number,
        list_replies(found),
        lambda row: reply_record(row, found.number),
        size=REPLIES,
    )
    record = record_of(values_of(found, THREAD_ROW), access)
    with_html(
        request,
        access,
        [record, *page["results"]],
        Thread.objects,
        Reply.objects,
        address=on_page(address_of(access, found), number),
    )
    name_parents(page["results"])
    return form.shown(
        request,
        "thread",
        thread=record,
        page=page,
        answered=answered,
        participants=Participants(found)[0:MOST_PARTICIPANTS],
        is_author=request.principal.person_id == found.created_by_id,
        **context,
    )


def name_parents(records: list[dict[str, Any]]) -> None:
    """Tell each reply whom it answers, where that reply is on the same page and not deleted."""
    names = {record["number"]: record["created_by_username"] for record in records}
    for record in records:
        record["to"] = names.get(record.get("parent_reply_number"))


def on_page(address: str, number: int) -> str:
    """The address of a page of replies, from 1."""
    return f"{address}?page={number}" if number > 1 else address


def address_of(access: RepoAccess, found: Thread) -> str:
    """Where the page of a thread, or of its pull, is."""
    return f"/{access.repo.path}{found.segment}"


@repo_page(methods=FORM, throttle="threads", signed_in=True)
def edit_thread(request: PageRequest, access: RepoAccess, number: int) -> HttpResponse:
    """Change title, text, kind, priority and status, as its author or with write access."""
    found = get_thread(access.repo, number)
    access.require_author_or(Level.WRITE, found.created_by_id, "thread")
    known = {name: getattr(found, name) for name in EditThread.base_fields}
    form = EditThread(request, **known)
    if request.method == "POST" and form.is_valid():
        with form.refusals():
            actions.update_thread(by=access, thread=found, **form.changes())
            return redirect_to_path(address_of(access, found))
    return form.shown(request, "edit_thread", thread=found, **repo_context(access, "threads"))


@repo_page(methods=FORM, throttle="threads", signed_in=True)
def delete_thread(request: PageRequest, access: RepoAccess, number: int) -> HttpResponse:
    """Asks first: a deleted thread does not come back."""
    found, form = get_thread(access.repo, number), PageForm(request)
    access.require_author_or(Level.ADMIN, found.created_by_id, "thread")
    if request.method == "POST":
        with form.refusals():
            actions.delete_thread(by=access, thread=found)
            messages.success(request, f"Thread #{number} deleted.")
            return redirect_to_path(f"/{access.repo.path}/threads")
    return form.shown(request, "delete_thread", thread=found, **repo_context(access, "threads"))


@repo_page()
def thread_versions(request: PageRequest, access: RepoAccess, number: int) -> HttpResponse:
    """What title and text have been, newest first."""
    found = get_thread(access.repo, number)
    rows = list_thread_versions(found).reverse()
    page = page_of(request, page_number(request), rows, dict)
    with_html(request, access, page["results"])
    return render_repo_page(
        request,
        access,
        "versions",
        tab="threads",
        page=page,
        of=f"{found.title} #{number}",
        back=address_of(access, found),
    )
