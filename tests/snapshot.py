"""Files that a test keeps equal to what the code makes. To write them anew, and then read the
diff before it is committed:

    REWRITE=1 bin/test -n0 tests/core/test_openapi.py tests/core/test_document.py tests/test_queries.py
"""

from __future__ import annotations

import difflib
import json
import os
from pathlib import Path
from typing import Any

HOW = __doc__.strip().splitlines()[-1].strip()


def read(path: Path) -> Any:
    """What the file holds; None where there is none yet."""
    return json.loads(path.read_text()) if path.exists() else None


def check(path: Path, made: Any, *, was: Any) -> None:
    """`made` is what the file holds (`was`, or a part of it); else shows the difference."""
    if was == made:
        return
    before, after = (written(value).splitlines() for value in (was, made))
    diff = "\n".join(difflib.unified_diff(before, after, path.name, "now", lineterm="", n=1))
    raise AssertionError(f"{diff}\nIf this is meant: {HOW}")


def rewriting() -> bool:
    return bool(os.environ.get("REWRITE"))


def write(path: Path, value: Any) -> None:
    path.write_text(written(value) + "\n")


def written(value: Any) -> str:
    return json.dumps(value, indent=1, ensure_ascii=False)
