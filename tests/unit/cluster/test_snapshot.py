# SPDX-License-Identifier: Apache-2.0
"""What is known, put together: which hosts count, and how their services look."""

import numpy as np

from novasched.cluster.services import Services, Window
from novasched.cluster.snapshot import Composed, candidates_column, limits_column
from novasched.scheduler.hosts import Categories, HostTable, Snapshot
from tests.support.clouds.fakes import NOON
from tests.support.databases.fake_databases import service
from tests.support.tables.cases import cases

UUIDS = {'one': 0, 'two': 1, 'three': 2}


def composed(usable=(True, True, True), duplicate_uuids=None):
    """Three hosts, of cells a, a and b."""
    snapshot = Snapshot(
        {
            'host': np.array(['h1', 'h2', 'h1'], object),
            'uuid': np.array(list(UUIDS), object),
            'cell_uuid': Categories(['a', 'b'], np.array([0, 0, 1])),
        }
    )
    services = {
        'a': Services().with_rows([service('h1'), service('h2')]),
        'b': Services().with_rows([service('h1', version=75)]),
    }
    return Composed(
        snapshot, np.array(usable), UUIDS, duplicate_uuids or {}, services, places_of
    )


def places_of(table):
    return np.array([UUIDS.get(uuid, -1) for uuid in table.uuids])


@cases(
    'usable, duplicate_uuids, wanted, places',
    ('in their order', [1, 1, 1], {}, ['three', 'one'], [2, 0]),
    ('an unknown one', [1, 1, 1], {}, ['new', 'two'], [1]),
    ('one that does not count', [0, 1, 1], {}, ['one', 'two'], [1]),
    ('the twin that counts', [1, 1, 0], {'three': [0, 2]}, ['three'], [0]),
    ('the first of two twins', [1, 1, 1], {'three': [0, 2]}, ['three'], [0]),
    ('no twin that counts', [0, 1, 0], {'three': [0, 2]}, ['three', 'two'], [1]),
)
def test_places(usable, duplicate_uuids, wanted, places):
    found = composed([bool(u) for u in usable], duplicate_uuids)
    assert found.places(dict.fromkeys(wanted)).tolist() == places


def test_host_has_the_service_of_its_own_cell():
    found = composed()
    table = HostTable(found.snapshot, np.array([0, 2]))
    column = found.service_column(table, Window.around(NOON, 60))
    assert [column[0]['version'], column[1], column[2]['version']] == [74, None, 75]


def test_columns_of_a_request_are_made_for_its_hosts_only():
    table = HostTable(composed().snapshot, np.array([0, 2]))
    assert limits_column(table)[table.rows].tolist() == [{}, {}]
    candidates = {'one': ['x'], 'three': ['y', 'z']}
    found = candidates_column(table, candidates)
    assert found[table.rows].tolist() == [['x'], ['y', 'z']]
    found.item(0).append('more')
    assert found.item(0) == ['x', 'more']
    assert candidates['one'] == ['x']
    assert candidates_column(table, None)[table.rows].tolist() == [[], []]
