"""`…/threads`: the threads of a repository, and one thread with its replies."""

from __future__ import annotations

from typing import Any

from django.http import Http404, HttpResponse, HttpResponseRedirect

from apps.core.access import Level
from apps.core.statements import values_of
from apps.pulls.queries import get_pull
from apps.repos.access import RepoAccess
from apps.threads import actions
from apps.threads.filters import ThreadFilterSet
from apps.threads.models import THREAD_ROW, Reply, Thread
from apps.threads.queries import (
    THREADS,
    Participants,
    get_reply,
    get_thread,
    list_reply_versions,
    list_thread_versions,
    list_threads,
)
from apps.threads.rules import KINDS, check_creator
from apps.threads.serializers import thread_record
from apps.web.conversations import (
    REPLY_KINDS,
    EditReply,
    EditThread,
    ReplyForm,
    ThreadFilters,
    ThreadForm,
    address_of,
    on_page,
    page_of_replies,
    page_of_reply,
    with_html,
)
from apps.web.decorators import FORM, repo_page
from apps.web.forms import PageForm
from apps.web.frame import render_repo_page, repo_context
from apps.web.pulls import show_pull
from apps.web.responses import PageRequest, page_number, page_of, redirect_to

MOST_PARTICIPANTS = 30


@repo_page()
def threads(request: PageRequest, access: RepoAccess) -> HttpResponse:
    """The list of threads, with a form that filters it."""
    form = ThreadFilters(request.GET)
    rows: Any = THREADS.of(repo=access.repo.pk)
    if form.filters:
        queryset = list_threads(access.repo.pk)
        rows = form.apply(ThreadFilterSet, request, Thread.objects.all(), queryset)
    page = page_of(request, rows, lambda row: thread_record(row, access.repo, ""))
    return render_repo_page(request, access, "threads", tab="threads", page=page, form=form)


@repo_page(methods=FORM, throttle="threads")
def new_thread(request: PageRequest, access: RepoAccess) -> HttpResponse:
    """Open a thread."""
    form = ThreadForm(request, kind=KINDS[0])
    if form.is_valid():
        with form.refusals():
            thread = actions.create_thread(access=access, **form.cleaned_data)
            return redirect_to(address_of(access, thread))
    return form.render_page(request, "new_thread", **repo_context(access, "threads"))


@repo_page()
def thread(request: PageRequest, access: RepoAccess, number: int) -> HttpResponse:
    """A thread with a page of its replies, in the order of their tree."""
    thread, page = get_thread(access.repo, number), page_number(request)
    if thread.is_companion:
        return HttpResponseRedirect(f"/{access.repo.path}/pulls/{number}")
    return show_thread(request, access, thread, page, ReplyForm(request, kind=REPLY_KINDS[0]))


def show_thread(
    request: PageRequest,
    access: RepoAccess,
    thread: Thread,
    number: int,
    form: PageForm,
    answered: Reply | None = None,
) -> HttpResponse:
    """The page of a thread; `answered`: the reply that its form replies to."""
    context = repo_context(access, "threads")
    page = page_of_replies(request, thread, number)
    record = thread_record(values_of(thread, THREAD_ROW), access.repo, "")
    here = on_page(address_of(access, thread), number)
    records = [record, *page["results"]]
    with_html(request, access, records, Thread.objects, Reply.objects, address=here)
    return form.render_page(
        request,
        "thread",
        thread=record,
        page=page,
        answered=answered,
        participants=Participants(thread)[0:MOST_PARTICIPANTS],
        is_author=request.principal.person_id == thread.created_by_id,
        **context,
    )


@repo_page(methods=FORM, throttle="threads")
def edit_thread(request: PageRequest, access: RepoAccess, number: int) -> HttpResponse:
    """Change a thread; for its author and for people with write access."""
    thread = get_thread(access.repo, number)
    access.require_author_or(Level.WRITE, thread.created_by_id, "thread")
    form = EditThread(request, **{name: getattr(thread, name) for name in EditThread.base_fields})
    if form.is_valid():
        with form.refusals():
            actions.update_thread(access=access, thread=thread, **form.changes())
            return redirect_to(address_of(access, thread))
    context = {"thread": thread, **repo_context(access, "threads")}
    return form.render_page(request, "edit_thread", **context)


@repo_page(methods=FORM, throttle="threads")
def delete_thread(request: PageRequest, access: RepoAccess, number: int) -> HttpResponse:
    """Delete a thread, for good. A GET asks for confirmation."""
    thread, form = get_thread(access.repo, number), PageForm(request)
    access.require_author_or(Level.ADMIN, thread.created_by_id, "thread")
    if request.method == "POST":
        with form.refusals():
            actions.delete_thread(access=access, thread=thread)
            message = f"Thread #{number} deleted."
            return redirect_to(f"/{access.repo.path}/threads", request, message)
    context = {"thread": thread, **repo_context(access, "threads")}
    return form.render_page(request, "delete_thread", **context)


@repo_page()
def thread_versions(request: PageRequest, access: RepoAccess, number: int) -> HttpResponse:
    """The versions of a thread, newest first."""
    thread = get_thread(access.repo, number)
    rows, back = list_thread_versions(thread), address_of(access, thread)
    return show_versions(request, access, rows, f"{thread.title} #{number}", back)


def show_versions(
    request: PageRequest, access: RepoAccess, rows: Any, of: str, back: str
) -> HttpResponse:
    """The page of versions of a thread or reply; `of` names it, `back` is its address."""
    page = page_of(request, rows.reverse(), dict)
    with_html(request, access, page["results"])
    return render_repo_page(request, access, "versions", tab="threads", page=page, of=of, back=back)


@repo_page(methods=FORM, throttle="threads")
def reply(request: PageRequest, access: RepoAccess, number: int, to: int = 0) -> HttpResponse:
    """Reply to a thread, or to the reply `to`; the form is on the thread's or pull's page."""
    thread = get_thread(access.repo, number)
    answered = get_live_reply(thread, to) if to else None
    form = ReplyForm(request, kind=REPLY_KINDS[0])
    if form.is_valid():
        with form.refusals():
            reply = actions.create_reply(
                access=access, thread=thread, parent_reply_number=to or None, **form.cleaned_data
            )
            return redirect_to(address_of_reply(access, reply))
    page = page_of_reply(answered) if answered else page_number(request)
    if thread.is_companion:
        pull = get_pull(access.repo, number)
        return show_pull(request, access, pull, page, reply_form=form, answered=answered)
    return show_thread(request, access, thread, page, form, answered)


def get_live_reply(thread: Thread, number: int) -> Reply:
    reply = get_reply(thread, number, shown=True)
    if reply.is_deleted:
        raise Http404
    return reply


@repo_page()
def reply_link(request: PageRequest, access: RepoAccess, number: int, to: int) -> HttpResponse:
    """302 to the reply on its page of the thread."""
    reply = get_reply(get_thread(access.repo, number), to, shown=True)
    return HttpResponseRedirect(address_of_reply(access, reply))


def address_of_reply(access: RepoAccess, reply: Reply) -> str:
    page = on_page(address_of(access, reply.thread), page_of_reply(reply))
    return f"{page}#reply-{reply.number}"


@repo_page(methods=FORM, throttle="threads")
def edit_reply(request: PageRequest, access: RepoAccess, number: int, to: int) -> HttpResponse:
    """Change a reply; for its author. The old text stays as a version."""
    reply = get_own_reply(access, number, to)
    form = EditReply(request, kind=reply.kind, status=reply.status, body=reply.body)
    if form.is_valid():
        with form.refusals():
            actions.update_reply(access=access, reply=reply, **form.changes())
            return redirect_to(address_of_reply(access, reply))
    context = {"reply": reply, "kinds": REPLY_KINDS, **repo_context(access, "threads")}
    return form.render_page(request, "edit_reply", **context)


@repo_page(methods=FORM, throttle="threads")
def delete_reply(request: PageRequest, access: RepoAccess, number: int, to: int) -> HttpResponse:
    """Delete a reply, for good; replies to it stay. A GET asks for confirmation."""
    reply, form = get_own_reply(access, number, to), PageForm(request)
    if request.method == "POST":
        with form.refusals():
            actions.delete_reply(access=access, reply=reply)
            here, below = address_of_reply(access, reply), reply.live_descendants
            back = here if below else address_of(access, reply.thread)
            return redirect_to(back, request, f"Reply {to} deleted.")
    return form.render_page(request, "delete_reply", reply=reply, **repo_context(access, "threads"))


def get_own_reply(access: RepoAccess, number: int, to: int) -> Reply:
    """A reply by the caller that is not deleted; 404, 403."""
    reply = get_live_reply(get_thread(access.repo, number), to)
    check_creator(reply, access.user)
    return reply


@repo_page()
def reply_versions(request: PageRequest, access: RepoAccess, number: int, to: int) -> HttpResponse:
    """The versions of a reply, newest first; those of a deleted reply are for staff only."""
    reply = get_reply(get_thread(access.repo, number), to, shown=False)
    if reply.is_deleted and not access.principal.is_staff:
        raise Http404
    thread, rows = reply.thread, list_reply_versions(reply)
    back = address_of_reply(access, reply) if reply.is_shown else address_of(access, thread)
    of = f"reply {to} in {thread.title} #{number}"
    return show_versions(request, access, rows, of, back)
