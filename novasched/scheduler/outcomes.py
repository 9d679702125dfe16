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

    # why a request decides again without a claim of that outcome
    OUTAGE = 'service unavailable'
    ARRIVED_LATE = 'lost claim arrived late'
    INCOMPLETE = 'candidates incomplete'
    STALE = 'candidates stale'
    UNVERIFIED = 'candidates unverified'
    COPY_LAGS = 'copy lags'
    STALE_HOSTS = 'hosts stale'
    HOST_CHANGED = 'host changed'
    GROUP_BROKEN = 'group policy broken'
    GROUP_SPLIT = 'group split'
    MEMBERS_MOVED = 'group members moved'
    PICKED_BY_OTHER = 'picked by another scheduler'
    PICKS_RELEASED = 'picks released'
    PICKED_MEANWHILE = 'picked meanwhile'
    JOINT = 'claimed together'
    FURTHER = 'further candidate'
    BUSY = 'provider busy'
    UNAVAILABLE = 'placement unavailable'
    UNREACHABLE = 'placement unreachable'
    NO_HOST = 'no host left'


LOST = (Outcome.ABORTED, Outcome.OVER_CAPACITY, Outcome.CONFLICT)
"""Outcomes of claims that were lost to other requests."""
