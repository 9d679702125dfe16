# SPDX-License-Identifier: Apache-2.0
"""Measure the journal of claims: microseconds per request of one claim.

benchmarks/journal.py [--directory /var/lib/nova] [--requests 500] [--repeat 20]
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
import time
import uuid
from collections.abc import Iterator

from novasched.journal.store import FileJournal
from novasched.ports import Intent


def intents() -> Iterator[Intent]:
    """Yield claims of different servers on two providers."""
    root, storage = str(uuid.uuid4()), str(uuid.uuid4())
    amounts = {root: {'VCPU': 1, 'MEMORY_MB': 2048}, storage: {'DISK_GB': 20}}
    while True:
        server = str(uuid.uuid4())
        yield Intent(f'req-{server}', server, uuid.uuid4().hex, amounts)


def measure(journal: FileJournal, requests: int) -> float:
    """Return the microseconds of one request, of so many."""
    asked = [intent for intent, _ in zip(intents(), range(requests), strict=False)]
    since = time.perf_counter()
    for intent in asked:
        (entry,) = journal.intend([intent])
        entry.answering()
        entry.settle()
    return (time.perf_counter() - since) / requests * 1e6


def main() -> None:
    """Print the fastest, the median and the slowest round."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument('--directory')
    parser.add_argument('--requests', type=int, default=500)
    parser.add_argument('--repeat', type=int, default=20)
    wanted = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=wanted.directory) as directory:
        journal = FileJournal(directory)
        took = [measure(journal, wanted.requests) for _ in range(wanted.repeat)]
        journal.close()
    print(  # noqa: T201
        f'{min(took):.0f} {statistics.median(took):.0f} {max(took):.0f} us per request'
    )


if __name__ == '__main__':
    main()
