# SPDX-License-Identifier: Apache-2.0
"""Verification, after claims, that no provider holds more than it has.

docs/decisions/0020-capacity-is-verified-after-the-claim.md has the rules.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping
from typing import NamedTuple

from novasched import errors
from novasched.claiming.attempt import RequestAttempt
from novasched.claiming.host_candidates import (
    ProviderClass,
    RemainingCapacity,
    amounts_of,
)
from novasched.outages import PLACEMENT
from novasched.ports import Claimed, ClaimRequest, ClaimUnknown, QueryFailed

LOG = logging.getLogger(__name__)

Usages = Mapping[str, Mapping[str, int]]
"""Amounts by class by provider."""

RACING = 16
"""Claims of the same size that others may have made since the copy was read, or
placement was asked."""
SPARE = 8
"""Part of a capacity, one in so many, that they may have taken by larger claims."""


def is_short(left: float, amount: int, capacity: int) -> bool:
    """Return whether so little is left after a claim that it may be less than nothing,
    with what others have claimed meanwhile."""
    return left < max(RACING * amount, capacity // SPARE)


class Overfull(NamedTuple):
    """More is used of a provider than it has."""

    key: ProviderClass
    used: int
    capacity: int

    def __str__(self) -> str:
        uuid, resource_class = self.key
        return f'{self.used} of {self.capacity} {resource_class} of {uuid} are used'


def overfull(
    usages: Callable[[Mapping[str, str]], Usages | QueryFailed],
    attempt: RequestAttempt,
    remaining: RemainingCapacity,
    made: Iterable[tuple[ClaimRequest, Claimed | ClaimUnknown]],
) -> Overfull | None:
    """Return a provider that these claims, counted in what is ``remaining``, have put
    over capacity; None: there is none, as far as is known.

    ``usages``: see ports.Placement. Only providers are looked at that are nearly full,
    and of which a consumer held nothing before: what it held is nothing that it took
    now. Raises errors.AllocationUpdateFailed where placement is away.
    """
    short, mine = dict[ProviderClass, int](), dict[str, str]()
    for wanted, claim in made:
        for key, amount in amounts_of(wanted.candidate):
            if key[0] in claim.undo.get('allocations', ()):
                continue
            left, capacity = remaining.left(key)
            if is_short(left, amount, capacity):
                short[key], mine[key[0]] = capacity, claim.consumer_uuid
    if not short:
        return None
    found = usages(mine)
    if isinstance(found, QueryFailed):
        if found.is_away:
            attempt.missed(PLACEMENT, found.text, found.status)
            raise errors.AllocationUpdateFailed(
                next(iter(mine.values())),
                'placement does not say whether its host is over capacity; try again',
            )
        LOG.warning('Capacity is not verified after a claim: %s', found.text)
        return None
    for (uuid, name), capacity in short.items():
        used = found.get(uuid, {}).get(name, 0)
        if used > capacity:
            return Overfull((uuid, name), used, capacity)
    return None
