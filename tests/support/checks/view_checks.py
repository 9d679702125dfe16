# SPDX-License-Identifier: Apache-2.0
"""The freshness promise of the cluster view, checked on any back-end.

Writers change compute nodes, each its own, as fast as they can, with clocks that
differ by up to a minute. The number of a node's last change stands in its
``vcpus_used``, and is noted when it is committed; so readers can tell what they must
see.
"""

import datetime
import random
import threading
import uuid
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager

import numpy as np
import sqlalchemy as sa

from novasched.cluster.cells import Cells
from novasched.cluster.view import ClusterView
from novasched.db import engines, tables
from novasched.db.stores import SqlApiStore, SqlCellStores
from novasched.runtime.clock import SystemClock
from tests.support.databases.databases import cell_mapping, node, service

SKEWS_S = (-55, 0, 30)
NODES_EACH = 8
DEADLINE_S = 120


def utcnow():
    return datetime.datetime.now(datetime.UTC).replace(tzinfo=None)


def open_view(databases, conf, **options):
    """A view of the cells that the API database names, on connections of its own."""
    stores = SqlCellStores(lambda url: engines.cell_engine(conf, url))
    cells = Cells(stores, SystemClock(), timeout_s=30)
    return ClusterView(SqlApiStore(databases.api), cells, SystemClock(), **options)


@contextmanager
def loaded_view(databases, conf, **options):
    """A view that has read everything, until it is closed."""
    view = open_view(databases, conf, **options)
    try:
        view.load()
        yield view
    finally:
        view.close()


def map_cell(databases, url):
    """Make the one cell of the API database."""
    databases.add(tables.cell_mappings, cell_mapping(database_connection=url))


class Writer:
    """Changes its nodes one after the other; all writers share what is noted.

    ``noted`` has (number of the last change, whether the node is live) by uuid, and
    ``begun`` the number of the change that may be under way.
    """

    def __init__(self, engine, number, noted, begun, changes):
        self._engine = engine
        self._number = number
        self._noted = noted
        self._begun = begun
        self._changes = changes
        self._random = random.Random(number)
        self._skew = datetime.timedelta(seconds=SKEWS_S[number % len(SKEWS_S)])

    def run(self):
        for change in range(1, self._changes + 1):
            which = self._random.randrange(NODES_EACH)
            name = f'w{self._number}-{which}'
            node_uuid = str(uuid.uuid5(uuid.NAMESPACE_DNS, name))
            stamp = (utcnow() + self._skew).replace(microsecond=0)
            self._begun[node_uuid] = change
            live = self._write(name, node_uuid, change, stamp)
            self._noted[node_uuid] = (change, live)
            if change % 3 == 0:  # again in the same second
                with self._engine.begin() as connection:
                    self._update(
                        connection, node_uuid, free_ram_mb=change, memory_mb_used=change
                    )

    def _write(self, name, node_uuid, change, stamp):
        known = self._noted.get(node_uuid)
        with self._engine.begin() as connection:
            if known is None:
                self._insert(connection, name, node_uuid, change, stamp)
                return True
            _, live = known
            if live and self._random.random() < 0.15:
                self._update(
                    connection,
                    node_uuid,
                    vcpus_used=change,
                    deleted=tables.compute_nodes.c.id,
                    deleted_at=stamp,
                )
                return False
            self._update(
                connection, node_uuid, vcpus_used=change, deleted=0, updated_at=stamp
            )
            return True

    def _insert(self, connection, name, node_uuid, change, stamp):
        rows = (
            (
                tables.services,
                service(host=name, created_at=stamp, last_seen_up=utcnow()),
            ),
            (
                tables.compute_nodes,
                node(
                    uuid=node_uuid,
                    host=name,
                    hypervisor_hostname=name,
                    vcpus_used=change,
                    created_at=stamp,
                    free_disk_gb=10,
                    free_ram_mb=10,
                    stats='{}',
                    supported_instances='[]',
                ),
            ),
        )
        for table, row in rows:
            connection.execute(sa.insert(table).values(row))

    def _update(self, connection, node_uuid, **fields):
        c = tables.compute_nodes.c
        connection.execute(
            sa.update(tables.compute_nodes).where(c.uuid == node_uuid).values(fields)
        )


def shown(view):
    """The number of the last change of each node that a request would see."""
    hosts = view.hosts(None)
    return dict(zip(hosts.uuid.tolist(), hosts.vcpus_used.tolist(), strict=True))


def missed(noted, found):
    """What was committed and is not seen: (uuid, what was noted, what was found)."""
    return [
        (node_uuid, (change, live), found.get(node_uuid))
        for node_uuid, (change, live) in noted.items()
        if (live and found.get(node_uuid, -1) < change)
        or (not live and found.get(node_uuid, change + 1) <= change)
    ]


def a_decision_sees_what_was_committed_before(databases, conf, changes=100):
    """Requests refresh and look while writers write and the view is kept up."""
    noted, begun = {}, {}
    finished = threading.Event()
    looks = []

    def look(view):
        while not finished.is_set():
            before = noted.copy()
            view.refresh()
            problems = missed(before, shown(view))
            assert [p for p in problems if not may_be_gone(p, begun)] == []
            looks.append(len(before))

    def keep_up(view):
        while not finished.is_set():
            view.reconcile()
            view.read_services()
            view.check()

    with (
        loaded_view(databases, conf) as view,
        ThreadPoolExecutor(len(SKEWS_S)) as writing,
        ThreadPoolExecutor(4) as reading,
    ):
        try:
            writers = [
                writing.submit(Writer(databases.cell, n, noted, begun, changes).run)
                for n in range(len(SKEWS_S))
            ]
            readers = [reading.submit(look, view) for _ in range(3)]
            readers.append(reading.submit(keep_up, view))
            for writer in writers:
                writer.result(DEADLINE_S)
        finally:
            finished.set()
        for reader in readers:
            reader.result(DEADLINE_S)
        assert looks
        view.refresh()
        assert missed(noted, shown(view)) == []
        assert_same_as_a_full_read(view, databases, conf)


def may_be_gone(problem, begun):
    """Say whether a node that was live may have been deleted since."""
    node_uuid, (change, live), found = problem
    return live and found is None and begun[node_uuid] > change


def assert_same_as_a_full_read(view, databases, conf):
    with loaded_view(databases, conf) as fresh:
        ours, theirs = by_uuid(view), by_uuid(fresh)
    assert ours == theirs


def by_uuid(view):
    """Every column of every host that does not depend on when it was looked at."""
    hosts = view.hosts(None)
    apart = (
        'service',
        'instances',
        'instance_images',
        'limits',
        'allocation_candidates',
        'cell_uuid',
    )
    names = [name for name in hosts.snapshot._columns if name not in apart]
    columns = [values_of(getattr(hosts, name)) for name in names]
    rows = zip(*columns, strict=True)
    return {
        node_uuid: dict(zip(names, row, strict=True))
        for node_uuid, row in zip(hosts.uuid.tolist(), rows, strict=True)
    }


def values_of(column):
    values = column.tolist()
    if isinstance(column, np.ndarray) and column.dtype.kind == 'f':
        return [None if value != value else value for value in values]
    return values
