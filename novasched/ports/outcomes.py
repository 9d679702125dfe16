# SPDX-License-Identifier: Apache-2.0
"""Outcomes of claims and picks, in the words of records, metrics and log lines."""

from __future__ import annotations

from enum import StrEnum


class Outcome(StrEnum):
    """What became of a claim, or why a request decides again."""

    # claims, as records and metrics have them
    CLAIMED = 'claimed'
    VOID = 'void'  # not claimed: the host or the candidate is not as it was
    CONFLICT = 'conflict'  # refused: another request was faster
    REFUSED = 'refused'
    UNKNOWN = 'unknown'  # placement may have it, or may keep it
    ROLLED_BACK = 'undone'
    ABORTED = 'yielded'  # rolled back for claims or picks of other requests
    OVER_CAPACITY = 'overfull'  # rolled back, as a provider was over capacity


LOST = (Outcome.ABORTED, Outcome.OVER_CAPACITY, Outcome.CONFLICT)
"""Outcomes of claims that were lost to other requests."""
