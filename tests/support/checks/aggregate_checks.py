# SPDX-License-Identifier: Apache-2.0
"""What must hold of the aggregates in every back-end; see store_checks."""

from novasched.db import tables
from novasched.db.stores import SqlApiStore
from tests.support.databases.databases import NOON, SECOND


def aggregates_come_by_id_with_hosts_and_metadata(databases):
    first, second = databases.add(
        tables.aggregates,
        {'uuid': 'a1', 'name': 'zone'},
        {'uuid': None, 'name': 'bare'},
    )
    databases.add(
        tables.aggregate_hosts,
        {'aggregate_id': first, 'host': 'h1'},
        {'aggregate_id': first, 'host': 'h2'},
        {'aggregate_id': second, 'host': None},
    )
    databases.add(
        tables.aggregate_metadata,
        {'aggregate_id': first, 'key': 'availability_zone', 'value': 'az1'},
        {'aggregate_id': first, 'key': 'ssd', 'value': 'a,b'},
    )
    zone, bare = SqlApiStore(databases.api).aggregates()
    assert (zone.id, zone.uuid, zone.name) == (first, 'a1', 'zone')
    assert zone.hosts == {'h1', 'h2'}
    assert zone.metadata == {'availability_zone': 'az1', 'ssd': 'a,b'}
    assert (bare.uuid, bare.hosts, dict(bare.metadata)) == (None, frozenset(), {})


def the_mark_of_the_aggregates_changes_with_every_change(databases):
    store = SqlApiStore(databases.api)
    marks = [store.aggregates_mark()]
    assert marks[0].newest is None

    def changed(statement=None):
        if statement is not None:
            with databases.api.begin() as connection:
                connection.execute(statement)
        assert store.aggregates_mark() == store.aggregates_mark()
        assert store.aggregates_mark() != marks[-1]
        marks.append(store.aggregates_mark())

    hosts, metadata = tables.aggregate_hosts, tables.aggregate_metadata
    row = {'uuid': 'a1', 'name': 'zone', 'created_at': NOON}
    (id_,) = databases.add(tables.aggregates, row)
    changed()
    assert marks[-1].newest == NOON
    row = {'aggregate_id': id_, 'host': 'h1', 'created_at': NOON}
    (first,) = databases.add(hosts, row)
    changed()
    databases.add(hosts, {**row, 'host': 'h2'})
    changed()
    changed(hosts.delete().where(hosts.c.id == first))
    item = {'key': 'availability_zone', 'value': 'one', 'created_at': NOON}
    databases.add(metadata, {'aggregate_id': id_, **item})
    changed()
    changed(metadata.update().values(value='two', updated_at=NOON + SECOND))
    assert marks[-1].newest == NOON + SECOND
    changed(metadata.delete())
    changed(tables.aggregates.update().values(name='x', updated_at=NOON))


CHECKS = [
    aggregates_come_by_id_with_hosts_and_metadata,
    the_mark_of_the_aggregates_changes_with_every_change,
]
