"""Any text at all, for tests whose examples are made up."""

from __future__ import annotations

from hypothesis import strategies as st

LETTERS = st.characters(exclude_categories=["Cs"])
"""Whatever UTF-8 can write. The alphabet that `st.text()` takes by itself is the same, and in a
fresh clone each worker finds it by trying a million characters one by one, for seconds.
"""


def texts(*, max_size: int | None = None) -> st.SearchStrategy[str]:
    return st.text(LETTERS, max_size=max_size)
