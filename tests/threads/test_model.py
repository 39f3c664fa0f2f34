"""After any replies, edits and deletions, readers see the tree of replies that a model predicts.

The same random steps are applied to the API and to the model; each response must agree.
"""

from __future__ import annotations

from typing import Any

import pytest
from django.db import transaction
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.threads import paths

KINDS = ["reply", "answer", "answer", "edit", "delete", "delete"]
STEPS = st.lists(st.tuples(st.sampled_from(KINDS), st.integers(0, 30)), max_size=25)


class Model:
    """Parents and bodies of replies, by number. The body of a deleted reply is None."""

    def __init__(self) -> None:
        self.parents: dict[int, int | None] = {}
        self.bodies: dict[int, str | None] = {}

    def add(self, parent: int | None, body: str) -> None:
        number = len(self.parents) + 1
        self.parents[number], self.bodies[number] = parent, body

    def below(self, number: int | None) -> list[int]:
        return [reply for reply, parent in self.parents.items() if parent == number]

    def shown(self, number: int) -> bool:
        """Whether readers see a reply. A deleted reply is shown above a live one, at any depth."""
        return self.bodies[number] is not None or any(map(self.shown, self.below(number)))

    def tree(self, number: int | None = None, depth: int = 0) -> list[tuple[Any, ...]]:
        """Number, parent, depth, whether deleted, and body of the shown replies, in tree order."""
        rows = []
        for reply in filter(self.shown, self.below(number)):
            body = self.bodies[reply]
            rows += [(reply, number, depth, body is None, body or "")]
            rows += self.tree(reply, depth + 1)
        return rows


def as_model(record: dict[str, Any]) -> tuple[Any, ...]:
    names = ("number", "parent_reply_number", "depth", "is_deleted", "body")
    return tuple(record.get(name) for name in names)


class Story:
    """Steps in one thread, applied to the API and to the model."""

    def __init__(self, api: Any, thread: Any) -> None:
        self.api, self.thread, self.model = api, thread, Model()

    def tell(self, step: str, at: int) -> None:
        numbers = [*self.model.parents]
        number = numbers[at % len(numbers)] if numbers else None
        if step == "reply" or number is None:
            self.reply(None)
        elif step == "answer":
            self.reply(number)
        elif self.model.bodies[number] is None:
            self.refused(step, number)
        else:
            self.change(step, number)

    def reply(self, parent: int | None) -> None:
        body = f"Reply to {parent}."
        below = {} if parent is None else {"parent_reply_number": parent}
        sent = {"kind": "comment", "body": body, **below}
        answer = self.api.post(paths.replies(self.thread), **sent)
        if parent is not None and self.model.bodies[parent] is None:
            answer.fails(409, "parent_reply_deleted")
        else:
            self.model.add(parent, body)
            assert answer.gives(201)["number"] == len(self.model.parents)

    def change(self, step: str, number: int) -> None:
        path = f"{paths.replies(self.thread)}/{number}"
        if step == "delete":
            self.api.delete(path).gives(204)
            self.model.bodies[number] = None
        else:
            self.model.bodies[number] = body = f"{self.model.bodies[number]}!"
            assert self.api.patch(path, body=body).gives()["body"] == body

    def refused(self, step: str, number: int) -> None:
        path = f"{paths.replies(self.thread)}/{number}"
        if step == "delete":
            self.api.delete(path).fails(409, "reply_already_deleted")
        else:
            status = 409 if self.model.shown(number) else 404
            assert self.api.patch(path, body="x").status == status

    def compare(self) -> None:
        tree = self.model.tree()
        whole = self.api.get(paths.thread(self.thread)).gives()
        assert [as_model(reply) for reply in whole["replies"]] == tree
        listed = self.api.get(f"{paths.replies(self.thread)}?per_page=100&render=html").gives()
        assert [as_model(record) for record in listed["results"]] == tree
        assert [bool(record["body_html"]) for record in listed["results"]] == [
            not is_deleted for _, _, _, is_deleted, _ in tree
        ]
        for number in self.model.parents:
            read = self.api.get(f"{paths.replies(self.thread)}/{number}")
            assert read.status == (200 if self.model.shown(number) else 404)
        live = [body for body in self.model.bodies.values() if body is not None]
        assert (whole["reply_count"], whole["participant_count"]) == (len(live), 1)


def play(api: Any, thread: Any, steps: list[tuple[str, int]]) -> None:
    """Run the steps, and roll the database back."""
    with transaction.atomic():
        story = Story(api, thread)
        for step, at in steps:
            story.tell(step, at)
        story.compare()
        transaction.set_rollback(True)
    thread.refresh_from_db()


@pytest.mark.parametrize(
    "examples", [6, pytest.param(60, marks=[pytest.mark.slow, pytest.mark.once])]
)
def test_what_readers_see_is_what_the_model_says(api, thread, alice, examples):
    reader = api(alice)

    @settings(max_examples=examples, suppress_health_check=[*HealthCheck])
    @given(STEPS)
    def tell(steps: list[tuple[str, int]]) -> None:
        play(reader, thread, steps)

    tell()
