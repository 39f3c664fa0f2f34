"""Rows for tests, with one factory for each model.

Factories record no events and check no rules: use actions or the API for whatever a test is about.
`UserFactory.create(username="alice")`, `UserFactory.create(staff=True)`,
`MemberFactory.create(team=acme, viewer=True)`.
"""

from __future__ import annotations

from typing import Any

from django.contrib.auth.hashers import make_password
from factory.declarations import (
    LazyAttribute,
    LazyFunction,
    SelfAttribute,
    Sequence,
    SubFactory,
    Trait,
)
from factory.django import DjangoModelFactory
from factory.helpers import post_generation

from apps.accounts.models import PREFIX_LENGTH, ApiToken, User, digest, new_token
from apps.pulls.models import Pull, Review, ReviewStatus
from apps.repos.models import Approver, Fork, ForkStatus, Protection, Ref, Repo
from apps.teams.models import Member, Role, Team
from apps.threads.models import Thread, ThreadKind


class UserFactory(DjangoModelFactory[User]):
    class Meta:
        model = User
        skip_postgeneration_save = True

    class Params:
        staff = Trait(is_staff=True, is_superuser=True)
        inactive = Trait(is_active=False)
        clear_password: str | None = None

    username = Sequence(lambda n: f"user{n + 1}")
    password = LazyAttribute(lambda row: make_password(row.clear_password))


class ApiTokenFactory(DjangoModelFactory[ApiToken]):
    """`text` is the token; the row stores only its digest and its first characters."""

    class Meta:
        model = ApiToken

    class Params:
        text = LazyFunction(new_token)

    user = SubFactory(UserFactory)
    name = "tests"
    digest = LazyAttribute(lambda row: digest(row.text))
    token_prefix = LazyAttribute(lambda row: row.text[:PREFIX_LENGTH])


class TeamFactory(DjangoModelFactory[Team]):
    """`owner=alice` makes her its first member."""

    class Meta:
        model = Team
        skip_postgeneration_save = True

    slug = Sequence(lambda n: f"team{n + 1}")
    name = LazyAttribute(lambda row: row.slug.title())

    @post_generation  # type: ignore[untyped-decorator]
    def owner(self: Any, create: bool, owner: User | None, **_: Any) -> None:
        if owner is not None:
            MemberFactory.create(team=self, user=owner, role=Role.OWNER, added_by=owner)


class MemberFactory(DjangoModelFactory[Member]):
    class Meta:
        model = Member

    class Params:
        admin = Trait(role=Role.ADMIN)
        viewer = Trait(role=Role.VIEWER)

    team = SubFactory(TeamFactory)
    user = SubFactory(UserFactory)
    role = Role.MEMBER


class RepoFactory(DjangoModelFactory[Repo]):
    """A row without the directory of `actions.create_repo`. `owner` is a team or a user."""

    class Meta:
        model = Repo

    class Params:
        owner = SubFactory(TeamFactory)

    owner_team = LazyAttribute(lambda row: None if isinstance(row.owner, User) else row.owner)
    owner_user = LazyAttribute(lambda row: row.owner if isinstance(row.owner, User) else None)
    slug = Sequence(lambda n: f"repo{n + 1}")
    name = LazyAttribute(lambda row: row.slug.title())


class ForkFactory(DjangoModelFactory[Fork]):
    """The rows of a completed fork, without its copy. `owner` is a team or a user."""

    class Meta:
        model = Fork

    class Params:
        owner = SubFactory(UserFactory)

    upstream = SubFactory(RepoFactory)
    owner_team = LazyAttribute(lambda row: None if isinstance(row.owner, User) else row.owner)
    owner_user = LazyAttribute(lambda row: row.owner if isinstance(row.owner, User) else None)
    created_by = SubFactory(UserFactory)
    status = ForkStatus.COMPLETED
    repo = SubFactory(
        RepoFactory,
        owner=SelfAttribute("..owner"),
        upstream=SelfAttribute("..upstream"),
        visibility=SelfAttribute("..upstream.visibility"),
        slug=Sequence(lambda n: f"fork{n + 1}"),
        name="Fork",
    )


class RefFactory(DjangoModelFactory[Ref]):
    class Meta:
        model = Ref

    repo = SubFactory(RepoFactory)
    full_name = "refs/heads/main"
    sha = "a" * 40


class ProtectionFactory(DjangoModelFactory[Protection]):
    class Meta:
        model = Protection

    repo = SubFactory(RepoFactory)
    branch = "main"
    created_by = SubFactory(UserFactory)


class ApproverFactory(DjangoModelFactory[Approver]):
    class Meta:
        model = Approver

    protection = SubFactory(ProtectionFactory)
    user = SubFactory(UserFactory)


class ThreadFactory(DjangoModelFactory[Thread]):
    class Meta:
        model = Thread

    repo = SubFactory(RepoFactory)
    number = LazyAttribute(lambda row: row.repo.take_number())
    title = "Slow pushes"
    created_by = SubFactory(UserFactory)


class PullFactory(DjangoModelFactory[Pull]):
    class Meta:
        model = Pull

    repo = SubFactory(RepoFactory)
    thread = SubFactory(ThreadFactory, repo=SelfAttribute("..repo"), kind=ThreadKind.PULL)
    number = SelfAttribute("thread.number")
    source_repo = SelfAttribute("repo")
    source_branch = "feature"
    target_branch = "main"


class ReviewFactory(DjangoModelFactory[Review]):
    class Meta:
        model = Review

    pull = SubFactory(PullFactory)
    status = ReviewStatus.APPROVED
    created_by = SubFactory(UserFactory)
