"""The threads of the repository `tide-table`: one nests deeply, one asks, one announces."""

from __future__ import annotations

from apps.repos.access import RepoAccess
from apps.threads.actions import create_reply, create_thread, delete_reply, update_reply
from apps.threads.kinds import Priority, ThreadKind
from apps.threads.models import Reply, Thread
from config.demo.example import Example

QUESTION = """\
On 3 June the table said 21:40, and the quay was wet at 21:15. I see three reasons:

1. summer time is counted twice
2. the phase of **M2** is wrong by some twelve degrees, see #5
3. the wind, see #4

```console
$ python3 -m tides amber-quay
Amber Quay
Mon 03 Jun 21:40   4.91 m  high
```
"""
CODE = """\
I would look at the phase first. Twenty-five minutes are

```python
>>> 25 / 60 * 28.9841042
12.076710083333333
```

degrees of M2.
"""


def discuss(example: Example) -> None:
    """Open the threads."""
    late_water(example)
    datum(example)
    create_thread(
        by=example.alice,
        title="Version 1.1 is out",
        body="Heights are in centimetres now, and the log of a gauge can be read. Thanks, @bob!",
        kind=ThreadKind.ANNOUNCEMENT,
    )


def late_water(example: Example) -> None:
    """A thread nine levels deep, with a deleted reply in the middle, and one that was edited."""
    alice, bob, carol, dave = example.alice, example.bob, example.carol, example.dave
    thread = create_thread(
        by=carol,
        title="High water comes 25 minutes early at Amber Quay",
        body=QUESTION,
        kind=ThreadKind.ISSUE,
        priority=Priority.HIGH,
    )
    commit = example.repo.branch_sha("main") or ""
    said = [
        (bob, "question", "Which clock does the quay have?"),
        (carol, "answer", "The harbour master's, in UTC. So it is not summer time."),
        (alice, "comment", CODE),
        (dave, "comment", "It is the wind. It always is."),
        (alice, "question", "On a calm day?"),
        (bob, "comment", f"Nothing of it has changed since {commit[:10]}, as far as I see."),
        (dave, "answer", "Then it is the phase: my gauge says 112.5. @carol, can you measure?"),
        (carol, "answer", "Next spring tide, from the steps."),
        (alice, "suggestion", "Let us take the mean of #5 and yours."),
    ]
    chain = nest(thread, said)
    edited = chain[1]
    update_reply(by=carol, reply=edited, body="The harbour master's. So it is not summer time.")
    text = "The harbour master's clock, in **UTC**: I have asked. So it is not summer time."
    update_reply(by=carol, reply=edited, body=text)
    delete_reply(by=dave, reply=chain[3])
    create_reply(by=bob, thread=thread, kind="comment", body="Gull Island is right, by the way.")


def nest(thread: Thread, said: list[tuple[RepoAccess, str, str]]) -> list[Reply]:
    """Replies, each to the one before."""
    chain: list[Reply] = []
    for by, kind, body in said:
        parent = chain[-1].number if chain else None
        chain.append(
            create_reply(by=by, thread=thread, kind=kind, body=body, parent_reply_number=parent)
        )
    return chain


def datum(example: Example) -> None:
    """A question with an answer, which has a link."""
    thread = create_thread(
        by=example.dave,
        title="Above what are the heights?",
        body="Above the sea bed, above the chart's datum, or above something else?",
        kind=ThreadKind.QUESTION,
    )
    create_reply(
        by=example.bob,
        thread=thread,
        kind="answer",
        body="Above the datum of the chart: `height_at()` says so.",
        links=[{"kind": "file", "target": "tides/harmonics.py"}],
    )
