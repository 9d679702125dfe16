# SPDX-License-Identifier: Apache-2.0
"""Hosts as the service reads them from the databases that a configuration names."""

import contextlib

from novasched.cluster.cells import Cells
from novasched.cluster.view import ClusterView
from novasched.db import engines
from novasched.db.stores import SqlApiStore, SqlCellStores
from novasched.runtime.clock import SYSTEM_CLOCK


@contextlib.contextmanager
def hosts_by(conf):
    """Read all hosts of the databases that a configuration names."""
    api = engines.api_engine(conf)
    stores = SqlCellStores(lambda url: engines.cell_engine(conf, url))
    cells = Cells.from_conf(conf, stores, SYSTEM_CLOCK)
    view = ClusterView.from_conf(conf, SqlApiStore(api), cells, SYSTEM_CLOCK)
    try:
        view.load()
        view.refresh()
        yield view.hosts(None)
    finally:
        view.close()
        api.dispose()
