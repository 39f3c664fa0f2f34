"""`…/pulls`: the pulls of a repository; one pull with conversation, merge conditions, changes."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Any

from django.http import HttpResponse

from apps.core.access import Level
from apps.core.errors import ApiError, NotFound, Unavailable
from apps.core.statements import values_of
from apps.events.kinds import Kind, words_of
from apps.events.models import Event
from apps.git.diff import Changes, FileChange
from apps.git.merge import Strategy
from apps.git.run import GitError
from apps.pulls import actions, versions
from apps.pulls.approval import (
    Approval,
    Eligibility,
    approval_by,
    readiness_of,
)
from apps.pulls.draft_reviews import DraftReview, find_draft
from apps.pulls.filters import PullFilterSet
from apps.pulls.models import PULL_ROW, Pull, PullStatus, PullVersion, Review
from apps.pulls.queries import PULLS, get_pull, list_pulls, list_reviews
from apps.pulls.review_requests import list_requests, may_ask
from apps.pulls.reviewer_suggestions import Suggestion, suggestions
from apps.pulls.serializers import TITLE_MAX, pull_records, review_record
from apps.repos.access import RepoAccess, access_to
from apps.repos.models import Protection
from apps.repos.queries import newest_branches
from apps.threads.models import Reply, Thread
from apps.threads.queries import begun_at
from apps.web.code import who_asks
from apps.web.commits import comparison_or_reason, days_of
from apps.web.conversations import (
    REPLIES,
    REPLY_KINDS,
    STRATEGIES,
    EditPull,
    MergeForm,
    PullFilters,
    PullForm,
    ReplyForm,
    ReviewersForm,
    ReviewForm,
    SetStatus,
    UpdateBranchForm,
    on_page,
    page_of_replies,
    with_html,
)
from apps.web.decorators import FORM, POST, repo_page
from apps.web.diffs import Difference, shown_difference
from apps.web.forms import PageForm
from apps.web.frame import render_repo_page, repo_context
from apps.web.responses import PageRequest, page_number, page_of, redirect_to
from apps.web.suggested_changes import add_suggestions
from apps.web.verdicts import verdict_of

CONVERSATION_KINDS = [
    *(Kind.PULL_PUSHED, Kind.PULL_DRAFTED, Kind.PULL_READIED, Kind.PULL_CLOSED),
    *(Kind.PULL_REOPENED, Kind.PULL_MERGED, Kind.PULL_TARGET_CHANGED, Kind.REVIEW_DISMISSED),
    *(Kind.AUTO_MERGE_SET, Kind.AUTO_MERGE_ENDED),
    *(Kind.REVIEW_REQUESTED, Kind.REVIEW_REQUEST_REMOVED),
]
"""The events in the conversation; the page shows replies and reviews from their own rows."""
LIVE = " ".join(
    kind
    for kind in Kind
    if kind.startswith(("reply-", "pull-", "review-", "branch-", "status-", "auto-merge-"))
)
"""The kinds of events that an open page of a pull follows."""
MOST_EVENTS = 200
MOST_REVIEWS = 200
EVER = dt.datetime.min.replace(tzinfo=dt.UTC)
NEVER = dt.datetime.max.replace(tzinfo=dt.UTC)
MOST_VERSIONS = 50
"""Versions in menus, the newest."""
MOST_BRANCHES = 100
"""Branches in the suggestions of a form."""
INLINE_FILES, INLINE_ROWS = 20, 400
"""A pull with no more files and rows shows its changes below the conversation."""


@repo_page()
def pulls(request: PageRequest, access: RepoAccess) -> HttpResponse:
    """The list of pulls, with a form that filters it."""
    form = PullFilters(request.GET)
    rows: Any = PULLS.of(repo=access.repo.pk)
    if form.filters:
        queryset = list_pulls(access.repo.pk)
        rows = form.apply(PullFilterSet, request, Pull.objects.all(), queryset)
    page = page_of(request, rows, list)
    placed = [(row, access.repo) for row in page["results"]]
    page["results"] = pull_records(placed, access.principal, "")
    return render_repo_page(request, access, "pulls", tab="pulls", page=page, form=form)


@repo_page(methods=FORM, throttle="pulls")
def new_pull(request: PageRequest, access: RepoAccess) -> HttpResponse:
    """Open a pull; `?head=topic&base=main` fills in its branches."""
    repo, head = access.repo, request.GET.get("head", "")
    base, comparison = request.GET.get("base", repo.default_branch), None
    if request.method == "GET" and head:
        comparison, _ = comparison_or_reason(request, access, base, head)
    title = proposed_title(comparison)
    form = PullForm(request, source_branch=head, target_branch=base, title=title)
    if form.is_valid():
        with form.refusals():
            pull = actions.create_pull(access=access, **form.cleaned_data)
            return redirect_to(f"/{repo.path}/pulls/{pull.number}")
    branches = newest_branches(repo, MOST_BRANCHES)
    context = {"branches": branches, "comparison": comparison, **repo_context(access, "pulls")}
    return form.render_page(request, "new_pull", **context)


def proposed_title(comparison: dict[str, Any] | None) -> str:
    """The subject of the only commit; "" if there are several."""
    if comparison is None or comparison["ahead"] != 1 or not comparison["days"]:
        return ""
    return str(comparison["days"][0]["commits"][0]["subject"])[:TITLE_MAX]


@repo_page()
def pull(request: PageRequest, access: RepoAccess, number: int) -> HttpResponse:
    """The conversation and the merge conditions of a pull."""
    return show_pull(request, access, get_pull(access.repo, number), page_number(request))


def show_pull(
    request: PageRequest,
    access: RepoAccess,
    pull: Pull,
    number: int,
    *,
    answered: Reply | None = None,
    **submitted: PageForm,
) -> HttpResponse:
    """The page of a pull. `submitted`: one of `forms_of`, or another form, with errors."""
    record = pull_record(pull, access)
    reviews = [*list_reviews(pull)[: MOST_REVIEWS + 1]]
    eligibility, shown = Eligibility.of(pull), reviews[:MOST_REVIEWS]
    is_all = len(shown) == len(reviews)  # otherwise it queries them when needed
    approval = approval_by(eligibility, reviews) if is_all else Approval(eligibility)
    review_records = [review_record(review, eligibility) for review in shown]
    page, items = conversation(request, pull, number, review_records)
    replies, here = page["results"], on_page(record["web_url"], number)
    stored = [(Reply.objects, replies), (Review.objects, review_records)]
    managers = [manager for manager, records in stored if records]
    with_html(request, access, [record, *replies, *review_records], *managers, address=here)
    count = add_suggestions(replies)
    form = next(iter(submitted.values()), PageForm(request, unbound=True))
    return form.render_page(
        request,
        "pull",
        pull=record,
        thread={"web_url": f"/{access.repo.path}/threads/{record['number']}"},
        page=page,
        items=items,
        live_kinds=LIVE,
        suggestion_count=count,
        apply_address=apply_address(pull, access, count),
        **verdict_context(pull, access, approval),
        **reviewers_context(access, pull, eligibility.protections),
        **forms_context(request, access, pull, answered, submitted),
        version=pull.thread.version,
        diff=None if answered else inline_changes(request, pull),
        **repo_context(access, "pulls"),
    )


def forms_context(
    request: PageRequest,
    access: RepoAccess,
    pull: Pull,
    answered: Reply | None,
    submitted: dict[str, PageForm],
) -> dict[str, Any]:
    """The forms of the page, and the reader's draft review. `talk_form` replies or reviews."""
    draft = find_draft(pull, access.principal.person_id)
    forms = forms_of(request, pull, None if answered else draft) | submitted
    name = "review_form" if "review_form" in submitted else "reply_form"
    return {"answered": answered, "draft": draft, **forms, "talk_form": forms[name]}


def forms_of(
    request: PageRequest, pull: Pull, draft: DraftReview | None = None
) -> dict[str, PageForm]:
    """The forms of a pull's page. Those for reviewing and merging send head and target; the text of
    a reply or review begins with that of the draft.
    """
    expected = expectations(pull)
    text = draft.body if draft else ""
    return {
        "reply_form": ReplyForm(request, unbound=True, kind=REPLY_KINDS[0], body=text),
        "reviewers_form": ReviewersForm(request, unbound=True),
        "review_form": ReviewForm(
            request, unbound=True, status="approved", draft=draft and draft.uuid, **expected
        ),
        "merge_form": MergeForm.of(request, pull),
        "update_form": UpdateBranchForm(
            request, unbound=True, expected_head_sha=expected["expected_head_sha"]
        ),
    }


def expectations(pull: Pull) -> dict[str, str]:
    """The head and the target that a page shows, for the hidden fields of its forms."""
    return {
        "expected_head_sha": pull.head_sha or "",
        "expected_target_branch": pull.target_branch,
    }


def pull_record(pull: Pull, access: RepoAccess) -> dict[str, Any]:
    [record] = pull_records([(values_of(pull, PULL_ROW), access.repo)], access.principal, "")
    return record


def verdict_context(
    pull: Pull, access: RepoAccess, approval: Approval | None = None
) -> dict[str, Any]:
    """The context of `_pull_parts.html`. `verdict` is None if git does not answer in time: the page
    shows the rest. `strategies`: each with its label, and whether it is possible now.
    """
    try:
        verdict = verdict_of(readiness_of(pull, approval), access)
        allowed = verdict["record"]["allowed_strategies"]
    except Unavailable:
        verdict, allowed = None, []
    return {
        "verdict": verdict,
        "strategies": [(one, text, one in allowed) for one, text in STRATEGIES.items()],
        "auto_merge_strategy": pull.auto_merge and STRATEGIES[Strategy(pull.auto_merge.strategy)],
        "is_author": access.principal.person_id == pull.thread.created_by_id,
        "source": source_context(pull, access, verdict),
    }


def source_context(
    pull: Pull, access: RepoAccess, verdict: dict[str, Any] | None
) -> dict[str, Any]:
    """The state of the source branch, and whether the person may push to it. The branch is behind
    if git can merge it, but not by a fast-forward. One query; another for a fork of a team.
    """
    branch, _ = pull.tip_refs()
    source = pull.source_repo if pull.is_from_fork else access.repo
    merges = verdict["record"]["allowed_strategies"] if verdict else []
    return {
        "exists": branch is not None,
        "may_push": may_push_source(pull, access),
        "is_behind": pull.is_active and bool(merges) and Strategy.FAST_FORWARD not in merges,
        "can_delete": branch is not None and source and branch.name != source.default_branch,
    }


def may_push_source(pull: Pull, access: RepoAccess) -> bool:
    """Whether the caller may push to the source branch. One query for a fork of a team."""
    source = pull.source_repo if pull.is_from_fork else access.repo
    if source is None:
        return False
    own = access_to(access.principal, source) if pull.is_from_fork else access
    return own.level >= Level.WRITE and own.is_writable and access.is_writable


def apply_address(pull: Pull, access: RepoAccess, count: int) -> str:
    """The address of the page that applies suggestions; "" if the caller may not, or if there are
    none.
    """
    may_apply = count and pull.is_active and access.principal.is_signed_in
    if not may_apply or not may_push_source(pull, access):
        return ""
    return f"/{access.repo.path}/pulls/{pull.number}/apply-suggestions"


def conversation(
    request: PageRequest, pull: Pull, number: int, reviews: Sequence[dict[str, Any]]
) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """A page of replies, and the items of the page: its replies, and the reviews and events of the
    same time, oldest first. A reply stays with the replies to it.
    """
    thread = pull.thread
    page = page_of_replies(request, thread, number)
    since, until = times_of(thread, number, is_last=page["next"] is None)
    others = [{"at": review["created_at"], "review": review} for review in reviews]
    others += [
        {
            "at": event.created_at,
            "event": event,
            "words": words_of_event(event),
            "compare": versions_before_and_after(event),
        }
        for event in conversation_events(pull)
    ]
    begun: dt.datetime | None = None
    items: list[dict[str, Any]] = []
    for reply in page["results"]:
        begun = reply.get("created_at", begun) if not reply["depth"] or begun is None else begun
        items.append({"at": begun or thread.created_at, "reply": reply})
    items += [item for item in others if since <= item["at"] < until]
    return page, sorted(items, key=lambda item: item["at"])


def times_of(thread: Thread, number: int, *, is_last: bool) -> tuple[dt.datetime, dt.datetime]:
    """The times between which reviews and events belong to this page of replies."""
    since = EVER if number == 1 else begun_at(thread, (number - 1) * REPLIES)
    until = NEVER if is_last else begun_at(thread, number * REPLIES)
    return since or NEVER, until or NEVER


def words_of_event(event: Event) -> str:
    """The phrase of the event, with the reason, the person or the branches if it has them."""
    if event.kind == Kind.PULL_TARGET_CHANGED:
        return f"{words_of(event.kind)} from {event.data['before']} to {event.data['after']}"
    if event.kind in (Kind.REVIEW_REQUESTED, Kind.REVIEW_REQUEST_REMOVED):
        return f"{words_of(event.kind)}: {event.data['username']}"
    reason = event.data.get("reason")
    words = words_of(event.kind)
    return f"{words}: {reason.replace('_', ' ')}" if reason else words


def versions_before_and_after(event: Event) -> str:
    """The versions before and after a push, for the address of their comparison; "" if it is no
    push, or the first one.
    """
    number = event.data.get("version", 1) if event.kind == Kind.PULL_PUSHED else 1
    return f"{number - 1}...{number}" if number > 1 else ""


def conversation_events(pull: Pull) -> list[Event]:
    rows = Event.objects.filter(thread_id=pull.thread_id, kind__in=CONVERSATION_KINDS)
    return [*rows.select_related("actor").order_by("-id")[:MOST_EVENTS]][::-1]


@repo_page(methods=POST, throttle="pulls")
def review(request: PageRequest, access: RepoAccess, number: int) -> HttpResponse:
    """Review the head that the page has shown: comment, approve or request changes. Sends the draft
    that the page has shown.
    """
    pull, form = get_pull(access.repo, number), ReviewForm(request)
    if form.is_valid():
        with form.refusals():
            values = form.cleaned_data
            send = actions.submit_draft if values.pop("draft") else actions.create_review
            review = send(access=access, pull=pull, **values)
            return redirect_to(f"/{access.repo.path}/pulls/{number}#review-{review.uuid}")
    return show_pull(request, access, pull, 1, review_form=form)


@repo_page(Level.WRITE, methods=POST, throttle="pulls")
def merge(request: PageRequest, access: RepoAccess, number: int) -> HttpResponse:
    """Merge the head that the page has shown; if that is refused, show the page again."""
    pull, form = get_pull(access.repo, number), MergeForm(request)
    if form.is_valid():
        with form.refusals():
            values = form.cleaned_data | {"message": form.message_for(pull)}
            deletion = actions.merge_pull(access=access, pull=pull, **values)
            if deletion is None or deletion.error is None:
                return redirect_to(f"/{access.repo.path}/pulls/{number}#verdict")
            reason = f"The pull is merged, but its branch stays: {deletion.error.detail}"
            form.add_error(None, reason)
            form.refusal_status = deletion.error.status
    return show_pull(request, access, get_pull(access.repo, number), 1, merge_form=form)


@repo_page(Level.WRITE, methods=POST, throttle="pulls")
def auto_merge(request: PageRequest, access: RepoAccess, number: int) -> HttpResponse:
    """Let the worker merge the head that the page has shown, as soon as nothing blocks it."""
    pull, form = get_pull(access.repo, number), MergeForm(request)
    if form.is_valid():
        with form.refusals():
            values = form.cleaned_data | {"message": form.message_for(pull)}
            strategy = values.pop("merge_strategy")
            actions.set_auto_merge(access=access, pull=pull, strategy=strategy, **values)
            return redirect_to(f"/{access.repo.path}/pulls/{number}#verdict")
    return show_pull(request, access, get_pull(access.repo, number), 1, merge_form=form)


@repo_page(Level.WRITE, methods=POST, throttle="pulls")
def cancel_auto_merge(request: PageRequest, access: RepoAccess, number: int) -> HttpResponse:
    """End the auto-merge of a pull; also if it has ended meanwhile."""
    with suppress(NotFound):
        actions.cancel_auto_merge(access=access, pull=get_pull(access.repo, number))
    return redirect_to(f"/{access.repo.path}/pulls/{number}#verdict")


@repo_page(methods=POST, throttle="pulls")
def update_branch(request: PageRequest, access: RepoAccess, number: int) -> HttpResponse:
    """Merge the target into the branch of a pull; if that is refused, show the page again."""
    pull, form = get_pull(access.repo, number), UpdateBranchForm(request)
    if form.is_valid():
        with form.refusals():
            actions.update_branch(access=access, pull=pull, **form.cleaned_data)
            return redirect_to(f"/{access.repo.path}/pulls/{number}#verdict")
    return show_pull(request, access, get_pull(access.repo, number), 1, branch_form=form)


@repo_page(methods=POST, throttle="pulls")
def delete_source_branch(request: PageRequest, access: RepoAccess, number: int) -> HttpResponse:
    """Delete the branch of a merged or closed pull, if it is still at the head of the pull."""
    return move_source(request, access, number, actions.delete_source_branch)


@repo_page(methods=POST, throttle="pulls")
def restore_source_branch(request: PageRequest, access: RepoAccess, number: int) -> HttpResponse:
    """Create the deleted branch of a pull again."""
    return move_source(request, access, number, actions.restore_source_branch)


def move_source(
    request: PageRequest, access: RepoAccess, number: int, action: Callable[..., object]
) -> HttpResponse:
    """Call an action on the source branch; if it refuses, show the page again."""
    pull, form = get_pull(access.repo, number), PageForm(request)
    with form.refusals():
        action(access=access, pull=pull)
        return redirect_to(f"/{access.repo.path}/pulls/{number}#verdict")
    return show_pull(request, access, get_pull(access.repo, number), 1, branch_form=form)


@repo_page(methods=POST, throttle="pulls")
def status(request: PageRequest, access: RepoAccess, number: int) -> HttpResponse:
    """Close or reopen a pull, or make it a draft."""
    pull, form = get_pull(access.repo, number), SetStatus(request)
    if form.is_valid():
        with form.refusals():
            status = PullStatus(form.cleaned_data["status"])
            actions.update_pull(access=access, pull=pull, status=status)
            return redirect_to(f"/{access.repo.path}/pulls/{number}")
    return show_pull(request, access, get_pull(access.repo, number), 1, status_form=form)


@repo_page(methods=FORM, throttle="pulls")
def edit_pull(request: PageRequest, access: RepoAccess, number: int) -> HttpResponse:
    """Change title, text and target; for the author and for people with write access."""
    pull = get_pull(access.repo, number)
    access.require_author_or(Level.WRITE, pull.thread.created_by_id, "pull")
    branches = newest_branches(access.repo, MOST_BRANCHES) if pull.is_active else None
    form = EditPull(
        request,
        branches,
        title=pull.thread.title,
        body=pull.thread.body,
        target_branch=pull.target_branch,
    )
    if form.is_valid():
        with form.refusals():
            actions.update_pull(access=access, pull=pull, **form.changes())
            return redirect_to(f"/{access.repo.path}/pulls/{number}")
    return form.render_page(request, "edit_pull", pull=pull, **repo_context(access, "pulls"))


@repo_page(methods=POST, throttle="pulls")
def reviewers(request: PageRequest, access: RepoAccess, number: int) -> HttpResponse:
    """Ask somebody for a review, or take a request back."""
    pull, form = get_pull(access.repo, number), ReviewersForm(request)
    if form.is_valid():
        with form.refusals():
            add, remove = (
                [name] if (name := form.cleaned_data[field]) else []
                for field in ("reviewers", "remove")
            )
            actions.change_reviewers(access=access, pull=pull, add=add, remove=remove)
            return redirect_to(f"/{access.repo.path}/pulls/{number}#reviewers")
    return show_pull(request, access, get_pull(access.repo, number), 1, reviewers_form=form)


def reviewers_context(
    access: RepoAccess, pull: Pull, protections: Sequence[Protection]
) -> dict[str, Any]:
    """The requests for reviews, and people to ask if the caller may ask. git is not asked: authors
    of changed lines are suggested once the worker has cached them.
    """
    requests = list_requests(pull)
    may_ask_people = pull.is_active and access.is_writable and may_ask(access, pull)
    suggested: list[Suggestion] = []
    if may_ask_people:
        names = {row.user.username for row in requests}
        suggested = suggestions(pull, access.principal, names, None, protections)
    return {"requests": requests, "may_ask": may_ask_people, "suggestions": suggested}


@repo_page()
def pull_commits(request: PageRequest, access: RepoAccess, number: int) -> HttpResponse:
    """The commits of a pull, oldest first."""
    pull = get_pull(access.repo, number)
    version = versions.get_version(pull, None)
    commits = versions.commits_of(version, who_asks(request)) if version else []
    return render_repo_page(
        request,
        access,
        "pull_commits",
        tab="pulls",
        **pull_header(access, pull, "commits"),
        days=days_of(access.repo, commits, access.principal),
        left_out=(version.commit_count or 0) - len(commits) if version else 0,
    )


def pull_header(access: RepoAccess, pull: Pull, tab: str) -> dict[str, Any]:
    """The header of each tab of a pull, with 0 unmet conditions if git cannot tell them."""
    try:
        open_count = verdict_of(readiness_of(pull), access)["open_count"]
    except ApiError:
        open_count = 0
    return {
        "pull": pull_record(pull, access),
        "pull_tab": tab,
        "open_count": open_count,
        "last_version": pull.last_version,
        "is_author": access.principal.person_id == pull.thread.created_by_id,
    }


def difference_of(version: PullVersion, since: PullVersion | None, throttle_key: str) -> Difference:
    """The changes of a version, or its difference to an earlier one; 422, 503."""
    repo = version.pull.repo
    counted: Sequence[PullVersion | FileChange] = [version]
    if since is None:
        listing = versions.files_of(version, throttle_key)
    else:
        listing = versions.files_between(since, version, throttle_key)
        counted = listing.files
    additions = sum(one.additions or 0 for one in counted)
    deletions = sum(one.deletions or 0 for one in counted)
    changes = Changes(tuple(listing.files), listing.total, additions, deletions)
    address = f"/{repo.path}/pulls/{version.pull.number}/files"
    return Difference(repo, listing.old, listing.new, changes, address, throttle_key)


def inline_changes(request: PageRequest, pull: Pull) -> dict[str, Any] | None:
    """The changes of a small pull. None for a larger one, or if git is busy, fails or times out."""
    is_small = 0 < pull.changed_files <= INLINE_FILES
    if not is_small or pull.additions + pull.deletions > INLINE_ROWS:
        return None
    diff = None
    with suppress(ApiError, GitError):
        if version := versions.get_version(pull, None, with_files=True):
            difference = replace(difference_of(version, None, who_asks(request)), waits=False)
            diff = shown_difference(request, difference, is_paged=False)
    return diff if diff and diff["rows"] <= INLINE_ROWS else None


@repo_page()
def verdict(request: PageRequest, access: RepoAccess, number: int) -> HttpResponse:
    """The two parts of a pull's page that say whether it can be merged; scripts load them again."""
    pull = get_pull(access.repo, number)
    return render_repo_page(
        request,
        access,
        "_pull_parts",
        tab="pulls",
        pull=pull_record(pull, access),
        **verdict_context(pull, access),
        **forms_of(request, pull),
    )
