# SPDX-License-Identifier: Apache-2.0
"""Placement as a copy of it is read from, in memory."""

from __future__ import annotations

import numpy as np

from novasched import errors
from novasched.ports import Candidates
from novasched.providers.contents import Contents
from novasched.resources.query import Group, Query

ONE = Query((Group(resources={'VCPU': 1}),), limit=1000)


class FakeProviders:
    """Providers with so many CPUs each; satisfies ports.ProviderStore."""

    reads_fast = True
    behind_s = 0.0

    def __init__(self, **totals):
        self.totals = totals
        self.used = dict.fromkeys(totals, 0)
        self.generations = dict.fromkeys(totals, 0)
        self.seen_mark = None
        self.problem = None
        self.reads = []
        self.parents = {}
        self.orphans = 0
        self.slow = lambda: None

    def take(self, name, amount, *, silently=False):
        self.used[name] += amount
        self.generations[name] += not silently

    def read(self, hints=None):
        return self._answer('all')

    def read_since(self, before, include_unversioned, recheck=(), hints=None):
        self.reads.append(
            ('thorough' if include_unversioned else 'changes', list(recheck))
        )
        self.slow()
        if self.problem is not None:
            raise self.problem
        now = self._contents()
        if (
            include_unversioned
            or recheck
            or now.providers.tolist() != before.providers.tolist()
        ):
            return now
        return before

    def trees(self, known, roots, with_aggregates=True, terms=None, generations=None):
        self.slow()
        if self.problem is not None:
            raise self.problem
        now = self._contents().trees(roots)
        return None if known.trees(roots).says_the_same(now) else now

    def change_token(self):
        return self.seen_mark

    def close(self):
        self.problem = errors.StoreFailed('Placement', 'it is closed')

    def _answer(self, how):
        self.reads.append((how, []))
        self.slow()
        if self.problem is not None:
            raise self.problem
        return self._contents()

    def _contents(self):
        ids = {name: id_ for id_, name in enumerate(self.totals, 1)}
        rows = [
            (
                id_,
                self.generations[name],
                ids[self.parents.get(name, name)],
                ids.get(self.parents.get(name), 0),
            )
            for name, id_ in ids.items()
        ]
        stocks = [(ids[n], 0, t, 0, 1, t, 1, 1.0, 1.0) for n, t in self.totals.items()]
        usage = [(id_, 0, self.used[name]) for name, id_ in ids.items()]
        usage += [(99 + number, 0, 1) for number in range(self.orphans)]
        none = np.zeros((0, 2), np.int64)
        return Contents(
            providers=np.array(rows, np.int64).reshape(-1, 4),
            inventories=np.array(stocks, np.float64).reshape(-1, 9),
            usage=np.array(usage, np.int64).reshape(-1, 3),
            traits=none,
            aggregates=np.array([[1, 1]]) if ids else none,
            uuids={id_: name for name, id_ in ids.items()},
            class_names={0: 'VCPU'},
            trait_names={},
            aggregate_uuids={1: 'aggregate'},
        )


def look(mirror):
    """Look for what has changed, without a wait."""
    mirror.invalidate([])
    mirror.keep_up()


def hosts(mirror, amount=1, **more):
    query = Query((Group(resources={'VCPU': amount}, **more),), limit=1000)
    found = mirror.candidates(query)
    return list(found.requests) if isinstance(found, Candidates) else found
