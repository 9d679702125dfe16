# SPDX-License-Identifier: Apache-2.0
"""Fills hosts with servers, by the candidates that placement would give for each.

This is for requests whose servers take from different providers, or share some.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from novasched.claiming.verification import RemainingCapacity
from novasched.cluster.snapshot import candidates_column
from novasched.objects.request_spec import RequestSpec
from novasched.providers.by_root import CandidatesByRoot, TableSummaries
from novasched.providers.candidates import CandidateSearch, search
from novasched.providers.table import ProviderTable
from novasched.resources import Query
from novasched.runtime.deadline import Check, never
from novasched.scheduler.columns import Ints
from novasched.scheduler.fit.claim import book
from novasched.scheduler.fit.requirements import FitRequirements
from novasched.scheduler.hosts import HostTable, consume
from novasched.scheduler.pipeline import Profile, run_filters

MOST_OF_ROOT = 32
"""Candidates of a host that the filters look at, as with a copy of placement."""


def room_by_copies(query: Query, table: ProviderTable) -> Ints | None:
    """Return how many servers the tree of each provider has room for.

    None if it depends on which of several candidates are taken. Room for a fallback
    counts after the query itself.
    """
    found = np.zeros(len(table), np.int64)
    for each in _queries(query):
        searched = search(each, table)
        if searched.shares or searched.most_of_root > 1:
            return None
        taken = _taken_once(searched)
        often = _often(searched, taken)
        found += often
        table = table.after_each({n: of_one * often for n, of_one in taken.items()})
    return found


def _taken_once(searched: CandidateSearch) -> dict[str, Ints]:
    """Return the amounts of each provider in the only candidate of a tree, by class."""
    found: dict[str, Ints] = {}
    for slot in searched.slots:
        rows = slot.providers[slot.spans(searched.anchors)[0]]
        for name, amount in slot.resources.items():
            none = np.zeros(len(searched.providers), np.int64)
            np.add.at(found.setdefault(name, none), rows, amount)
    return found


def _often(searched: CandidateSearch, taken: Mapping[str, Ints]) -> Ints:
    """Return how often the tree of each provider can give its only candidate."""
    table, most = searched.providers, np.iinfo(np.int64).max
    found = np.zeros(len(table), np.int64)
    found[searched.anchors] = most
    for name, amounts in taken.items():
        inventory = table.inventories[name]
        asked = amounts[inventory.rows]
        taking = asked > 0
        often = inventory.free[taking] // asked[taking]
        np.minimum.at(found, table.roots[inventory.rows[taking]], often)
    of_roots: Ints = found[table.roots]
    return of_roots


def _queries(query: Query) -> list[Query]:
    queries = [query] if query.fallback is None else [query, query.fallback]
    return [each.without_bare_group() for each in queries]


class Filling:
    """Fills hosts with servers of one request; ``check`` ends what takes too long."""

    def __init__(
        self,
        profile: Profile,
        request: RequestSpec,
        query: Query,
        table: ProviderTable,
        check: Check = never,
    ) -> None:
        self._profile = profile
        self._request = request
        self._queries = _queries(query)
        self._table = table
        self._check = check
        requirements = FitRequirements.of(request, profile.fitting)
        self.needs_candidates = requirements.tells_candidates_apart

    def offered(self, hosts: HostTable) -> HostTable:
        """Return the hosts; those that placement offers now have their candidates."""
        return self._with_candidates(hosts, self._table)[0]

    def fill(self, hosts: HostTable) -> Ints:
        """Return how many servers each host takes until none takes another.

        In each round every host that passes takes one, if what others took in the
        same round leaves it to them.
        """
        counts = np.zeros(len(hosts), np.int64)
        places = {row: place for place, row in enumerate(hosts.rows.tolist())}
        table, builds = self._table, hosts.snapshot.raw('num_io_ops')
        while True:
            self._check()
            hosts = HostTable(hosts.snapshot.for_new_request(), hosts.rows)
            hosts, candidates = self._with_candidates(hosts, table)
            roots = set(candidates)
            offered = [uuid in roots for uuid in hosts.uuid.tolist()]
            left, _ = run_filters(
                self._profile.filters, hosts[np.array(offered, bool)], self._request
            )
            remaining = RemainingCapacity(TableSummaries(table))
            taken: dict[str, dict[str, int]] = {}
            filled = left
            for host in left.states():
                self._check()
                fitting = (c for c in host.allocation_candidates if remaining.fits(c))
                candidate = next(fitting, None)
                if candidate is None:
                    continue
                remaining.take(candidate)
                for uuid, part in candidate['allocations'].items():
                    of_provider = taken.setdefault(uuid, {})
                    for name, amount in part['resources'].items():
                        of_provider[name] = of_provider.get(name, 0) + amount
                request = self._request.with_providers(candidate)
                filled = consume(filled, host._row, request)
                filled = book(filled, host._row, request, self._profile.fitting).hosts
                counts[places[host._row]] += 1
            if not taken:
                return counts
            table = table.after(taken)
            snapshot = filled.with_columns(num_io_ops=builds).snapshot
            hosts = HostTable(snapshot, left.rows)

    def _with_candidates(
        self, hosts: HostTable, table: ProviderTable
    ) -> tuple[HostTable, CandidatesByRoot]:
        searches = [search(each, table) for each in self._queries]
        candidates = CandidatesByRoot(searches, MOST_OF_ROOT)
        column = candidates_column(hosts, candidates)
        return hosts.with_columns(allocation_candidates=column), candidates
