"""Time of rendering Markdown: an ordinary text, and 65,536 characters that are hard to render.

.venv/bin/python bench/rendering.py. Processor time of one thread, best of five; each hard text also
with as few signs as are still rendered (`MARKERS_MAX`), the rest being words.
"""

from __future__ import annotations

import time

from in_process import ROOT

from apps.core.markdown import MARKERS, MARKERS_MAX, references, render, with_links

LENGTH = 65_536
HARD = {
    **{sign: sign for sign in "[*>`_~<&|"},
    **{name: name for name in ("![", "[a](", "[a][", "**a ", "a**b", "`a", "[*", "~~a", "_*")},
    "nested quotes": "> ",
    "nested lists": "- ",
    "tasks": "- [ ] a\n",
    "tables": "|a|b|\n|-|-|\n",
    "headings": "# a\n",
    "tags": "<b>",
    "definitions": "[a]: b\n",
    "references": "#1 @a 1f2e3d4 ",
    "code": '```python\n"\n```\n',
}


def seconds(text: str) -> float:
    taken = []
    for _ in range(5):
        begin = time.thread_time()
        render(text)
        taken.append(time.thread_time() - begin)
    return min(taken)


def fewer(piece: str) -> str:
    """As much of it as is rendered, filled up with words."""
    signs = len(MARKERS.findall(piece)) or 1
    hard = piece * min(MARKERS_MAX // signs, LENGTH // len(piece))
    return (hard + " words" * LENGTH)[:LENGTH]


def main() -> None:
    page = (ROOT / "docs" / "architecture.md").read_text()
    print(f"docs/architecture.md, {len(page):,} characters: {1000 * seconds(page):.1f} ms")
    kept = render(page)
    begin = time.thread_time()
    with_links(kept, dict.fromkeys((one.text for one in references(kept)), "/"))
    print(f"its references for one reader: {1000 * (time.thread_time() - begin):.2f} ms")
    for name, piece in HARD.items():
        whole = (piece * LENGTH)[:LENGTH]
        print(f"{name:16} {1000 * seconds(whole):6.0f} ms {1000 * seconds(fewer(piece)):6.0f} ms")


if __name__ == "__main__":
    main()
