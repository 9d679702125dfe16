# SPDX-License-Identifier: Apache-2.0
"""What an answer does not have in it, in sentences without their stop."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping

from novasched.inspection.questions.schedulers import keeps_none, unseen
from novasched.inspection.texts.lines import counted


def missing_parts(
    unanswered: Iterable[str] | None = None,
    without_log: Iterable[str] = (),
    cells: Iterable[str] = (),
    stopped: Collection[str] = (),
) -> Iterator[str]:
    """Yield a sentence on each scheduler and cell that is not in an answer.

    ``cells`` may be a mapping to the numbers of their hosts; those that have
    ``stopped`` are among them.
    """
    for host in unanswered or ():
        yield unseen(host)
    for host in without_log:
        yield keeps_none(host)
    counts = cells if isinstance(cells, Mapping) else {}
    for cell in cells:
        if cell in stopped:
            yield f'{cell} stopped answering; its servers are not in this'
            continue
        hosts = counted(counts[cell], 'host') if cell in counts else 'hosts'
        are = 'is' if hosts == '1 host' else 'are'
        yield f'{cell} does not answer; its {hosts} {are} not in this'
