# SPDX-License-Identifier: Apache-2.0
"""The allocation candidates of hosts: their order, and what capacity is left."""

from __future__ import annotations

import logging
import math
from collections import Counter
from collections.abc import Collection, Container, Iterable, Iterator, Mapping
from typing import Any, Self

from novasched.objects.request_spec import RequestSpec
from novasched.ports import Candidate, Candidates
from novasched.providers.by_root import CandidatesByRoot
from novasched.runtime.clock import SYSTEM_CLOCK, Clock
from novasched.scheduler.hosts import HostState, HostTable

LOG = logging.getLogger(__name__)

ProviderClass = tuple[str, str]
"""A provider, by uuid, and a resource class."""
FORGET_AFTER_S = 600.0
"""A known root is looked up again after this time: it may have got a parent."""
ALL_HOSTS = Candidates((), '')
"""Placement is not asked: all known hosts are candidates."""


class KnownRoots:
    """The providers that were found to be roots though they are no compute nodes."""

    def __init__(self, clock: Clock = SYSTEM_CLOCK) -> None:
        self._clock = clock
        self._uuids: set[str] = set()
        self._forget_at = clock.monotonic() + FORGET_AFTER_S

    def uuids(self) -> set[str]:
        """Return the set of their uuids, to which callers add those that they find."""
        if self._clock.monotonic() >= self._forget_at:
            self._uuids = set()
            self._forget_at = self._clock.monotonic() + FORGET_AFTER_S
        return self._uuids


def by_provider(
    candidates: Candidates,
    nodes: Container[str] = frozenset(),
    roots: set[str] | None = None,
) -> Mapping[str, list[Candidate]] | None:
    """Return the candidates by each provider that they take from, in order; None for
    ALL_HOSTS.

    A candidate that takes from none of ``nodes``, the known compute nodes, is also
    listed by the roots of its providers. It asks only for what children of a host have.
    ``roots`` are known roots, for which no summary is read; others are added.
    """
    if candidates is ALL_HOSTS:
        return None
    if isinstance(candidates.requests, CandidatesByRoot):
        return candidates.requests
    offered: dict[str, list[Candidate]] = {}
    roots = set() if roots is None else roots
    for candidate in candidates.requests:
        uuids = candidate['allocations']
        for uuid in uuids:
            offered.setdefault(uuid, []).append(candidate)
        if not any(uuid in nodes for uuid in uuids) and not roots.issuperset(uuids):
            for root in _roots_above(uuids, candidates.summaries, roots):
                offered.setdefault(root, []).append(candidate)
    return offered


def _roots_above(
    uuids: Collection[str], summaries: Mapping[str, Any], roots: set[str]
) -> list[str]:
    """Return the roots of providers that are not among them; note those that are."""
    above = {
        uuid: summaries[uuid].get('root_provider_uuid') or uuid
        for uuid in uuids
        if uuid in summaries
    }
    roots.update(uuid for uuid, root in above.items() if root == uuid)
    return [root for root in dict.fromkeys(above.values()) if root not in uuids]


def origin_of(candidates: Candidates) -> dict[str, Any]:
    """Return where the hosts of a decision come from."""
    if candidates is ALL_HOSTS:
        return {}
    return {
        'cut': candidates.cut,
        'further': candidates.further,
        'from_copy': candidates.copy is not None,
        'fallback': candidates.fallback,
    }


def candidates_in_order(hosts: HostTable) -> Iterator[tuple[HostState, Candidate]]:
    """Yield the first candidates of the hosts, the best first, then all others."""
    several = []
    for host in hosts.states():
        if not host.allocation_candidates:
            LOG.debug(
                'The nova scheduler removed every allocation candidate'
                'for host %s so this host was skipped.',
                host,
            )
            continue
        if len(host.allocation_candidates) > 1:
            several.append(host)
        yield host, host.allocation_candidates[0]
    for host in several:
        for candidate in host.allocation_candidates[1:]:
            yield host, candidate


def with_providers(request: RequestSpec, candidate: Candidate | None) -> RequestSpec:
    """Write down for each requested group which providers the candidate gives it."""
    groups = request.requested_resources if 'requested_resources' in request else None
    if not groups or candidate is None:
        return request
    mappings = candidate.get('mappings', {})
    filled = [
        group.replaced(provider_uuids=mappings.get(group.requester_id, []))
        for group in groups
    ]
    return request.replaced(requested_resources=filled)


class RemainingCapacity:
    """What placement offered, less what was claimed or refused since.

    A candidate fits unless its claim is sure to fail. It is if this request itself has
    used the amount up, or if placement has refused as much. The summaries are not read
    before something is taken.
    """

    def __init__(self, summaries: Mapping[str, Any]) -> None:
        self._summaries = summaries
        self._resources: dict[str, Any] = {}
        self._taken: Counter[ProviderClass] = Counter()
        self._refused: dict[ProviderClass, int] = {}
        self._most: dict[ProviderClass, int] = {}
        self._excluded: list[Candidate] = []

    def copy(self) -> Self:
        """Return an independent copy."""
        copied = type(self)(self._summaries)
        copied._taken = self._taken.copy()
        copied._refused = self._refused.copy()
        copied._most = self._most.copy()
        copied._excluded = self._excluded.copy()
        return copied

    def fits(self, candidate: Candidate) -> bool:
        """Return whether a claim of the candidate may succeed."""
        if candidate in self._excluded:
            return False
        return all(self._has(key, amount) for key, amount in amounts_of(candidate))

    def fits_all(self, candidates: Iterable[Candidate]) -> bool:
        """Return whether claims of all the candidates may succeed together."""
        remaining = self.copy()
        for candidate in candidates:
            if not remaining.fits(candidate):
                return False
            remaining.take(candidate)
        return True

    def take(self, candidate: Candidate) -> None:
        """Count the candidate as claimed."""
        for key, amount in amounts_of(candidate):
            self._taken[key] += amount

    def give_back(self, candidate: Candidate) -> None:
        """Count the candidate as claimed no more."""
        self._taken.subtract(dict(amounts_of(candidate)))

    def exclude(self, candidate: Candidate) -> None:
        """Remember that this is no candidate any more."""
        self._excluded.append(candidate)

    def include(self, candidate: Candidate) -> None:
        """Forget that this was no candidate any more."""
        self._excluded.remove(candidate)

    def refuse(self, candidate: Candidate, exhausted: ProviderClass | None) -> None:
        """Remember of what placement has not as much as the candidate asks for."""
        for key, amount in amounts_of(candidate):
            if key == exhausted:
                self._refused[key] = min(amount, self._refused.get(key, amount))

    def refuse_all(
        self, candidates: Iterable[Candidate], exhausted: ProviderClass | None
    ) -> None:
        """Remember of what placement has not as much as these ask for together."""
        if exhausted is None:
            return
        total = sum(dict(amounts_of(c)).get(exhausted, 0) for c in candidates)
        if total:
            less = self._taken[exhausted] + total - 1
            self._most[exhausted] = min(less, self._most.get(exhausted, less))

    def left(self, key: ProviderClass) -> tuple[float, int]:
        """Return the free amount less what was taken, and the capacity; inf: placement
        did not say."""
        free, capacity = self._known(key)
        return free - self._taken.get(key, 0), capacity

    def _has(self, key: ProviderClass, amount: int) -> bool:
        taken = self._taken.get(key, 0)
        if amount >= self._refused.get(key, math.inf):
            return False
        if taken + amount > self._most.get(key, math.inf):
            return False
        return not taken or taken + amount <= self._known(key)[0]

    def _known(self, key: ProviderClass) -> tuple[float, int]:
        """Return the free amount when placement was asked, and the capacity; inf: it
        did not say."""
        uuid, resource_class = key
        try:
            if uuid not in self._resources:
                self._resources[uuid] = self._summaries[uuid]['resources']
            amounts = self._resources[uuid][resource_class]
            capacity = amounts['capacity']
            return int(capacity - amounts['used']), int(capacity)
        except (KeyError, TypeError, ValueError, OverflowError):
            return math.inf, 0  # also for NaN and infinity


def amounts_of(candidate: Candidate) -> Iterator[tuple[ProviderClass, int]]:
    """Yield the amounts that a candidate takes, by provider and class."""
    for uuid, allocation in candidate['allocations'].items():
        for resource_class, amount in allocation['resources'].items():
            yield (uuid, resource_class), amount
