# SPDX-License-Identifier: Apache-2.0
"""What processes use: threads, open files, memory; and which processes there are."""

from __future__ import annotations

import contextlib
from pathlib import Path
from typing import NamedTuple


class Resources(NamedTuple):
    """What a process uses at one moment."""

    threads: int
    files: int
    memory_mb: float

    @classmethod
    def of(cls, pid):
        """Look at a process."""
        status = Path(f'/proc/{pid}/status').read_text()
        fields = dict(line.split(':', 1) for line in status.splitlines() if ':' in line)
        return cls(
            threads=int(fields['Threads']),
            files=len(list(Path(f'/proc/{pid}/fd').iterdir())),
            memory_mb=int(fields['VmRSS'].split()[0]) / 1024,
        )

    @classmethod
    def of_all(cls, pids):
        """Add up what processes use."""
        found = [cls.of(pid) for pid in pids]
        return cls(*(sum(each) for each in zip(*found, strict=True)))


def children(pid):
    """The pids of the children of a process, the oldest first."""
    found = []
    for task in Path(f'/proc/{pid}/task').iterdir():
        with contextlib.suppress(FileNotFoundError):
            found += [int(each) for each in (task / 'children').read_text().split()]
    return sorted(found)
