# SPDX-License-Identifier: Apache-2.0
"""Which hosts of a table, and which of their candidates, a question is answered by."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from novasched.scheduler.columns import Mask, Rows
from novasched.scheduler.fit.answers import Answers
from novasched.scheduler.fit.question import Question
from novasched.scheduler.hosts import HostTable


def surviving(
    hosts: HostTable, question: Question, answers: Answers, hopeful: Mask
) -> tuple[Mask, HostTable]:
    """Return which of the hopeful hosts can serve the question, and all hosts.

    These have the candidates that are left; a host that has none cannot serve it.
    """
    passes = hopeful.copy()
    left = np.flatnonzero(passes)
    if not len(left):
        return passes, hosts
    asked = hosts[left]
    listed = asked.allocation_candidates.tolist()
    if question.tells_candidates_apart:
        mappings = [[each.get('mappings') for each in one] for one in listed]
        kept = answers.of(question, asked, mappings).tolist()
        passes[left] = [any(one) for one in kept]
        return passes, _reduced(hosts, left, listed, kept)
    found = answers.of(question, asked).tolist()
    passes[left] = [
        any(one) and bool(candidates)
        for one, candidates in zip(found, listed, strict=True)
    ]
    return passes, hosts


def _reduced(
    hosts: HostTable,
    positions: Rows,
    listed: Sequence[Sequence[Any]],
    kept: Sequence[Sequence[bool]],
) -> HostTable:
    """Return the hosts without the candidates that are not kept."""
    fewer = [number for number, one in enumerate(kept) if not all(one)]
    if not fewer:
        return hosts
    left = [
        [one for one, stays in zip(listed[n], kept[n], strict=True) if stays]
        for n in fewer
    ]
    rows = hosts.rows[positions[fewer]]
    snapshot = hosts.snapshot.replace({'allocation_candidates': left}, rows)
    return HostTable(snapshot, hosts.rows)
