# SPDX-License-Identifier: Apache-2.0
"""A cloud of two cells, and a view of it."""

from concurrent.futures import ThreadPoolExecutor

import pytest

from novasched.cluster.cells import FAILURES, Cells
from novasched.cluster.view import ClusterView
from tests.support.clouds.fakes import FakeClock
from tests.support.databases.fake_databases import (
    CELL0,
    FakeApiStore,
    FakeCellStore,
    FakeCellStores,
    cell,
)

TIMEOUT_S = 1.5
SHORT_S = 0.05


class Cloud:
    """Cells a and b with hosts 1, 2 and 3, an empty cell0, and a view of them."""

    def __init__(self):
        self.clock = FakeClock()
        self.a, self.b, self.zero = FakeCellStore(), FakeCellStore(), FakeCellStore()
        self.a.add_host(1)
        self.a.add_host(2)
        self.b.add_host(3)
        self.stores = FakeCellStores(a=self.a, b=self.b, **{CELL0.uuid: self.zero})
        self.api = FakeApiStore([CELL0, cell('a'), cell('b')])
        self.view = self.new_view()

    def new_view(self, **options):
        cells = Cells(self.stores, self.clock, TIMEOUT_S, retry_interval_s=15)
        return ClusterView(self.api, cells, self.clock, **options)

    def shown(self, candidates=None, of=None):
        self.view.refresh()
        found = self.view.hosts(candidates, of).host.tolist()
        return sorted(found) if candidates is None else found

    def lose(self, store):
        """Let a cell fail until it is left out."""
        store.fail()
        for _ in range(FAILURES):
            self.view.refresh()

    def hurry(self, patience_s=TIMEOUT_S):
        """Wait for a cell that hangs no longer than ``SHORT_S``, if another answers."""
        self.view.cells.timeout_s = SHORT_S
        self.view.cells.patience_s = patience_s

    def retry(self):
        self.clock.advance(15)
        self.view.retry_unavailable()


@pytest.fixture
def new_cloud():
    """A cloud whose view has read nothing yet."""
    made = Cloud()
    yield made
    made.view.close()


@pytest.fixture
def cloud():
    """A cloud whose view has read everything."""
    made = Cloud()
    made.view.load()
    yield made
    made.view.close()


@pytest.fixture
def threads():
    with ThreadPoolExecutor(20) as pool:
        yield pool
