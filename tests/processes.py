"""Memory and child processes of servers, from /proc."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

STAYS = "--batch-command --buffer"
"""In the command line of a git that stays for further questions."""


def memory(*pids: int, field: str = "VmRSS") -> int:
    """The memory of these processes in bytes; with `VmHWM` their peaks."""
    statuses = [Path(f"/proc/{pid}/status").read_text() for pid in pids]
    sizes = [re.findall(rf"{field}:\s+(\d+) kB", status)[0] for status in statuses]
    return sum(map(int, sizes)) * 1024


def peak_memory(*pids: int) -> int:
    return memory(*pids, field="VmHWM")


def proportional_memory(*pids: int) -> float:
    """The memory of these processes in MB, where a page that processes share counts in parts."""
    rollups = [Path(f"/proc/{pid}/smaps_rollup").read_text() for pid in pids]
    return sum(int(re.findall(r"(?m)^Pss: +(\d+) kB", text)[0]) for text in rollups) / 1024


def git_processes(*pids: int) -> list[str]:
    """The command lines of the git processes that these processes are running, without those that
    stay.
    """
    parents = ",".join(map(str, pids))
    command = ["ps", "-ww", "-o", "args=", "--ppid", parents]
    processes = subprocess.run(command, capture_output=True, text=True, check=False).stdout
    gits = [line for line in processes.splitlines() if "git" in line and "--git-dir" in line]
    return [line for line in gits if STAYS not in line]
