"""`…/threads/{n}/replies`: what people do with replies, which the page of the thread shows."""

from __future__ import annotations

from django.contrib import messages
from django.http import Http404, HttpResponse, HttpResponseRedirect

from apps.pulls.queries import get_pull
from apps.repos.access import RepoAccess
from apps.threads import actions
from apps.threads.models import Reply, Thread
from apps.threads.queries import get_reply, get_thread, index_of, list_reply_versions
from apps.threads.rules import check_creator
from apps.web.bodies import with_html
from apps.web.decorators import FORM, repo_page
from apps.web.forms import PageForm
from apps.web.frame import render_repo_page, repo_context
from apps.web.pulls import show_pull
from apps.web.responses import PageRequest, page_number, page_of, redirect_to_path
from apps.web.thread_forms import REPLY_KINDS, EditReply, ReplyForm
from apps.web.threads import REPLIES, address_of, on_page, show_thread


@repo_page(methods=FORM, throttle="threads", signed_in=True)
def reply(request: PageRequest, access: RepoAccess, number: int, to: int = 0) -> HttpResponse:
    """Reply to a thread, or to the reply `to`. The page is the thread's, with the form filled in
    as it was sent.
    """
    thread = get_thread(access.repo, number)
    answered = live_reply(thread, to) if to else None
    form = ReplyForm(request, kind=REPLY_KINDS[0])
    if request.method == "POST" and form.is_valid():
        with form.refusals():
            made = actions.create_reply(
                by=access, thread=thread, parent_reply_number=to or None, **form.cleaned_data
            )
            return redirect_to_path(address_of_reply(access, made))
    page = page_of_reply(answered) if answered else page_number(request)
    if thread.is_companion:
        pull = get_pull(access.repo, number)
        return show_pull(request, access, pull, page, reply_form=form, answered=answered)
    return show_thread(request, access, thread, page, form, answered)


def live_reply(thread: Thread, number: int) -> Reply:
    """A reply that has not been deleted; 404."""
    found = get_reply(thread, number, shown=True)
    if found.is_deleted:
        raise Http404
    return found


@repo_page()
def reply_link(request: PageRequest, access: RepoAccess, number: int, to: int) -> HttpResponse:
    """302 to the page of the thread that has the reply."""
    found = get_reply(get_thread(access.repo, number), to, shown=True)
    return HttpResponseRedirect(address_of_reply(access, found))


def page_of_reply(reply: Reply) -> int:
    """Which page of its thread has the reply, from 1; a query where there may be others."""
    if reply.thread.last_reply_number <= REPLIES:
        return 1
    return index_of(reply) // REPLIES + 1


def address_of_reply(access: RepoAccess, reply: Reply) -> str:
    """Where the reply is on the page of its thread."""
    page = on_page(address_of(access, reply.thread), page_of_reply(reply))
    return f"{page}#reply-{reply.number}"


@repo_page(methods=FORM, throttle="threads", signed_in=True)
def edit_reply(request: PageRequest, access: RepoAccess, number: int, to: int) -> HttpResponse:
    """Change a reply, as who has written it. What it said before is kept."""
    found = own_reply(access, number, to)
    form = EditReply(request, kind=found.kind, status=found.status, body=found.body)
    if request.method == "POST" and form.is_valid():
        with form.refusals():
            actions.update_reply(by=access, reply=found, **form.changes())
            return redirect_to_path(address_of_reply(access, found))
    return form.shown(
        request, "edit_reply", reply=found, kinds=REPLY_KINDS, **repo_context(access, "threads")
    )


@repo_page(methods=FORM, throttle="threads", signed_in=True)
def delete_reply(request: PageRequest, access: RepoAccess, number: int, to: int) -> HttpResponse:
    """Asks first: the text does not come back, while the answers to it stay."""
    found = own_reply(access, number, to)
    form = PageForm(request)
    if request.method == "POST":
        with form.refusals():
            actions.delete_reply(by=access, reply=found)
            messages.success(request, f"Reply {to} deleted.")
            here, below = address_of_reply(access, found), found.live_descendants
            return redirect_to_path(here if below else address_of(access, found.thread))
    return form.shown(request, "delete_reply", reply=found, **repo_context(access, "threads"))


def own_reply(access: RepoAccess, number: int, to: int) -> Reply:
    """A live reply that the caller has written; 404, 403."""
    found = live_reply(get_thread(access.repo, number), to)
    check_creator(found, access.user)
    return found


@repo_page()
def reply_versions(request: PageRequest, access: RepoAccess, number: int, to: int) -> HttpResponse:
    """What a reply has been, newest first; of a deleted one only staff sees it."""
    found = get_reply(get_thread(access.repo, number), to, shown=False)
    if found.is_deleted and not access.principal.is_staff:
        raise Http404
    rows = list_reply_versions(found).reverse()
    page = page_of(request, page_number(request), rows, dict)
    with_html(request, access, page["results"])
    return render_repo_page(
        request,
        access,
        "versions",
        tab="threads",
        page=page,
        of=f"reply {to} in {found.thread.title} #{number}",
        back=address_of_reply(access, found)
        if found.is_shown
        else address_of(access, found.thread),
    )
