"""The SQL for pulls that wait for a review agrees with the rules for one pull."""

from __future__ import annotations

import datetime as dt
from collections import Counter
from itertools import cycle, product
from types import SimpleNamespace

import pytest
from django.db import connection
from django.db.models import F
from django.utils import timezone

from apps.accounts.models import User
from apps.pulls import rules
from apps.pulls.approval import Eligibility, approval_of, asks, names_approvers
from apps.pulls.models import Pull, PullStatus, Review, ReviewRequest, ReviewStatus
from apps.pulls.queries import awaiting_review_from
from apps.pulls.review_requests import pending_by_pull
from apps.repos.access import level_on
from apps.repos.models import Protection, Repo, Visibility, protects
from apps.repos.models.protection import glob_matches
from apps.teams.models import Member, Role, Team
from tests.factories import (
    ApproverFactory,
    MemberFactory,
    ProtectionFactory,
    PullFactory,
    RepoFactory,
    ReviewFactory,
    TeamFactory,
    UserFactory,
)
from tests.principals import principal_of
from tests.pulls import paths

SHA = "a" * 40


def waits(pull: Pull, person: User) -> bool:
    """Whether a pull waits for this person, by the rules for one pull."""
    return Rules(pull).ask(person)


class Rules:
    """The rules for one pull, whose rows are read once."""

    def __init__(self, pull: Pull) -> None:
        self.pull, self.team = pull, pull.repo.owner_team
        self.eligibility, self.decisions = Eligibility.of(pull), approval_of(pull).decisions
        self.requested = {row.user_id for row in pending_by_pull([pull.pk]).get(pull.pk, ())}

    def ask(self, person: User) -> bool:
        """Whether the pull asks this person for a review."""
        repo = self.pull.repo
        role = self.team.role_of(person.pk) if self.team else None
        level = level_on(principal_of(person), repo, role)
        plain = User(pk=person.pk, is_active=person.is_active)
        own_level = level_on(principal_of(plain), repo, role)
        decided = [row for row in self.decisions if row.created_by_id == person.pk]
        if self.pull.status != PullStatus.OPEN or not rules.takes_changes(repo):
            return False
        return person.pk in self.requested or (
            any(
                asks(rule, person, own_level)
                for rule in self.eligibility.protections
                if rule.required_approvals or names_approvers(rule)
            )
            and self.eligibility.reason_against(person, level) is None
            and all(row.status == ReviewStatus.DISMISSED or self.is_void(row) for row in decided)
        )

    def is_void(self, review: Review) -> bool:
        """Whether this is an approval for a former target."""
        is_approval = review.status == ReviewStatus.APPROVED
        return is_approval and self.eligibility.is_of_former_target(review)


@pytest.fixture
def crowd(db):
    """People of every role, and open pulls in repositories of every kind."""
    people = {role.value: UserFactory.create() for role in Role}
    people |= {name: UserFactory.create() for name in ("stranger", "named", "gone", "author")}
    people["staff"] = UserFactory.create(staff=True)
    team = TeamFactory.create(owner=people["owner"])
    for role in set(Role) - {Role.OWNER}:
        MemberFactory.create(team=team, user=people[role], role=role)
    MemberFactory.create(team=team, user=people["gone"], role=Role.ADMIN)
    User.objects.filter(pk=people["gone"].pk).update(is_active=False)
    people["gone"].refresh_from_db()
    idle = TeamFactory.create(owner=people["owner"])
    made = []
    for owner, visibility in product((team, idle, people["stranger"]), Visibility):
        repo = RepoFactory.create(owner=owner, visibility=visibility)
        nobody, some = (ProtectionFactory.create(repo=repo, branch=f"{n}/*") for n in "ab")
        ProtectionFactory.create(repo=repo, branch="a/b")
        ProtectionFactory.create(repo=repo, branch="main", required_approvals=0)
        for name in ("named", "viewer", "staff", "gone", "author"):
            ApproverFactory.create(protection=some, user=people[name])
        assert not nobody.approvers.exists()
        made += [
            PullFactory.create(
                repo=repo,
                target_branch=target,
                head_sha=SHA,
                head_pushed_by=people[pusher] if pusher else None,
                thread__created_by=people[author],
            )
            for target, author, pusher in PULLS
        ]
    archived = Repo.objects.get(pk=made[0].repo_id)
    archived.is_archived = True
    archived.save()
    Team.objects.filter(pk=idle.pk).update(is_active=False)
    if connection.vendor == "postgresql":  # it assumes empty tables until they are analyzed
        with connection.cursor() as cursor:
            cursor.execute("ANALYZE")
    pulls = Pull.objects.select_related("thread", "repo__owner_team", "repo__owner_user")
    return SimpleNamespace(people=people, pulls=list(pulls), team=team)


PULLS = [
    *((target, "author", "author") for target in ("main", "a/x", "b/x", "a/b", "a/b/c")),
    ("a/x", "member", "author"),
    ("a/x", "author", "member"),
    ("b/x", "author", "named"),
    ("b/x", "member", "member"),
    ("b/x", "author", None),
]
"""The target, the author, and the person who pushed the head."""


def found(person: User, caller: User) -> set[int]:
    rows = awaiting_review_from(Pull.objects.all(), person, principal_of(caller))
    return {row.pk for row in rows}


def test_it_says_what_the_rules_say_of_each_pull(crowd):
    Pull.objects.filter(pk__in=[pull.pk for pull in crowd.pulls[::7]]).update(head_sha=None)
    for n, status in enumerate((PullStatus.DRAFT, PullStatus.CLOSED, PullStatus.MERGED)):
        ids = [pull.pk for pull in crowd.pulls[n::11]]
        Pull.objects.filter(pk__in=ids).update(status=status)
    for pull in crowd.pulls:
        pull.refresh_from_db(fields=["status", "head_sha"])
    counts, said = {}, [Rules(pull) for pull in crowd.pulls]
    for name, person in crowd.people.items():
        pks = {row.pull.pk for row in said if row.ask(person)}
        assert found(person, crowd.people["staff"]) == pks, name
        counts[name] = len(pks)
    assert counts["gone"] == 0
    assert min(count for name, count in counts.items() if name != "gone") > 0, counts


def test_the_decision_made_last_is_what_counts(crowd):
    """A comment is no decision, and a dismissal asks for a new one."""
    words = (*ReviewStatus, None)
    stories = list(product(words, words))
    named, staff = crowd.people["named"], crowd.people["staff"]
    waiting = [pull for pull in crowd.pulls if waits(pull, named)]
    now = timezone.now()
    for n, story in enumerate(stories):
        pull = waiting[n % len(waiting)]
        pull.reviews.all().delete()
        ReviewFactory.create(pull=pull, created_by=staff)  # another person's review does not count
        for later, status in enumerate(filter(None, story)):
            at = now + dt.timedelta(seconds=later)
            ReviewFactory.create(pull=pull, created_by=named, status=status, decided_at=at)
        assert (pull.pk in found(named, staff)) == waits(pull, named), story


def test_requests_are_waited_for_until_they_are_fulfilled(crowd):
    """Also if no protection asks for the person, but only of people who can read the pull."""
    now, stories = timezone.now(), [*product((*ReviewStatus, None), (-1, 1))]
    staff, counts = crowd.people["staff"], Counter[str]()
    for name, person in crowd.people.items():
        pulls = [pull for pull in crowd.pulls if pull.thread.created_by_id != person.pk]
        for pull, (status, offset) in zip(pulls, cycle(stories), strict=False):
            ReviewRequest.objects.create(
                pull=pull, user=person, requested_by=staff, requested_at=now
            )
            if status:
                at = now + dt.timedelta(seconds=offset)
                ReviewFactory.create(pull=pull, created_by=person, status=status, decided_at=at)
        pks = {pull.pk for pull in crowd.pulls if waits(pull, person)}
        assert found(person, staff) == pks, name
        counts[name] = len(pks)
    assert counts["gone"] == 0 < counts["stranger"]


def test_an_approval_for_a_former_target_is_waited_for_again(crowd):
    named, staff = crowd.people["named"], crowd.people["staff"]
    [first, second, *_] = [pull for pull in crowd.pulls if waits(pull, named)]
    for pull, status in ((first, "approved"), (second, "changes_requested")):
        ReviewFactory.create(pull=pull, created_by=named, status=status)
        assert pull.pk not in found(named, staff)
        pull.target_changed_at = timezone.now()
        pull.save()
    assert waits(first, named) and first.pk in found(named, staff)
    assert not waits(second, named) and second.pk not in found(named, staff)


def test_who_is_in_a_team_is_not_told_to_strangers(crowd):
    """A protection that names nobody asks for all who may write, which would tell who they are."""
    people = crowd.people
    public = Pull.objects.filter(repo__visibility=Visibility.PUBLIC, repo__owner_team=crowd.team)
    unnamed = set(public.filter(target_branch="a/x").values_list("pk", flat=True))
    assert found(people["member"], people["viewer"]) & unnamed
    assert found(people["member"], people["member"]) & unnamed
    assert not found(people["member"], people["stranger"]) & unnamed
    named = set(public.filter(target_branch="b/x").values_list("pk", flat=True))
    assert found(people["named"], people["stranger"]) & named


def test_it_is_asked_over_the_api(api, make, team_repo, alice, bob, carol, sam):
    for branch, approver in (("main", bob), ("release/*", None)):
        make.protection(team_repo, branch, by=alice, approver=approver)
    make.pull(team_repo, by=alice, title="Named")
    make.pull(team_repo, by=alice, target="release/1", title="Anybody")
    make.pull(team_repo, by=bob, target="release/2", title="Of bob")
    make.pull(team_repo, by=alice, target="dev", title="Unprotected")

    def waiting(caller: User, name: str) -> list[str]:
        page = api(caller).get(f"/pulls?awaiting_review_from={name}").gives()
        return [row["title"] for row in page["results"]]

    assert waiting(bob, "self") == waiting(sam, "BOB") == ["Anybody", "Named"]
    assert waiting(alice, "self") == ["Of bob"]
    assert waiting(sam, "self") == waiting(carol, "bob") == waiting(alice, "carol") == []
    [pull] = Pull.objects.filter(thread__title="Named")
    review = api(bob).post(paths.reviews(pull), status="commented").gives(201)
    assert waiting(bob, "self") == ["Named", "Anybody"]
    url = f"{paths.reviews(pull)}/{review['uuid']}"
    api(bob).put(url, status="changes_requested").gives()
    assert waiting(bob, "self") == ["Anybody"]
    api(alice).put(url, status="dismissed").gives()
    assert waiting(bob, "self") == ["Named", "Anybody"]
    Member.objects.filter(user=bob).delete()
    assert waiting(sam, "bob") == []


PATTERNS = ["main", "Main", "*", "a*", "*a", "*/*", "a/*", "*/a", "a/*/c", "a*b*c", "%", "_", "a_c"]
PATTERNS += ["*%*", "**/a", "a/*b*/c", "*.*", "a-*", "{a}", "a/b"]
NAMES = ["main", "MAIN", "a", "aa", "ab", "abc", "a/b", "a/b/c", "a/bb/c", "a//c", "b/a", "x/y/z"]
NAMES += ["100%", "_", "a_c", "axc", "v1.0", "a-b", "{a}", "xaxbxc", "axbx/c", "a/xbx/c", "/a"]


def test_a_glob_in_sql_is_what_it_is_elsewhere(db):
    repo = RepoFactory.create()
    for pattern in PATTERNS:
        ProtectionFactory.create(repo=repo, branch=pattern)
    for name in NAMES:
        PullFactory.create(repo=repo, target_branch=name)
    matching = Protection.objects.filter(protects(F("branch"), F("repo__pulls__target_branch")))
    pairs = set(matching.values_list("branch", "repo__pulls__target_branch"))
    assert pairs == {pair for pair in product(PATTERNS, NAMES) if glob_matches(*pair)}
    assert len(pairs) > len(PATTERNS)
