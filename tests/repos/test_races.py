"""Simultaneous forks, renames and creations have a defined outcome."""

from __future__ import annotations

import pytest

from apps.events.models import Event
from apps.repos import jobs
from apps.repos.actions import create_fork
from apps.repos.models import Fork, Repo
from tests.principals import access_of, space_access_of
from tests.races import Outcome, at_once

pytestmark = pytest.mark.django_db(transaction=True)


def test_of_two_forks_by_one_person_one_is_made(api, make, alice, carol):
    upstream = make.repo(alice, "api", by=alice, visibility="public")
    callers = [api(carol), api(carol)]
    answers = at_once(*(lambda c=c: c.post(f"{upstream.api_path}/forks") for c in callers))
    assert answers == {(201, None): 1, (409, "fork_exists"): 1}
    assert Fork.objects.count() == 1


def test_of_two_workers_one_makes_the_fork(make, alice, carol):
    upstream = make.repo(alice, "api", by=alice, visibility="public")
    create_fork(access=access_of(carol, upstream), into=space_access_of(carol, carol))
    at_once(*[lambda: Outcome(jobs.make_next_fork)] * 3)
    assert [fork.status for fork in Fork.objects.all()] == ["completed"]
    assert Repo.objects.filter(owner_user=carol).count() == 1
    assert Event.objects.filter(kind="fork-created").count() == 1


def test_of_two_repos_that_want_one_slug_one_gets_it(api, make, acme, alice):
    one, two = (make.repo(acme, slug, by=alice) for slug in ("one", "two"))
    first, second = api(alice), api(alice)
    answers = at_once(
        lambda: first.put(one.api_path, name="x", slug="same"),
        lambda: second.put(two.api_path, name="x", slug="same"),
    )
    assert answers == {(200, None): 1, (409, "slug_taken"): 1}
    slugs = set(Repo.objects.values_list("slug", flat=True))
    assert slugs in ({"same", "one"}, {"same", "two"})


def test_a_fork_steps_aside_for_whoever_takes_its_slug(api, make, alice, carol):
    """The first gets the slug. A later fork takes the next slug; a later creation is refused."""
    upstream = make.repo(alice, "api", by=alice, visibility="public")
    create_fork(access=access_of(carol, upstream), into=space_access_of(carol, carol))
    caller = api(carol)
    answers = at_once(
        lambda: Outcome(jobs.make_next_fork),
        lambda: caller.post("/users/carol/repos", name="Api", slug="api"),
    )
    slugs = sorted(Repo.objects.filter(owner_user=carol).values_list("slug", flat=True))
    assert [fork.status for fork in Fork.objects.all()] == ["completed"]
    if answers[201, None]:
        assert slugs == ["api", "api-2"]
    else:
        assert (answers[409, "slug_taken"], slugs) == (1, ["api"])
