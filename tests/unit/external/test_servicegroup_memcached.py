# SPDX-License-Identifier: Apache-2.0
"""Heartbeats of memcached take the place of those in the rows of services."""

import gc
import threading

import pytest

from novasched import errors
from novasched.cluster.cells import Cells
from novasched.cluster.heartbeat import BINARY, TOPIC
from novasched.cluster.view import ClusterView
from novasched.external.servicegroup import LOOK_S, NEVER, Beats, MemcachedServices
from tests.support.clouds.fakes import NOON, SECOND, FakeClock
from tests.support.databases.fake_databases import (
    FakeApiStore,
    FakeCellStore,
    FakeCellStores,
    cell,
    service,
)
from tests.support.tables.cases import cases

DEADLINE_S = 30


class Memcached:
    """A region of dogpile.cache; ``problem`` is raised, ``gate`` waited for."""

    def __init__(self):
        self.values = {}
        self.asked = []
        self.problem = None
        self.gate = None
        self.keeps = True

    def get_multi(self, keys, *, ignore_expiration):
        assert ignore_expiration
        self.asked.append(list(keys))
        if self.gate is not None:
            self.gate.wait(DEADLINE_S)
        if self.problem is not None:
            raise self.problem
        return [self.values.get(key) for key in keys]

    def set(self, key, value):
        if self.problem is not None:
            raise self.problem
        if self.keeps:
            self.values[key] = value


class Cloud:
    """A cell of hosts 1 to 3, which beat in memcached since noon."""

    def __init__(self):
        self.clock = FakeClock()
        self.memcached = Memcached()
        self.beats = Beats(self.memcached, self.clock, DEADLINE_S)
        self.a = FakeCellStore()
        for id_ in (1, 2, 3):
            self.a.add_host(id_)
            self.a.services[f'h{id_}'] = service(
                f'h{id_}', last_seen_up=None, created_at=NOON - 3600 * SECOND
            )
            self.beat(id_)
        cells = Cells(FakeCellStores(a=self.a), self.clock)
        self.view = ClusterView(
            FakeApiStore([cell('a')]), cells, self.clock, heartbeats=self.beats
        )
        self.view.load()

    def beat(self, id_, after_s=0):
        seen = self.clock.utcnow() + after_s * SECOND
        self.memcached.values[f'compute:h{id_}'] = seen

    def up(self):
        self.clock.advance(LOOK_S)
        self.view.refresh()
        hosts = self.view.hosts(None)
        return sorted(hosts.host[hosts.service_up].tolist())


@pytest.fixture
def cloud():
    made = Cloud()
    yield made
    made.view.close()


def test_a_compute_is_up_as_long_as_its_beat_is_young(cloud):
    assert cloud.up() == ['h1', 'h2', 'h3']
    cloud.clock.advance(50)
    cloud.beat(1)
    cloud.clock.advance(10)
    assert cloud.up() == ['h1']
    cloud.beat(3)
    assert cloud.up() == ['h1', 'h3']


@cases(
    'fields, up, disabled',
    ('forced down', {'forced_down': True}, False, False),
    ('disabled', {'disabled': True}, True, True),
    ('of another topic', {'topic': 'elsewhere'}, False, False),
)
def test_the_row_still_counts(cloud, fields, up, disabled):
    cloud.a.services['h2'] = cloud.a.services['h2']._replace(**fields)
    cloud.view.read_services()
    cloud.clock.advance(LOOK_S)
    cloud.view.refresh()
    hosts = cloud.view.hosts(None)
    at = hosts.host.tolist().index('h2')
    assert (hosts.service_up[at], hosts.service_disabled[at]) == (up, disabled)


def test_a_new_service_without_a_beat_is_down(cloud):
    cloud.a.add_host(4)
    new = service('h4', last_seen_up=None, created_at=cloud.clock.utcnow())
    cloud.a.services['h4'] = new
    cloud.a.change(4, cloud.clock.utcnow())
    assert cloud.up() == ['h1', 'h2', 'h3']
    cloud.beat(4)
    assert cloud.up() == ['h1', 'h2', 'h3', 'h4']


def test_a_service_that_is_deleted_is_forgotten(cloud):
    cloud.clock.advance(61)
    cloud.beat(1)
    cloud.a.delete_service('h2', cloud.clock.utcnow())
    assert cloud.up() == ['h1']
    assert list(cloud.view._nodes.cells['a'].services.unavailable) == ['h3']


def test_heartbeat_from_the_future_counts_as_now(cloud):
    cloud.beat(1, after_s=7200)
    cloud.clock.advance(55)
    assert cloud.up() == ['h1', 'h2', 'h3']
    cloud.clock.advance(10)
    assert cloud.up() == ['h1']


@cases(
    'lose',
    ('it forgot all', lambda memcached: memcached.values.clear()),
    ('it is away', lambda memcached: setattr(memcached, 'problem', OSError('refused'))),
)
def test_a_beat_counts_for_as_long_as_it_is_young(cloud, lose):
    lose(cloud.memcached)
    cloud.clock.advance(57)
    assert cloud.up() == ['h1', 'h2', 'h3']
    cloud.view._heartbeat_grace.grace_s = 0
    cloud.clock.advance(2)
    assert cloud.up() == []


def test_unavailable_memcached_is_logged_once(cloud, caplog):
    caplog.set_level('INFO')
    cloud.memcached.problem = OSError('refused')
    cloud.up()
    cloud.up()
    cloud.memcached.problem = None
    cloud.up()
    cloud.up()
    assert [r.getMessage() for r in caplog.records if 'servicegroup' in r.name] == [
        'Heartbeats cannot be read from memcached: refused',
        'Heartbeats can be read from memcached again.',
    ]


def test_memcached_is_asked_once_a_second_at_most(cloud):
    cloud.up()
    asked = len(cloud.memcached.asked)
    for _ in range(3):
        cloud.view.refresh()
    assert len(cloud.memcached.asked) == asked
    cloud.up()
    assert len(cloud.memcached.asked) == asked + 1


def test_hung_memcached_delays_requests_only_briefly(cloud):
    cloud.beats._within_s = 0.1
    cloud.memcached.gate = threading.Event()
    asked = len(cloud.memcached.asked)
    for _ in range(2):
        assert cloud.up() == ['h1', 'h2', 'h3']
    cloud.memcached.gate.set()
    cloud.beats._executor.submit(lambda: None).result(DEADLINE_S)
    assert len(cloud.memcached.asked) == asked + 1


def test_cells_that_look_at_once_both_get_what_is_there(cloud):
    memcached, beats = cloud.memcached, cloud.beats
    memcached.values['compute:b1'] = NOON
    cloud.clock.advance(LOOK_S)
    memcached.gate = threading.Event()
    first = threading.Thread(target=beats.latest, args=(['compute:h1'],))
    asked = len(memcached.asked)
    first.start()
    while len(memcached.asked) == asked:
        assert first.is_alive()
    opening = threading.Timer(0.1, memcached.gate.set)
    opening.start()
    assert beats.latest(['compute:b1']).get('compute:b1') == NOON
    first.join(DEADLINE_S)
    opening.join(DEADLINE_S)


def test_a_thread_that_looks_ends_with_who_wanted_it():
    beats = Beats(Memcached(), FakeClock())
    beats.latest(['compute:h1'])
    (thread,) = beats._executor._threads
    del beats
    gc.collect()
    thread.join(DEADLINE_S)
    assert not thread.is_alive()


def test_value_that_is_no_time_is_no_heartbeat(cloud):
    cloud.clock.advance(61)
    cloud.memcached.values['compute:h1'] = object()
    cloud.beat(2)
    assert cloud.up() == ['h2']


def test_new_connections_do_not_bring_silent_computes_back(cloud):
    cloud.clock.advance(61)
    cloud.beat(1)
    assert cloud.up() == ['h1']
    cloud.view.cells._stores.forget(['a'])
    assert cloud.up() == ['h1']


class Directory:
    """The services rows of schedulers."""

    def __init__(self, *rows):
        self.rows = list(rows)
        self.beaten = []

    def register(self, host, binary, topic, version):
        row = service(host, binary=binary, topic=topic, version=version)
        self.rows.append(row)
        return row, True

    def beat(self, service_id, report_count):
        self.beaten.append(service_id)
        return True

    def of_program(self, binary):
        return list(self.rows)


@pytest.fixture
def memcached():
    return Memcached()


@pytest.fixture
def services(memcached):
    return MemcachedServices(Directory(), Beats(memcached, FakeClock()))


def test_our_own_heartbeat_goes_to_memcached(services, memcached):
    row, created = services.register('us', BINARY, TOPIC, 74)
    assert created
    assert services.beat(row.id, 1)
    assert memcached.values == {'scheduler:us': NOON}
    assert services.inner.beaten == []
    (found,) = services.of_program(BINARY)
    assert found.last_seen_up == NOON


def test_a_scheduler_without_a_beat_was_never_heard_of(services):
    services.register('us', BINARY, TOPIC, 74)
    (found,) = services.of_program(BINARY)
    assert found.last_seen_up == NEVER


@cases(
    'change, says',
    ('it cannot be reached', {'problem': OSError('refused')}, 'refused'),
    ('it keeps nothing', {'keeps': False}, 'did not keep'),
)
def test_a_heartbeat_that_is_not_kept_has_failed(services, memcached, change, says):
    row, _ = services.register('us', BINARY, TOPIC, 74)
    vars(memcached).update(change)
    with pytest.raises(errors.StoreFailed, match=says):
        services.beat(row.id, 1)


def test_unregistered_service_has_no_heartbeat(services):
    with pytest.raises(errors.StoreFailed, match='not registered'):
        services.beat(7, 1)
