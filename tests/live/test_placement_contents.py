# SPDX-License-Identifier: Apache-2.0
"""Placement's tables, read on MariaDB and PostgreSQL, beside what its API says."""

from __future__ import annotations

import functools
import json
import random
import uuid
from dataclasses import replace

import pytest
import sqlalchemy as sa
from keystoneauth1 import token_endpoint
from keystoneauth1.adapter import Adapter
from keystoneauth1.session import Session

from novasched import errors
from novasched.db.transactions import Database
from novasched.placement_copy.readers import database
from novasched.placement_copy.readers.api import ApiReader
from novasched.placement_copy.readers.database import DatabaseReader
from novasched.providers.contents import build
from novasched.providers.hints import CloudHints
from novasched.resources import Query
from novasched.resources.query import Group
from tests.live.servers.placement import Placement
from tests.support.placement import placement_worlds as worlds
from tests.support.tables.combinations import SERVERS
from tests.support.tables.examples import scaled

MORE = pytest.mark.exhaustive('more random examples')
ROUNDS = scaled(3, fewest=1)


class Copied:
    """A placement of its own on a database server; readers of its tables and API."""

    def __init__(self, directory, url):
        self.placement = Placement(directory, url)
        self.placement.start()
        self.send = functools.partial(self.placement.send, version=worlds.VERSION)
        self.engine = sa.create_engine(url)
        self.reader = DatabaseReader(Database(self.engine))
        http = Session(auth=token_endpoint.Token(self.placement.url, 'admin'))
        adapter = Adapter(http, endpoint_override=self.placement.url)
        self.api = ApiReader(adapter, share=1.0)
        self.writer = worlds.Writer(self.send)
        self.writer.names()

    def close(self):
        self.engine.dispose()
        self.placement.close()


@pytest.fixture(scope='module', params=SERVERS)
def copied(request, tmp_path_factory):
    server = request.getfixturevalue(request.param)
    made = Copied(tmp_path_factory.mktemp('p'), server.create_database('copied'))
    yield made
    made.close()


def comparable(table):
    """All that a table says, by uuid and name."""
    return {
        uuid: json.dumps(table.summary(row), sort_keys=True)
        for row, uuid in enumerate(table.uuids)
    } | {
        f'{name} {uuid}': table.uuids[row]
        for name, rows in table.members.items()
        for uuid, row in zip([table.uuids[r] for r in rows], rows, strict=True)
    }


def by_names(contents, has_exact_room):
    """All that a table says, whatever the ids are."""
    table = build(contents)
    inventories = {}
    for name, columns in table.inventories.items():
        each = [columns.min_unit, columns.max_unit, columns.step_size]
        rows = zip(*each, columns.room * has_exact_room, strict=True)
        for row, values in zip(columns.rows, rows, strict=True):
            inventories[table.uuids[row], name] = tuple(map(int, values))
    summaries = {uuid: table.summary(row) for row, uuid in enumerate(table.uuids)}
    for summary in summaries.values():
        summary['traits'].sort()
    members = {n: {table.uuids[r] for r in rows} for n, rows in table.members.items()}
    return summaries, inventories, members, table.classes, table.traits.keys()


def said(copied, provider):
    """What placement says of a provider's inventories."""
    path = f'/resource_providers/{provider["uuid"]}/inventories'
    return copied.send('GET', path)[1]['inventories']


def test_changes_are_read_as_a_full_load_reads_them(copied):
    rng = random.Random(7)
    listed = [each for _ in range(ROUNDS) for each in worlds.providers(rng)]
    contents = copied.reader.read()
    consumers = []
    for number, provider in enumerate(listed):
        copied.writer.create(provider)
        consumer = copied.writer.claim(rng, listed[: number + 1])
        consumers += [consumer] if consumer else []
        if number % 5 == 4:
            contents = copied.reader.read_since(contents, include_unversioned=False)
    for consumer in consumers[::2]:
        copied.writer.release(consumer)
    top, child = next(p for p in listed if not p['parent']), listed[-1]
    copied.writer.move(child, top['uuid'])
    leaf = next(p for p in listed if p['parent'] and not p['inventories'])
    copied.writer.delete(leaf)
    contents = copied.reader.read_since(contents, include_unversioned=True)
    assert consumers
    assert comparable(build(contents)) == comparable(build(copied.reader.read()))
    there = build(contents).rows_by_uuid
    assert all((each['uuid'] in there) is (each is not leaf) for each in listed)


def exact(api):
    """Read all, and what a first load guesses."""
    hints = CloudHints(aggregates=lambda: worlds.AGGREGATES)
    contents = api.read(hints)
    while contents.guessed:
        contents = api.read_since(contents, include_unversioned=False)
    return contents


def test_trees_are_looked_at_by_one_statement_or_request_each(copied):
    """What is used does not matter; all else that is written is seen at once."""
    rng = random.Random(6)
    listed = worlds.providers(rng)
    for each in listed:
        copied.writer.create(each)
    readers = [copied.reader, copied.api]
    known = [copied.reader.read(), exact(copied.api)]
    assert any(copied.writer.claim(rng, listed) for _ in range(20))

    def looked_at():
        """What each reader sees of all trees."""
        return [
            reader.trees(contents, set(contents.providers[:, 2].tolist()))
            for reader, contents in zip(readers, known, strict=True)
        ]

    assert looked_at() == [None, None]
    having = [each for each in listed if each['traits'] and each['aggregates']]
    top = next(each for each in having if not each['parent'])
    leaf = next(p for p in listed if p['parent'] and not p['inventories'])
    for change in (
        lambda: copied.writer.move(listed[-1], top['uuid']),
        lambda: copied.writer.write({**top, 'traits': []}, 'traits'),
        lambda: copied.writer.write({**top, 'aggregates': []}, 'aggregates'),
        lambda: copied.writer.delete(leaf),
    ):
        change()
        seen = looked_at()
        known = [
            reader.read_since(contents, include_unversioned=False)
            for reader, contents in zip(readers, known, strict=True)
        ]
        for now, contents in zip(seen, known, strict=True):
            everything = set(contents.providers[:, 2].tolist())
            assert now is not None
            assert contents.trees(everything).says_the_same(now)


def test_a_claim_adds_one_to_generations_and_its_end_nothing(copied):
    """So a provider with one more than before an own claim is otherwise as it was."""
    hosts = [
        {'uuid': str(uuid.uuid4()), 'parent': None, 'traits': [], 'aggregates': []}
        | {'inventories': {'VCPU': worlds.plain(8)}}
        for _ in range(3)
    ]
    for each in hosts:
        copied.writer.create(each)

    def generations():
        paths = [f'/resource_providers/{each["uuid"]}' for each in hosts]
        return [copied.send('GET', path)[1]['generation'] for path in paths]

    first, consumers = generations(), [str(uuid.uuid4()) for _ in range(3)]
    on_both = {each['uuid']: {'resources': {'VCPU': 1}} for each in hosts[:2]}
    body = {
        consumer: {
            'allocations': on_both,
            'project_id': 'p',
            'user_id': 'u',
            'consumer_generation': None,
            'consumer_type': 'INSTANCE',
        }
        for consumer in consumers
    }
    assert copied.send('POST', '/allocations', body)[0] == 204
    claimed = generations()
    assert [now - before for now, before in zip(claimed, first, strict=True)] == [
        1,
        1,
        0,
    ]
    for consumer in consumers:
        copied.writer.release(consumer)
    assert generations() == claimed


def test_providers_that_meet_the_terms_are_listed_by_one_request(copied):
    rng = random.Random(13)
    first, second, third, *_ = worlds.TRAITS
    one, other, *_ = worlds.AGGREGATES
    alone = [worlds.provider(rng, None, worlds.HOST_CLASSES, 3) for _ in range(8)]
    for each in alone:
        each |= {'traits': [first, second], 'aggregates': [one]}
        copied.writer.create(each)
    known = exact(copied.api)
    uuids = {each['uuid'] for each in alone}
    roots = {id_ for id_, uuid in known.uuids.items() if uuid in uuids}
    group = Group('', {'VCPU': 1}, frozenset({first, second}), frozenset({third}))
    group = replace(
        group, member_of=(frozenset({one}),), not_member_of=frozenset({other})
    )
    terms = Query((group,)).terms_of_one()

    def looked_at():
        return copied.api.trees(known, roots, with_aggregates=True, terms=terms)

    changed = alone[5]
    for table, values in (
        ('traits', [first]),
        ('traits', [first, second, third]),
        ('aggregates', []),
        ('aggregates', [one, other]),
    ):
        assert looked_at() is None
        copied.writer.write({**changed, table: values}, table)
        assert looked_at() is not None
        copied.writer.write(changed, table)


@pytest.mark.parametrize('seed', [0, *(pytest.param(n, marks=MORE) for n in (1, 2))])
def test_the_api_says_what_the_tables_say(copied, request, seed):
    rng = random.Random(seed)
    # The database computes with a ratio that the API does not say.
    has_exact_room = request.node.callspec.params['copied'] == 'postgres'

    def check(contents):
        read = copied.reader.read()
        assert by_names(contents, has_exact_room) == by_names(read, has_exact_room)
        assert copied.api.read_since(contents, include_unversioned=True) is contents

    contents = exact(copied.api)
    check(contents)
    listed = worlds.providers(rng)
    consumers = []
    for number, provider in enumerate(listed):
        copied.writer.create(provider)
        consumers += [copied.writer.claim(rng, listed[: number + 1])]
        if number % 4 == 3:
            contents = copied.api.read_since(contents, include_unversioned=False)
            check(contents)
    top = next(p for p in listed if not p['parent'])
    copied.writer.move(listed[-1], top['uuid'])
    check(copied.api.read_since(contents, include_unversioned=False))
    assert any(consumers[::2])
    for consumer in filter(None, consumers[::2]):
        copied.writer.release(consumer)
    check(copied.api.read_since(contents, include_unversioned=True))


@pytest.mark.parametrize(
    ('total', 'ratio'),
    [(10, 0.7), (10, 1.4), (100, 1.3), (100, 0.57), (7, 1.2345678), (64, 16.0)],
)
def test_the_last_unit(copied, total, ratio):
    """The largest amount with a candidate is what placement's database computes."""
    provider = {
        'uuid': worlds.new_uuid(random.Random(f'{total} {ratio}')),
        'parent': None,
        'inventories': {
            'PCPU': {
                'total': total,
                'max_unit': 10**6,
                'allocation_ratio': ratio,
            }
        },
        'traits': [],
        'aggregates': [],
    }
    copied.writer.create(provider)
    table = build(copied.reader.read())
    row = table.rows_by_uuid[provider['uuid']]
    inventory = table.inventories['PCPU']
    for amount in range(int(total * ratio) - 2, int(total * ratio) + 3):
        query = f'resources=PCPU:{amount}&in_tree={provider["uuid"]}'
        answer = copied.send('GET', f'/allocation_candidates?{query}')[1]
        offered = bool(answer['allocation_requests'])
        assert (row in inventory.fitting(amount)) is offered, amount
        for summary in answer['provider_summaries'].values():
            capacity = summary['resources']['PCPU']['capacity']
            assert table.summary(row)['resources']['PCPU']['capacity'] == capacity
    assert said(copied, provider)['PCPU']['total'] == total


def test_numbers_at_their_extremes_offer_what_placement_offers(copied):
    listed = worlds.EXTREMES
    if copied.engine.dialect.name != 'postgresql':
        listed += worlds.NOT_ON_POSTGRESQL
    made = copied.writer.create_extremes(copied.engine, listed)
    table = build(copied.reader.read())
    worlds.check_extremes(copied.send, table, made)
    with copied.engine.begin() as connection:
        connection.exec_driver_sql("DELETE FROM allocations WHERE consumer_id = 'c'")
    for uuid_ in made:
        copied.writer.delete({'uuid': uuid_})


@pytest.mark.parametrize('copied', ['mariadb'], indirect=True)
def test_a_text_that_the_server_cut_is_not_believed(copied, monkeypatch):
    for each in worlds.providers(random.Random(3)):
        copied.writer.create(each)
    # The shortest that the server takes; several rows of four numbers are left whole.
    monkeypatch.setattr(database, 'MAX_TEXT', 4)
    with pytest.raises(errors.StoreFailed, match='a text that was cut'):
        copied.reader.read()


def test_a_table_that_is_not_there(copied):
    engine = sa.create_engine('sqlite://')
    with pytest.raises(errors.StoreFailed, match='no such table'):
        DatabaseReader(Database(engine)).read()
    engine.dispose()


def test_holders_and_usages_are_those_that_the_api_names(copied):
    rng = random.Random(5)
    host = {
        'uuid': worlds.new_uuid(rng),
        'parent': None,
        'inventories': {'VCPU': worlds.plain(64)},
        'traits': [],
        'aggregates': [],
    }
    copied.writer.create(host)
    one, other = copied.writer.claim(rng, [host]), worlds.new_uuid(rng)
    found = copied.reader.holders([one, other])
    assert found == {one: {host['uuid']}}
    held = copied.send('GET', f'/allocations/{one}')[1]['allocations']
    assert held.keys() == found[one]
    used = copied.send('GET', f'/resource_providers/{host["uuid"]}/usages')[1]
    found = copied.reader.usages({host['uuid']: one})
    assert found == {host['uuid']: used['usages']}
    assert copied.reader.usages({host['uuid']: other}) is None
