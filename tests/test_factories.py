"""Each factory creates a row that the database accepts and the models validate."""

from __future__ import annotations

import pytest
from factory.django import DjangoModelFactory

from apps.teams.models import Role
from tests import factories

FACTORIES = [
    one
    for one in vars(factories).values()
    if isinstance(one, type)
    and issubclass(one, DjangoModelFactory)
    and one is not DjangoModelFactory
]


@pytest.mark.parametrize("made_by", FACTORIES, ids=lambda one: one.__name__)
def test_a_factory_makes_a_row_that_is_valid(made_by, db):
    made_by.create().refresh_from_db()


def test_people_come_as_traits(db):
    assert factories.UserFactory.create(staff=True).is_staff
    assert not factories.UserFactory.create(inactive=True).is_active
    assert factories.UserFactory.create(clear_password="secret").check_password("secret")
    assert factories.MemberFactory.create(viewer=True).role == Role.VIEWER


def test_a_model_has_one_factory_at_most():
    models = [one._meta.model for one in FACTORIES]
    assert len(models) == len({*models})
