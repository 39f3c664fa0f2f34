"""Files, folders and raw files are read without starting git, if one stays for the repository."""

from __future__ import annotations

from typing import Any

import pytest

from tests.browse.code import LINK, SUBMODULE, Thing
from tests.test_queries import costing

pytestmark = pytest.mark.once
FILES: dict[bytes, Thing] = {b"README": b"Read.\n", b"d/e/f": b"1\n", b"d/g": b"\0\n"}
FILES |= {b"x": (LINK, b"d/g"), b"d/m": (SUBMODULE, b"1" * 40)}
ENDS = ["contents/d/e/f", "contents/x", "contents/d/m", "raw/d/e/f", "raw/x", "tree", "tree/d"]
ENDS += ["tree/d/e?sizes=true", "tree?sizes=true&ref={commit}", "contents/README?ref={commit}"]
ENDS += ["raw/README?ref={commit}"]
ABSENT = ["contents/d/none", "raw/none", "tree/none", "contents/d", "tree/README", "raw/d/m"]


@pytest.fixture
def statuses(api, repo, alice, commit) -> Any:
    """The status of the answer to each of these addresses."""
    person = api(alice)

    def read(ends: list[str]) -> list[int]:
        paths = [f"/api/v1{repo.api_path}/{end.format(commit=commit)}" for end in ends]
        return [person.client.get(path, headers=person.headers).status_code for path in paths]

    return read


def test_a_read_starts_git_once_and_no_later_one_does(statuses):
    with costing() as cost:
        assert statuses(["contents/d/g"]) == [200]
    assert cost.git == 1
    with costing() as cost:
        assert statuses(ENDS) == [200] * len(ENDS)
        assert {*statuses(ABSENT)} == {404, 422}
    assert cost.git == 0
