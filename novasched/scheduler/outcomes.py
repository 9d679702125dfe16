# SPDX-License-Identifier: Apache-2.0
"""Outcomes of claims and picks, in the words of records, metrics and log lines."""

from __future__ import annotations

from enum import StrEnum
from typing import Self


class Outcome(StrEnum):
    """What became of a claim, or why a request decides again: then with its text."""

    text: str

    def __new__(cls, value: str, text: str = '') -> Self:
        made = str.__new__(cls, value)
        made._value_, made.text = value, text
        return made

    # claims, as records and metrics have them
    CLAIMED = 'claimed'
    # not claimed: the host or the candidate is not as it was
    VOID = 'void', 'placement would not offer the host any more'
    CONFLICT = 'conflict', 'another request was faster'  # it was refused
    REFUSED = 'refused', 'placement refused the claim'
    UNKNOWN = 'unknown'  # placement may have it, or may keep it
    ROLLED_BACK = 'undone'
    ABORTED = 'yielded'  # rolled back for claims or picks of other requests
    # rolled back
    OVER_CAPACITY = 'overfull', 'capacity of a provider was exceeded'

    # why a request decides again without a claim of that outcome
    OUTAGE = 'service unavailable', 'a service was unavailable'
    ARRIVED_LATE = 'lost claim arrived late', 'a lost claim had arrived late'
    INCOMPLETE = 'candidates incomplete', 'a limit had cut the candidates'
    STALE = 'candidates stale', 'the copy of placement was stale'
    UNVERIFIED = 'candidates unverified', 'the candidates could not be verified'
    COPY_LAGS = 'copy lags', 'the copy of placement did not show all hosts'
    STALE_HOSTS = 'hosts stale', 'what was known of the hosts was stale'
    HOST_CHANGED = 'host changed', 'the host had changed'
    GROUP_BROKEN = 'group policy broken', 'the policy of the server group was broken'
    GROUP_SPLIT = 'group split'
    MEMBERS_MOVED = 'group members moved', 'members of the server group had moved'
    PICKED_BY_OTHER = (
        'picked by another scheduler',
        'another scheduler had picked the host',
    )
    PICKS_RELEASED = 'picks released', 'other requests had released their picks'
    PICKED_MEANWHILE = 'picked meanwhile', 'another request picked the host meanwhile'
    JOINT = 'claimed together'
    FURTHER = 'further candidate'
    BUSY = 'provider busy', 'a provider was busy'
    UNAVAILABLE = 'placement unavailable', 'placement was unavailable'
    UNREACHABLE = 'placement unreachable'
    NO_HOST = 'no host left'


LOST = (Outcome.ABORTED, Outcome.OVER_CAPACITY, Outcome.CONFLICT)
"""Outcomes of claims that were lost to other requests."""
REASONS = tuple(outcome for outcome in Outcome if outcome.text)
"""Why a request decides again."""


def text_of(outcome: str) -> str:
    """Return the text of a reason; records may have reasons of later releases."""
    return Outcome(outcome).text if outcome in REASONS else outcome
