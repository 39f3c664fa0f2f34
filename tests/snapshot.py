"""Files that a test compares with output of the code. To write them anew, with their test:

    REWRITE=1 bin/test -n0 tests/core/test_openapi.py

Read the diff before you commit it.
"""

from __future__ import annotations

import difflib
import json
import os
from pathlib import Path
from typing import Any

HOW = "REWRITE=1 bin/test -n0, and the file of this test"


def read(path: Path) -> Any:
    """The content of the file; None if it does not exist."""
    return json.loads(path.read_text()) if path.exists() else None


def check(path: Path, made: Any) -> None:
    """Assert that this is the content of the file; show the diff. With `REWRITE` write it first."""
    if os.environ.get("REWRITE"):
        path.write_text(written(made) + "\n")
    was = read(path)
    if was == made:
        return
    before, after = (written(value).splitlines() for value in (was, made))
    diff = "\n".join(difflib.unified_diff(before, after, path.name, "now", lineterm="", n=1))
    raise AssertionError(f"{diff}\nIf this is meant: {HOW}")


def written(value: Any) -> str:
    return json.dumps(value, indent=1, ensure_ascii=False)
