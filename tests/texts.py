"""Any text, for tests with generated examples."""

from __future__ import annotations

from hypothesis import strategies as st

LETTERS = st.characters(exclude_categories=["Cs"])
"""All characters of UTF-8. `st.text()` has the same alphabet by default, but in a new clone each
worker finds it by trying a million characters, for seconds.
"""


def texts(*, max_size: int | None = None) -> st.SearchStrategy[str]:
    return st.text(LETTERS, max_size=max_size)
