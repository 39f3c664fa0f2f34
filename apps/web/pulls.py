"""`…/pulls`: the pulls of a repository, and one with its conversation and its verdict."""

from __future__ import annotations

import datetime as dt
from collections.abc import Sequence
from typing import Any

from django.http import HttpResponse

from apps.core.access import Level
from apps.core.errors import Invalid, Unavailable
from apps.core.statements import values_of
from apps.events.kinds import Kind, words_of
from apps.events.models import Event
from apps.pulls import actions
from apps.pulls.approval import Approval, Eligibility, approval_by, readiness_of
from apps.pulls.filters import PullFilterSet
from apps.pulls.models import PULL_ROW, Pull, PullStatus, Review
from apps.pulls.queries import PULLS, get_pull, list_pulls, list_reviews
from apps.pulls.serializers import TITLE_MAX, pull_records, review_record
from apps.repos.access import RepoAccess
from apps.repos.models import BRANCHES
from apps.threads.models import Reply, Thread
from apps.threads.queries import begun_at, list_replies
from apps.threads.serializers import reply_record
from apps.web.bodies import with_html
from apps.web.comparisons import comparison_or_reason
from apps.web.decorators import FORM, repo_page
from apps.web.forms import PageForm
from apps.web.frame import render_repo_page, repo_context
from apps.web.pull_contents import inline_changes
from apps.web.pull_forms import (
    STRATEGIES,
    EditPull,
    MergeForm,
    PullForm,
    PullSearch,
    ReviewForm,
    SetStatus,
)
from apps.web.responses import PageRequest, page_number, page_of, redirect_to_path
from apps.web.thread_forms import REPLY_KINDS, ReplyForm
from apps.web.threads import REPLIES, name_parents, on_page
from apps.web.verdicts import verdict_of

POST = ("POST",)
TOLD = [
    *(Kind.PULL_PUSHED, Kind.PULL_DRAFTED, Kind.PULL_READIED, Kind.PULL_CLOSED),
    *(Kind.PULL_REOPENED, Kind.PULL_MERGED, Kind.REVIEW_DISMISSED),
]
"""The events that stand in the conversation; what they tell is nowhere else on the page."""
LIVE = " ".join(
    kind for kind in Kind if kind.startswith(("reply-", "pull-", "review-", "branch-pushed"))
)
"""The events that an open page of a pull follows."""
MOST_TOLD = 200
MOST_REVIEWS = 200
EVER = dt.datetime.min.replace(tzinfo=dt.UTC)
NEVER = dt.datetime.max.replace(tzinfo=dt.UTC)
MOST_BRANCHES = 100
"""Branches that are proposed in a form."""


@repo_page()
def pulls(request: PageRequest, access: RepoAccess) -> HttpResponse:
    """The list, with a form that narrows it."""
    number, form = page_number(request), PullSearch(request.GET)
    rows: Any = PULLS.of(repo=access.repo.pk)
    if form.filters:
        filters = PullFilterSet(form.filters, queryset=Pull.objects.all(), request=request)
        if filters.errors:
            raise Invalid("validation_failed", "Unknown filter value.")
        rows = filters.filter_queryset(list_pulls(access.repo.pk))
    page = page_of(request, number, rows, list)
    placed = [(row, access.repo) for row in page["results"]]
    page["results"] = pull_records(placed, access.principal, "")
    return render_repo_page(
        request,
        access,
        "pulls",
        tab="pulls",
        page=page,
        form=form,
        is_narrowed=bool(form.filters),
    )


@repo_page(methods=FORM, throttle="pulls", signed_in=True)
def new_pull(request: PageRequest, access: RepoAccess) -> HttpResponse:
    """Open a pull. Its branches can be named in the address: `?head=topic&base=main`."""
    repo, head = access.repo, request.GET.get("head", "")
    base, comparison = request.GET.get("base", repo.default_branch), None
    if request.method == "GET" and head:
        comparison, _ = comparison_or_reason(request, access, base, head)
    form = PullForm(
        request, source_branch=head, target_branch=base, title=proposed_title(comparison)
    )
    if request.method == "POST" and form.is_valid():
        with form.refusals():
            made = actions.create_pull(by=access, **form.cleaned_data)
            return redirect_to_path(f"/{repo.path}/pulls/{made.number}")
    names = repo.refs.filter(full_name__startswith=BRANCHES).order_by("-updated_at")
    found = names.values_list("full_name", flat=True)[:MOST_BRANCHES]
    branches = [name.removeprefix(BRANCHES) for name in found]
    shown = {"branches": branches, "comparison": comparison, **repo_context(access, "pulls")}
    return form.shown(request, "new_pull", **shown)


def proposed_title(comparison: dict[str, Any] | None) -> str:
    """What the only commit says it does; "" where there are several."""
    if comparison is None or comparison["ahead"] != 1 or not comparison["days"]:
        return ""
    return str(comparison["days"][0]["commits"][0]["subject"])[:TITLE_MAX]


@repo_page()
def pull(request: PageRequest, access: RepoAccess, number: int) -> HttpResponse:
    """The conversation of a pull, and whether it can be merged."""
    return show_pull(request, access, get_pull(access.repo, number), page_number(request))


def show_pull(
    request: PageRequest,
    access: RepoAccess,
    found: Pull,
    number: int,
    *,
    reply_form: PageForm | None = None,
    answered: Reply | None = None,
    review_form: PageForm | None = None,
    merge_form: PageForm | None = None,
) -> HttpResponse:
    """The page of a pull. Of its forms one may be as it was sent, with what is wrong with it."""
    context = repo_context(access, "pulls")
    record = pull_record(found, access)
    reviews = [*list_reviews(found)[: MOST_REVIEWS + 1]]
    approval = approval_of_page(found, reviews)
    shown = [review_record(one, approval.eligibility) for one in reviews[:MOST_REVIEWS]]
    page, items = conversation(request, found, number, shown)
    address = on_page(f"/{access.repo.path}{found.segment}", number)
    with_texts(request, access, address, record, page["results"], shown)
    form = reply_form or review_form or merge_form or PageForm(request, again=True)
    verdict = verdict_or_none(found, access, approval)
    return form.shown(
        request,
        "pull",
        pull=record,
        thread={"web_url": f"/{access.repo.path}/threads/{record['number']}"},
        page=page,
        items=items,
        live_kinds=LIVE,
        verdict=verdict,
        strategies=strategies(verdict),
        reply_form=reply_form or ReplyForm(request, again=True, kind=REPLY_KINDS[0]),
        answered=answered,
        **forms_of(request, found, review_form, merge_form),
        version=found.thread.version,
        diff=None if answered else inline_changes(request, found),  # who answers has a link
        is_author=request.principal.person_id == found.thread.created_by_id,
        **context,
    )


def with_texts(
    request: PageRequest,
    access: RepoAccess,
    address: str,
    pull: dict[str, Any],
    replies: list[Any],
    reviews: list[Any],
) -> None:
    """Add the HTML of their texts to the records; replies and reviews have it stored."""
    stored = [(Reply.objects, replies), (Review.objects, reviews)]
    managers = [manager for manager, records in stored if records]
    with_html(request, access, [pull, *replies, *reviews], *managers, address=address)


def forms_of(
    request: PageRequest,
    found: Pull,
    review_form: PageForm | None,
    merge_form: PageForm | None,
) -> dict[str, PageForm]:
    """The forms of a review and of merging, which send the head that the page shows."""
    seen = {"expected_head_sha": found.head_sha or ""}
    return {
        "review_form": review_form or ReviewForm(request, again=True, status="approved", **seen),
        "merge_form": merge_form or MergeForm(request, again=True, **seen),
    }


def pull_record(found: Pull, access: RepoAccess) -> dict[str, Any]:
    """The record of one pull, with addresses as pages have them."""
    [record] = pull_records([(values_of(found, PULL_ROW), access.repo)], access.principal, "")
    return record


def approval_of_page(found: Pull, reviews: Sequence[Review]) -> Approval:
    """What these reviews of the page say; where there are more, all are asked for when needed."""
    eligibility = Eligibility.of(found)
    if len(reviews) > MOST_REVIEWS:
        return Approval(eligibility)
    return approval_by(eligibility, reviews)


def verdict_or_none(
    found: Pull, access: RepoAccess, approval: Approval | None = None
) -> dict[str, Any] | None:
    """None where git cannot tell in time: the rest of the page does not wait for it."""
    try:
        return verdict_of(readiness_of(found, approval), access)
    except Unavailable:
        return None


def strategies(verdict: dict[str, Any] | None) -> list[tuple[str, str, bool]]:
    """Each way of merging: its word, its name, and whether it is possible now."""
    allowed = verdict["record"]["allowed_strategies"] if verdict else []
    return [(str(one), text, str(one) in allowed) for one, text in STRATEGIES.items()]


def conversation(
    request: PageRequest, found: Pull, number: int, reviews: Sequence[dict[str, Any]]
) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """A page of replies, and these with the reviews and events of the same time, oldest first.

    A reply stays with those below it.
    """
    thread = found.thread
    page = page_of(
        request,
        number,
        list_replies(thread),
        lambda row: reply_record(row, thread.number),
        size=REPLIES,
    )
    replies = page["results"]
    name_parents(replies)
    since, until = times_of(thread, number, is_last=page["next"] is None)
    others = [
        *({"at": one["created_at"], "review": one} for one in reviews),
        *({"at": one.created_at, "event": one, "words": words_of(one.kind)} for one in told(found)),
    ]
    begun: dt.datetime | None = None
    items: list[dict[str, Any]] = []
    for reply in replies:
        begun = reply.get("created_at", begun) if not reply["depth"] or begun is None else begun
        items.append({"at": begun or thread.created_at, "reply": reply})
    items += [one for one in others if since <= one["at"] < until]
    return page, sorted(items, key=lambda one: one["at"])


def times_of(thread: Thread, number: int, *, is_last: bool) -> tuple[dt.datetime, dt.datetime]:
    """From when and until when reviews and events stand on this page of replies."""
    since = EVER if number == 1 else begun_at(thread, (number - 1) * REPLIES)
    until = NEVER if is_last else begun_at(thread, number * REPLIES)
    return since or NEVER, until or NEVER


def told(found: Pull) -> list[Event]:
    """The newest of the events that stand in the conversation, oldest first."""
    rows = Event.objects.filter(thread_id=found.thread_id, kind__in=TOLD).select_related("actor")
    return [*rows.order_by("-id")[:MOST_TOLD]][::-1]


@repo_page(methods=POST, throttle="pulls")
def review(request: PageRequest, access: RepoAccess, number: int) -> HttpResponse:
    """Comment, approve or request changes, of the head that the page has shown."""
    found, form = get_pull(access.repo, number), ReviewForm(request)
    if form.is_valid():
        sent = dict(form.cleaned_data)
        seen = sent.pop("expected_head_sha") or None
        with form.refusals():
            made = actions.create_review(by=access, pull=found, expected_head_sha=seen, **sent)
            return redirect_to_path(f"/{access.repo.path}/pulls/{number}#review-{made.uuid}")
    return show_pull(request, access, found, 1, review_form=form)


@repo_page(Level.WRITE, methods=POST, throttle="pulls")
def merge(request: PageRequest, access: RepoAccess, number: int) -> HttpResponse:
    """Merge the head that the page has shown. A refusal shows the page with its verdict."""
    found, form = get_pull(access.repo, number), MergeForm(request)
    if form.is_valid():
        with form.refusals():
            actions.merge_pull(by=access, pull=found, **form.cleaned_data)
            return redirect_to_path(f"/{access.repo.path}/pulls/{number}#verdict")
    return show_pull(request, access, get_pull(access.repo, number), 1, merge_form=form)


@repo_page(methods=POST, throttle="pulls")
def status(request: PageRequest, access: RepoAccess, number: int) -> HttpResponse:
    """Close a pull, open it again, or make it a draft."""
    found, form = get_pull(access.repo, number), SetStatus(request)
    if form.is_valid():
        with form.refusals():
            actions.update_pull(
                by=access, pull=found, status=PullStatus(form.cleaned_data["status"])
            )
            return redirect_to_path(f"/{access.repo.path}/pulls/{number}")
    return show_pull(request, access, get_pull(access.repo, number), 1, merge_form=form)


@repo_page(methods=FORM, throttle="pulls", signed_in=True)
def edit_pull(request: PageRequest, access: RepoAccess, number: int) -> HttpResponse:
    """Change title and text, as its author or with write access."""
    found = get_pull(access.repo, number)
    access.require_author_or(Level.WRITE, found.thread.created_by_id, "pull")
    form = EditPull(request, title=found.thread.title, body=found.thread.body)
    if request.method == "POST" and form.is_valid():
        with form.refusals():
            actions.update_pull(by=access, pull=found, **form.changes())
            return redirect_to_path(f"/{access.repo.path}/pulls/{number}")
    return form.shown(request, "edit_pull", pull=found, **repo_context(access, "pulls"))
