# SPDX-License-Identifier: Apache-2.0
"""Candidates of rows that placement's API would not write, or loses candidates of: what
the real placement answers, and ours of the same database."""

import functools

import pytest
import sqlalchemy as sa

from novasched.db.transactions import Database
from novasched.placement_copy.readers.database import DatabaseReader
from novasched.providers.candidates import search
from novasched.providers.contents import build
from novasched.providers.table import SHARES
from novasched_lab.local.placement import EmbeddedPlacement
from tests.functional.conftest import named_uuid
from tests.support.clouds import recorded_worlds
from tests.support.placement import placement_worlds as worlds
from tests.support.placement.placement_user import ByAdapter

POOL = frozenset(worlds.AGGREGATES[:1])


class Cloud:
    """A placement in this process; providers have names."""

    def __init__(self, path, adapter):
        self.send = functools.partial(ByAdapter(adapter).send, version=worlds.VERSION)
        self.engine = sa.create_engine(f'sqlite:///{path}')
        self.writer = worlds.Writer(self.send)
        self.writer.names()
        self._names = {}

    def add(self, name, parent=None, traits=(), aggregates=(), **totals):
        """Create a provider with so much of each class."""
        self._names[named_uuid(name)] = name
        self.writer.create(
            {
                'uuid': named_uuid(name),
                'parent': parent and named_uuid(parent),
                'inventories': {n: worlds.plain(total) for n, total in totals.items()},
                'traits': list(traits),
                'aggregates': list(aggregates),
            }
        )

    def write(self, column, values):
        """Write a column of providers: by name, the name of another one for its id, or
        a number, or None."""
        statement = (
            f'UPDATE resource_providers SET {column} = COALESCE((SELECT id FROM '
        )
        statement += 'resource_providers WHERE name = ?), ?) WHERE name = ?'
        with self.engine.begin() as connection:
            for name, value in values.items():
                values = (named_uuid(str(value)), value, named_uuid(name))
                connection.exec_driver_sql(statement, values)

    def table(self):
        return build(DatabaseReader(Database(self.engine)).read())

    def theirs(self, query):
        """The candidates of placement, or its status if that is an error."""
        status, answer = self.send('GET', f'/allocation_candidates?{query}')
        return self._named(answer['allocation_requests']) if status == 200 else status

    def ours(self, query):
        return self._named(search(recorded_worlds.query(query), self.table()))

    def _named(self, candidates):
        return sorted(
            ', '.join(
                sorted(
                    f'{self._names[uuid]} {amount}'
                    for uuid, part in candidate['allocations'].items()
                    for amount in part['resources'].values()
                )
            )
            for candidate in candidates
        )


@pytest.fixture
def cloud(tmp_path):
    path = tmp_path / 'placement.sqlite'
    with EmbeddedPlacement(path) as adapter:
        made = Cloud(path, adapter)
        yield made
        made.engine.dispose()


def test_trees_are_those_that_placement_makes_of_its_rows(cloud):
    gold = ['CUSTOM_GOLD']
    for name in ('no generation', 'no root', 'root of none', 'a', 'b', 'c', 'd'):
        cloud.add(name, VCPU=1, traits=gold)
    for name in ('itself', 'unknown', 'circle 1', 'circle 2'):
        cloud.add(name, DISK_GB=1, traits=gold)
    for top in ('e', 'f'):
        cloud.add(top, VCPU=1, traits=gold)
        for name, parent in (('1', ''), ('2', '1'), ('3', '2')):
            cloud.add(top + name, top + parent, PCPU=1)
    parents = {'itself': 'itself', 'unknown': 99, 'e1': 'e2', 'f2': None}
    circle = {'circle 1': 'circle 2', 'circle 2': 'circle 1'}
    cloud.write('parent_provider_id', parents | circle)
    roots = {'no root': None, 'root of none': 99, 'a': 'b', 'c': 'd', 'd': 'b'}
    cloud.write('root_provider_id', roots)
    cloud.write('generation', {'no generation': None})
    for query in (
        'resources=VCPU:1&root_required=CUSTOM_GOLD',
        'resources=VCPU:1&root_required=!CUSTOM_SILVER',
        f'resources=VCPU:1&in_tree={named_uuid("b")}',
        f'resources=VCPU:1&in_tree={named_uuid("no root")}',
        'resources=PCPU:1',
        'resources=VCPU:1,PCPU:1',
        'resources=DISK_GB:1&root_required=CUSTOM_GOLD',
        f'resources=DISK_GB:1&in_tree={named_uuid("itself")}',
    ):
        assert cloud.ours(query) == cloud.theirs(query), query
    assert cloud.theirs('resources=DISK_GB:1') == 500
    each = ['circle 1 1', 'circle 2 1', 'itself 1', 'unknown 1']
    assert cloud.ours('resources=DISK_GB:1') == each


def test_numbers_at_their_extremes_offer_what_placement_offers(cloud):
    listed = worlds.EXTREMES + worlds.NOT_ON_POSTGRESQL
    made = cloud.writer.create_extremes(cloud.engine, listed)
    worlds.check_extremes(cloud.send, cloud.table(), made)


def test_candidates_that_placement_loses(cloud):
    """Its defects, by the numbers of differences.md."""
    cloud.add('host 0')
    for name in ('cell 1', 'cell 2'):
        cloud.add(name, 'host 0', PCPU=2)
    for name in ('host 1', 'host 2'):
        cloud.add(name, aggregates=POOL, VCPU=2)
    cloud.add('pool', traits=[SHARES], aggregates=POOL, DISK_GB=10)
    cloud.add('switch')
    cloud.add('port', 'switch', traits=[SHARES], aggregates=POOL, SRIOV_NET_VF=1)

    query = 'resources=PCPU:1&resources1=PCPU:2'
    each = ['cell 1 1, cell 2 2', 'cell 1 2, cell 2 1']
    assert cloud.ours(query) == cloud.theirs(f'{query}&group_policy=none') == each
    assert not set(each) <= set(cloud.theirs(query)), 'D1'

    query = 'resources=DISK_GB:1&resources1=VCPU:1'
    each = ['host 1 1, pool 1', 'host 2 1, pool 1']
    assert cloud.ours(query) == each
    assert len(cloud.theirs(query)) == 1, 'D2'

    query = 'resources=SRIOV_NET_VF:1,VCPU:1'
    assert cloud.ours(query) == ['host 1 1, port 1', 'host 2 1, port 1']
    assert cloud.theirs(query) == 500, 'D3'
