"""Memory and child processes of a process, from /proc."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path


def memory(pid: int, field: str = "VmRSS") -> int:
    """The memory of a process in bytes; with `VmHWM` its peak."""
    status = Path(f"/proc/{pid}/status").read_text()
    [size] = re.findall(rf"{field}:\s+(\d+) kB", status)
    return int(size) * 1024


def peak_memory(pid: int) -> int:
    return memory(pid, "VmHWM")


def git_processes(pid: int) -> list[str]:
    """The command lines of the git processes that a server is running."""
    command = ["ps", "-ww", "-o", "args=", "--ppid", str(pid)]
    processes = subprocess.run(command, capture_output=True, text=True, check=False).stdout
    return [line for line in processes.splitlines() if "git" in line and "--git-dir" in line]
