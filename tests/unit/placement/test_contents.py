# SPDX-License-Identifier: Apache-2.0
"""Contents of placement read through its API, from one that changes meanwhile."""

from __future__ import annotations

import re
import threading
import urllib.parse

import numpy as np
import pytest
import requests

from novasched import errors
from novasched.placement.contents import PlacementApiContents
from novasched.providers.contents import build
from tests.fakes import FakeClock
from tests.unit.placement.conftest import URL

POOL = 'MISC_SHARES_VIA_AGGREGATE'
ERROR = '{"errors": [{"status": 500, "detail": "It hurts."}]}'


def inventory(total, ratio=1.0, **others):
    return {
        'total': total,
        'reserved': 0,
        'min_unit': 1,
        'max_unit': total,
        'step_size': 1,
        'allocation_ratio': ratio,
        **others,
    }


class World:
    """A placement: providers by uuid, and the answers that its API gives of them."""

    def __init__(self):
        self.providers = {}
        self.traits = ['T1', 'T2', POOL]
        self.classes = ['VCPU', 'DISK_GB', 'CUSTOM_PORT']
        self.before_answer = lambda path: None
        self.instead = {}

    def add(self, uuid, parent=None, traits=(), aggregates=(), **inventories):
        """Add a provider; its inventories are totals by class, or whole."""
        self.providers[uuid] = {
            'generation': 1,
            'parent': parent,
            'inventories': {
                name: each if isinstance(each, dict) else inventory(each)
                for name, each in inventories.items()
            },
            'used': {},
            'traits': list(traits),
            'aggregates': list(aggregates),
        }

    def write(self, uuid, **values):
        """Write what raises the generation."""
        self.providers[uuid].update(values)
        self.providers[uuid]['generation'] += 1

    def answer(self, request):
        url = urllib.parse.urlsplit(request.url.removeprefix(URL))
        path = f'{url.path}?{url.query}' if url.query else url.path
        self.before_answer(path)
        if path in self.instead:
            return self.instead[path]
        if single := re.fullmatch('/resource_providers/([^/]+)/([a-z]+)', url.path):
            return self._single(*single.groups())
        query = dict(urllib.parse.parse_qsl(url.query))
        return 200, {
            '/resource_providers': self._listed,
            '/allocation_candidates': self._candidates,
            '/traits': lambda query: {'traits': self.traits},
            '/resource_classes': lambda query: {
                'resource_classes': [{'name': name} for name in self.classes]
            },
        }[url.path](query)

    def _single(self, uuid, what):
        if uuid not in self.providers:
            return 404, ERROR
        provider = self.providers[uuid]
        said = provider['used' if what == 'usages' else what]
        if what == 'usages':
            said = dict.fromkeys(provider['inventories'], 0) | said
        generation = provider['generation']
        return 200, {what: said, 'resource_provider_generation': generation}

    def _root(self, uuid):
        parent = self.providers[uuid]['parent']
        return self._root(parent) if parent else uuid

    def _listed(self, query):
        aggregate = query.get('member_of', '').removeprefix('in:')
        return {
            'resource_providers': [
                {
                    'uuid': uuid,
                    'generation': each['generation'],
                    'parent_provider_uuid': each['parent'],
                    'root_provider_uuid': self._root(uuid),
                }
                for uuid, each in self.providers.items()
                if not aggregate or aggregate in each['aggregates']
            ]
        }

    def _candidates(self, query):
        name = query['resources'].removesuffix(':1')
        roots = {
            self._root(uuid)
            for uuid, each in self.providers.items()
            if name in each['inventories']
            and each['inventories'][name]['min_unit'] == 1
            and each['inventories'][name]['total'] > each['used'].get(name, 0)
        }
        return {
            'provider_summaries': {
                uuid: {
                    'resources': {
                        name: {'capacity': 0, 'used': each['used'].get(name, 0)}
                        for name in each['inventories']
                    },
                    'traits': each['traits'],
                }
                for uuid, each in self.providers.items()
                if self._root(uuid) in roots
            }
        }

    def says(self):
        """All that a table of these providers would say, by uuid."""
        return {
            uuid: {
                'parent': each['parent'],
                'root': self._root(uuid),
                'traits': sorted(each['traits']),
                'aggregates': sorted(each['aggregates']),
                'inventories': {
                    name: [
                        *(one[n] for n in ('min_unit', 'max_unit', 'step_size')),
                        int((one['total'] - one['reserved']) * one['allocation_ratio']),
                        each['used'].get(name, 0),
                    ]
                    for name, one in each['inventories'].items()
                },
            }
            for uuid, each in self.providers.items()
        }


def says(contents):
    """The same of contents."""
    table = build(contents)
    found = {}
    for row, uuid in enumerate(table.uuids):
        summary = table.summary(row)
        inventories = {}
        for name, columns in table.inventories.items():
            if (at := columns.place(row)) >= 0:
                assert columns.room[at] == columns.capacity[at]
                inventories[name] = [
                    getattr(columns, each)[at]
                    for each in ('min_unit', 'max_unit', 'step_size', 'room', 'used')
                ]
        found[uuid] = {
            'parent': summary['parent_provider_uuid'],
            'root': summary['root_provider_uuid'],
            'traits': sorted(summary['traits']),
            'aggregates': sorted(n for n, m in table.members.items() if row in m),
            'inventories': inventories,
        }
    return found


@pytest.fixture
def world():
    made = World()
    made.add('h1', traits=['T1'], aggregates=['a1'], VCPU=8, DISK_GB=100)
    made.add('h1-numa', parent='h1', traits=['T2'])
    made.add('h1-nic', parent='h1-numa', CUSTOM_PORT=2)
    made.add('h2', aggregates=['a1', 'a2'], VCPU=inventory(8, 16.0, reserved=1))
    made.add(
        'pool', traits=[POOL], aggregates=['a2'], DISK_GB=inventory(50, min_unit=5)
    )
    made.providers['h1']['used'] = {'VCPU': 2}
    made.providers['pool']['used'] = {'DISK_GB': 10}
    return made


@pytest.fixture
def served(world, scripted):
    """The world's API: its reader, and what it was asked since it was last asked."""
    adapter, script = scripted()
    script.answer = world.answer

    def asked():
        found = [each.removeprefix('GET ') for each in script.asked]
        script.requests.clear()
        return found

    return PlacementApiContents(adapter, share=1.0), asked


def test_all_is_read(world, served):
    reader, asked = served
    assert says(reader.read()) == world.says()
    requests_ = asked()
    assert requests_[0] == '/resource_providers'
    assert [each for each in requests_ if 'usages' in each] == [
        '/resource_providers/pool/usages'
    ]
    assert len(requests_) == len(set(requests_))


def test_the_names_that_nobody_has_are_known(served):
    table = build(served[0].read())
    assert table.classes == {'VCPU', 'DISK_GB', 'CUSTOM_PORT'}
    assert set(table.traits) == {'T1', 'T2', POOL}


def test_no_providers(scripted):
    adapter, script = scripted()
    script.answer = World().answer
    reader = PlacementApiContents(adapter, share=1.0)
    contents = reader.read()
    assert len(build(contents)) == 0
    assert build(contents).classes == {'VCPU', 'DISK_GB', 'CUSTOM_PORT'}
    assert reader.read_since(contents, thorough=False) is contents


@pytest.mark.parametrize('thorough', [False, True])
def test_nothing_changed(served, thorough):
    reader, asked = served
    contents = reader.read()
    asked()
    assert reader.read_since(contents, thorough) is contents
    assert thorough or asked() == ['/resource_providers']
    assert not any('inventories' in each for each in asked())


CHANGES = {
    'inventories': lambda w: w.write('h1', inventories={'DISK_GB': inventory(7)}),
    'no inventories': lambda w: w.write('pool', inventories={}, used={}),
    'a claim': lambda w: w.write('h1-nic', used={'CUSTOM_PORT': 2}),
    'traits': lambda w: w.write('h2', traits=['T2', 'T1']),
    'no traits': lambda w: w.write('h1', traits=[]),
    'aggregates': lambda w: w.write('h1', aggregates=['a3']),
    'a new parent': lambda w: w.providers['h1-nic'].update(parent='h2'),
    'a new child': lambda w: w.add('new', parent='h2', DISK_GB=5, traits=['T2']),
    'a child less': lambda w: w.providers.pop('h1-nic'),
    'another one of the uuid': lambda w: (
        w.add('h1-nic', parent='h1', CUSTOM_PORT=1),
        w.providers['h1-nic'].update(generation=0),
    ),
}


@pytest.mark.parametrize('change', CHANGES)
def test_a_change(world, served, change):
    reader, _ = served
    contents = reader.read()
    CHANGES[change](world)
    after = reader.read_since(contents, thorough=False)
    assert after is not contents
    assert says(after) == world.says()
    assert reader.read_since(after, thorough=True) is after
    ids = dict(zip(contents.uuids.values(), contents.uuids, strict=True))
    assert all(after.uuids.get(ids[u], u) == u for u in ids if u in world.providers)


def test_only_what_changed_is_read_again(world, served):
    for number in range(100):
        world.add(f'other-{number}', VCPU=1)
    reader, asked = served
    contents = reader.read()
    world.write('h1', used={'VCPU': 3})
    asked()
    after = reader.read_since(contents, thorough=False)
    assert sorted(asked()) == [
        *('/resource_classes', '/resource_providers'),
        *(
            f'/resource_providers/h1/{table}'
            for table in ('aggregates', 'inventories', 'traits', 'usages')
        ),
        '/traits',
    ]
    assert after.traits is contents.traits
    assert says(after) == world.says()


SILENT = {
    'freed where there is room': lambda w: w.providers['h1'].update(used={}),
    'freed where no unit of it may be taken': (
        lambda w: w.providers['pool'].update(used={'DISK_GB': 5})
    ),
    'members of an aggregate': lambda w: w.providers['h1'].update(aggregates=['a2']),
    'no members of an aggregate': lambda w: w.providers['h1'].update(aggregates=[]),
}


@pytest.mark.parametrize('change', SILENT)
def test_what_changes_no_generation(world, served, change):
    reader, _ = served
    contents = reader.read()
    SILENT[change](world)
    assert reader.read_since(contents, thorough=False) is contents
    after = reader.read_since(contents, thorough=True)
    assert says(after) == world.says()
    assert np.array_equal(after.providers, contents.providers)


@pytest.mark.parametrize('change', SILENT)
def test_suspects_are_read_again(world, served, change):
    reader, _ = served
    contents = reader.read()
    ids = {uuid: id_ for id_, uuid in contents.uuids.items()}
    suspects = {ids['h1'], ids['pool'], 4711}
    assert reader.read_since(contents, False, suspects) is contents
    SILENT[change](world)
    after = reader.read_since(contents, False, suspects)
    assert says(after) == world.says()


def test_a_trait_and_a_class_come_and_go(world, served):
    reader, _ = served
    contents = reader.read()
    world.traits, world.classes = ['T1', 'T2', 'T9', POOL], ['DISK_GB', 'VCPU']
    after = reader.read_since(contents, thorough=True)
    assert set(build(after).traits) == {'T1', 'T2', 'T9', POOL}
    assert build(after).classes == {'DISK_GB', 'VCPU', 'CUSTOM_PORT'}  # still in use
    world.write('h1-nic', inventories={})
    world.traits.remove('T9')
    after = reader.read_since(after, thorough=False)
    assert set(build(after).traits) == {'T1', 'T2', POOL}
    assert build(after).classes == {'DISK_GB', 'VCPU'}


@pytest.mark.parametrize('table', ['inventories', 'aggregates'])
def test_a_provider_that_goes_during_a_load_is_left_out(world, served, table):
    def go(path):
        if path == f'/resource_providers/h1-numa/{table}':
            world.providers.pop('h1-numa', None)
            world.providers.pop('h1-nic', None)

    world.before_answer = go
    contents = served[0].read()
    assert says(contents) == world.says()
    assert served[0].read_since(contents, thorough=True) is contents


def test_a_tree_that_goes_during_a_load_after_its_leaves_were_read(world, served):
    world.providers = {u: world.providers[u] for u in reversed(world.providers)}

    def go(path):
        if path == '/resource_providers/h1-numa/inventories':
            world.providers.pop('h1-numa', None)
            world.providers.pop('h1-nic', None)

    world.before_answer = go
    assert says(served[0].read()) == world.says()


CALLS = (
    '/resource_classes',
    '/traits',
    '/allocation_candidates?resources=VCPU:1',
    '/allocation_candidates?resources=DISK_GB:1',
    *(
        f'/resource_providers/{uuid}/{table}'
        for uuid in ('h1', 'h1-nic')
        for table in ('inventories', 'aggregates')
    ),
    '/resource_providers/pool/usages',
    '/resource_providers/pool/traits',
)


def changed_before(world, call, change):
    """Let the world change right before it answers this call for the first time."""
    left = [change]
    world.before_answer = lambda path: path == call and left and left.pop()(world)
    return left


@pytest.mark.parametrize('change', CHANGES)
@pytest.mark.parametrize('call', CALLS)
def test_what_changes_during_a_load_is_found_by_the_next_read(
    world, served, call, change
):
    reader, _ = served
    left = changed_before(world, call, CHANGES[change])
    contents = reader.read()
    build(contents)
    assert not left or 'pool' in call
    world.before_answer = lambda path: None
    after = reader.read_since(contents, thorough=False)
    assert left or says(after) == world.says()


def test_one_of_the_same_uuid_and_generation_during_a_load(world, served):
    """A provider made again may reach the generation that the old one had."""

    def again(world):
        world.add('h1', traits=['T2'], VCPU=1)

    world.write('h1')
    world.write('h1', aggregates=['a2'])
    changed_before(world, '/resource_providers/h1/aggregates', again)
    reader, _ = served
    contents = reader.read()
    assert says(reader.read_since(contents, thorough=False)) == world.says()


NONSENSE = {
    'a fault of placement': (500, ERROR),
    'a gateway': (504, '<html>sorry</html>'),
    'no permission': (403, ERROR),
    'no JSON': (200, '<html>welcome</html>'),
    'a list': (200, []),
    'nothing': (200, {}),
    'null': (200, 'null'),
    'texts': (
        200,
        dict.fromkeys(
            (
                'resource_providers',
                'resource_classes',
                'traits',
                'inventories',
                'usages',
                'aggregates',
                'provider_summaries',
                'resource_provider_generation',
            ),
            'abc',
        ),
    ),
    'silence': requests.ReadTimeout('slow'),
    'nobody there': requests.ConnectTimeout('slow'),
}


@pytest.mark.parametrize('answer', NONSENSE)
@pytest.mark.parametrize('call', ['/resource_providers', *CALLS])
def test_a_bad_answer(world, served, call, answer):
    reader, asked = served
    world.instead[call] = NONSENSE[answer]
    with pytest.raises(errors.StoreFailed, match=re.escape(f'GET {call}: ')):
        reader.read()
    before = asked()
    world.instead.clear()
    assert says(reader.read()) == world.says()
    kept = {each for each in before if re.search('/(inventories|aggregates)$', each)}
    assert not (kept - {call}).intersection(asked())  # goes on where it ended


@pytest.mark.parametrize(
    ('call', 'spoil'),
    [
        ('h1/inventories', {'inventories': {'VCPU': {'total': 4}}}),
        ('h1/inventories', {'inventories': {'VCPU': inventory('4')}}),
        ('h1/inventories', {'inventories': {'VCPU': inventory(4, None)}}),
        ('h1/inventories', {'resource_provider_generation': None}),
        ('h1/aggregates', {'aggregates': [1]}),
        ('pool/usages', {'usages': {'DISK_GB': 1.5}}),
        ('pool/usages', {'usages': {'DISK_GB': 2**70}}),
        ('pool/traits', {'traits': [['T1']]}),
    ],
)
def test_a_field_that_is_none(world, served, call, spoil):
    uuid, what = call.split('/')
    _, said = world._single(uuid, what)
    world.instead[f'/resource_providers/{call}'] = 200, said | spoil
    with pytest.raises(errors.StoreFailed, match='makes no sense'):
        served[0].read()


def test_a_failed_look_for_changes_loses_nothing(world, served):
    reader, _ = served
    contents = reader.read()
    world.write('h1', used={'VCPU': 5}, traits=['T2'])
    world.providers['pool']['used'] = {}
    world.instead['/resource_providers?member_of=in:a2'] = 503, ''
    with pytest.raises(errors.StoreFailed):
        reader.read_since(contents, thorough=True)
    world.instead.clear()
    world.write('h1', used={'VCPU': 6})
    assert says(reader.read_since(contents, thorough=True)) == world.says()


class FakeEvent:
    """An event that nobody waits for; ``waits`` are the seconds of each."""

    def __init__(self, clock):
        self.clock = clock
        self.waits = []
        self.is_set = False

    def wait(self, seconds):
        self.waits.append(seconds)
        self.clock.advance(seconds)
        return self.is_set

    def set(self):
        self.is_set = True


@pytest.fixture
def slow(world, scripted):
    """The world's API, each of whose answers takes three seconds, and its clock."""
    adapter, script = scripted()
    clock = FakeClock()

    def answer(request):
        clock.advance(world.takes_s)
        return world.answer(request)

    world.takes_s = 3.0
    script.answer = answer
    event = FakeEvent(clock)
    reader = PlacementApiContents(adapter, share=0.1, clock=clock, closed=event)
    return reader, event, script


def test_requests_take_their_share_of_the_time(slow):
    reader, event, script = slow
    began = event.clock.monotonic()
    contents = reader.read()
    assert event.waits[0] == 0
    assert event.waits[1:] == pytest.approx([27.0] * (len(script.asked) - 1))
    event.clock.advance(7.0)
    reader.read_since(contents, thorough=False)
    assert event.waits[-1] == pytest.approx(20.0)
    took = event.clock.monotonic() - began
    assert len(script.asked) * 3.0 / (took + 27.0) == pytest.approx(0.1)


def test_one_silence_does_not_stop_it_for_hours(world, slow):
    reader, event, _ = slow
    world.takes_s = 6000.0
    world.instead['/resource_providers'] = requests.ReadTimeout('slow')
    for _ in range(2):
        with pytest.raises(errors.StoreFailed):
            reader.read()
    assert event.waits == [0, 300.0]


def test_a_closed_reader_asks_nothing(world, slow):
    reader, _, script = slow

    def close(path):
        if path == '/traits':
            reader.close()

    world.before_answer = close
    with pytest.raises(errors.StoreFailed, match='closed'):
        reader.read()
    assert script.asked[-1] == 'GET /traits'
    asked = len(script.asked)
    with pytest.raises(errors.StoreFailed, match='closed'):
        reader.read()
    assert len(script.asked) == asked


def test_a_pause_ends_when_the_reader_is_closed(world, scripted):
    adapter, script = scripted()
    script.answer = world.answer
    reader = PlacementApiContents(adapter, share=1e-9)
    world.before_answer = lambda path: threading.Timer(0.05, reader.close).start()
    with pytest.raises(errors.StoreFailed, match='closed'):
        reader.read()
    assert len(script.asked) == 1


def test_nobody_waits_for_it(served):
    assert served[0].is_quick is False
    assert served[0].mark() is None
