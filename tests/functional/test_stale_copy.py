# SPDX-License-Identifier: Apache-2.0
"""A copy of placement that is behind: what is picked of it is what placement has now.

A claim looks at amounts alone, so that placement would grant it on a host that lost a
trait or left an aggregate.
"""

import random

import pytest
import requests

from novasched import errors
from novasched.placement_copy.readers.api import ApiReader
from novasched.placement_copy.readers.database import DatabaseReader
from novasched_lab.resource_providers import provide
from tests.functional.conftest import Host, named_uuid, new_uuids
from tests.support.tables.cases import cases
from tests.support.tables.examples import scaled

SMALL = {'vcpus': 1, 'memory_mb': 64, 'root_gb': 1}
GOLD = 'CUSTOM_GOLD'
REQUIRED = {'extra_specs': {f'trait:{GOLD}': 'required'}}
FORBIDDEN = {'extra_specs': {f'trait:{GOLD}': 'forbidden'}}
LARGE = {'memory_mb': 16384}
"""What makes a host the best one."""


def has(made, host, *names):
    """The host has these of our traits; what it has of its own stays."""
    if GOLD in names:
        made.placement.put(f'/traits/{GOLD}', None)
    there = made.placement.of(made.hosts[host].uuid, 'traits')
    own = [each for each in there if not each.startswith('CUSTOM_')]
    made.change(host, 'traits', [*own, *names])


def is_in(made, host, *aggregates):
    """The host is in these aggregates alone."""
    made.change(host, 'aggregates', [*map(named_uuid, aggregates)])


def is_in_by_old_client(made, host, *aggregates):
    """The host is in these aggregates alone; its generation does not tell."""
    url = f'/resource_providers/{made.hosts[host].uuid}/aggregates'
    made.placement.put(url, [*map(named_uuid, aggregates)], '1.1')


def reserves(made, host, amount):
    made.resize(host, 'VCPU', 8, reserved=amount)


class Stored(DatabaseReader):
    """Placement's database, with what comes right before the next look at picks."""

    before = None
    looks = 0

    def trees(self, known, roots, with_aggregates=True, terms=None, seen=None):
        self.looks += 1
        before, self.before = self.before, None
        if before is not None:
            before()
        return super().trees(known, roots, with_aggregates)


def lost(made):
    has(made, 'h1')


def got(made):
    has(made, 'h1', GOLD)


def left(made):
    is_in(made, 'h1')


def left_silently(made):
    is_in_by_old_client(made, 'h1')


@pytest.fixture
def by_database():
    return lambda made: made.copied()


@pytest.fixture
def by_api():
    def copied(made):
        return made.copied(ApiReader(made.adapter, share=1.0))

    return copied


@cases(
    'reader, change, wanted',
    ('a required trait', 'by_database', lost, REQUIRED),
    ('a forbidden trait', 'by_database', got, FORBIDDEN),
    ('an aggregate', 'by_database', left, {'availability_zone': 'az1'}),
    (
        'an aggregate by an old client',
        'by_database',
        left_silently,
        {'availability_zone': 'az1'},
    ),
    ('a required trait, by the API', 'by_api', lost, REQUIRED),
    more=[('an aggregate, by the API', 'by_api', left, {'availability_zone': 'az1'})],
)
@pytest.mark.scenario('F42', 'I6')
def test_a_host_that_is_fit_no_more_is_not_chosen(
    cloud, request, reader, change, wanted
):
    made = cloud([Host('h1', zone='az1', **LARGE), Host('h2', zone='az1')])
    made.placement.put(f'/traits/{GOLD}', None)
    for host in made.hosts:
        has(made, host, *[GOLD] * (change is not got))
    scheduler = request.getfixturevalue(reader)(made)
    change(made)
    assert made.ask(scheduler, new_uuids(), **SMALL, **wanted) == [['h2']]
    assert scheduler.copy.void_picks == 1
    assert [each.from_copy for each in made.decisions] == [True]


def test_irrelevant_change_does_not_void_a_pick(cloud):
    made = cloud([Host('h1', zone='az1', **LARGE), Host('h2', zone='az1')])
    scheduler = made.copied()
    has(made, 'h1', GOLD)
    is_in(made, 'h1', 'az1', 'other')
    reserves(made, 'h1', 1)
    zone = {'availability_zone': 'az1'}
    assert made.ask(scheduler, new_uuids(), **SMALL, **zone) == [['h1']]
    assert scheduler.copy.void_picks == 0


def test_no_alternate_is_fit_no_more(cloud):
    made = cloud([Host(f'h{n}', zone='az1', memory_mb=16384 - n) for n in range(1, 6)])
    scheduler = made.copied()
    for host in ('h2', 'h4'):
        is_in(made, host)
    found = made.ask(
        scheduler, new_uuids(), return_alternates=True, availability_zone='az1', **SMALL
    )
    assert found == [['h1', 'h3', 'h5']]


def test_a_pick_and_its_alternates_are_one_look(cloud):
    made = cloud([Host(f'h{n}') for n in range(4)])
    store = made.placement_contents(Stored)
    scheduler = made.copied(store)
    ((_, *alternates),) = made.ask(
        scheduler, new_uuids(), return_alternates=True, **SMALL
    )
    assert (len(alternates), store.looks) == (2, 1)


def test_servers_of_one_request_go_to_those_that_are_left(cloud):
    hosts = [Host(f'h{n}', zone='az1', memory_mb=16384 - n) for n in range(1, 6)]
    made = cloud(hosts)
    scheduler = made.copied()
    for host in ('h1', 'h2', 'h4'):
        is_in(made, host)
    found = made.ask(scheduler, new_uuids(3), availability_zone='az1', **SMALL)
    assert {host for (host,) in found} <= {'h3', 'h5'}
    assert len(found) == 3


def test_alternates_of_a_driver_of_old_are_looked_at(cloud):
    driver = {'driver': 'tests.plugins.last_by_name.LastByName'}
    made = cloud([Host(f'h{n}', zone='az1') for n in (1, 2, 3)], scheduler=driver)
    scheduler = made.copied()
    is_in(made, 'h2')
    found = made.ask(
        scheduler, new_uuids(), return_alternates=True, availability_zone='az1', **SMALL
    )
    assert found == [['h3', 'h1']]


def test_by_the_api_placement_is_asked_where_most_have_left(cloud, by_api):
    """It offers fewer hosts than the copy did, and yet another one."""
    hosts = [Host(f'h{n}', zone='az1', memory_mb=16384 - n) for n in range(14)]
    made = cloud(hosts)
    scheduler = by_api(made)
    for host in hosts[:-1]:
        is_in(made, host.name)
    asked = made.ask(scheduler, new_uuids(), availability_zone='az1', **SMALL)
    assert asked == [['h13']]
    assert [each.from_copy for each in made.decisions] == [True, False]


def test_many_void_picks_cause_a_new_query(cloud):
    hosts = [Host(f'h{n}', zone='az1', memory_mb=16384 - n) for n in range(14)]
    made = cloud(hosts)
    scheduler = made.copied()
    for host in hosts[:-1]:
        is_in(made, host.name)
    asked = made.ask(scheduler, new_uuids(), availability_zone='az1', **SMALL)
    assert asked == [['h13']]
    assert [len(each.hosts) for each in made.decisions] == [14, 1]
    assert scheduler.copy.void_picks == 9


def test_placement_is_asked_where_picks_cannot_be_verified(cloud):
    made = cloud([Host('h1', zone='az1', **LARGE), Host('h2', zone='az1')])
    store = made.placement_contents(Stored)
    scheduler = made.copied(store)

    def breaks():
        raise errors.StoreFailed('Placement', 'it hurts')

    is_in(made, 'h1')
    store.before = breaks
    asked = made.ask(scheduler, new_uuids(), availability_zone='az1', **SMALL)
    assert asked == [['h2']]
    assert [each.from_copy for each in made.decisions] == [True, False]
    assert 'could not be verified' in made.decisions[-1].fallback
    scheduler.copy.keep_up()
    assert made.ask(scheduler, new_uuids(), **SMALL) == [['h1']]
    assert made.decisions[-1].from_copy


def test_a_defect_of_the_look_costs_no_request(cloud, caplog):
    made = cloud([Host('h1', **LARGE), Host('h2')])
    store = made.placement_contents(Stored)
    scheduler = made.copied(store)

    def breaks():
        raise ValueError('what nobody thought of')

    store.before = breaks
    assert made.ask(scheduler, new_uuids(), **SMALL) == [['h1']]
    assert scheduler.copy.fallbacks == {'defect': 1}
    assert 'what nobody thought of' in caplog.text


def test_a_copy_that_was_not_verified_is_not_asked_again(cloud):
    """Placement is asked with its limit first, and without it then."""
    hosts = [Host(f'h{n}', disabled=n < 5) for n in range(6)]
    made = cloud(hosts, scheduler={'max_placement_results': 1})
    store = made.placement_contents(Stored)
    scheduler = made.copied(store)

    def breaks():
        store.before = breaks
        raise errors.StoreFailed('Placement', 'it hurts')

    store.before = breaks
    assert made.ask(scheduler, new_uuids(), **SMALL) == [['h5']]
    assert store.looks == 1


class Changes:
    """What may happen to placement, at random."""

    def __init__(self, made, rng):
        self._made, self._rng = made, rng
        made.placement.put(f'/traits/{GOLD}', None)

    def __call__(self):
        host = self._rng.choice(list(self._made.hosts))
        kind = self._rng.choice(['traits', 'aggregates', 'silently', 'reserved'])
        if kind == 'traits':
            has(self._made, host, *self._rng.choice([(), (GOLD,)]))
        elif kind == 'reserved':
            reserves(self._made, host, self._rng.choice([0, 0, 8]))
        else:
            zones = self._rng.choice([(), ('az1',), ('az1', 'az2')])
            write = is_in_by_old_client if kind == 'silently' else is_in
            write(self._made, host, *zones)


def test_no_host_is_answered_that_placement_would_not_offer(cloud):
    """Changes come before the copy is read, after that, and right before a look."""
    rng = random.Random(5)
    made = cloud([Host(f'h{n}', zone='az1', memory_mb=16384 - n) for n in range(5)])
    change = Changes(made, rng)
    store = made.placement_contents(Stored)
    scheduler = made.copied(store)
    answered = 0
    for _ in range(scaled(60)):
        if rng.random() < 0.3:
            scheduler.copy.keep_up()
        for _ in range(rng.randrange(3)):
            change()
        if rng.random() < 0.5:
            store.before = change
        zone = {'availability_zone': 'az1'}
        wanted = rng.choice([REQUIRED, FORBIDDEN, zone, {**REQUIRED, **zone}])
        (uuid,) = new_uuids()
        try:
            found = made.ask(
                scheduler, [uuid], return_alternates=True, **SMALL, **wanted
            )
        except errors.NoValidHost:
            found = [[]]
        store.before = None
        made.placement.release(uuid)
        offers = offered(made, wanted)
        assert set(found[0]) <= offers
        assert bool(found[0]) == bool(offers)
        answered += bool(found[0])
    assert answered
    assert scheduler.copy.void_picks


def offered(made, wanted):
    """The hosts that placement offers now for a request."""
    query = 'resources=VCPU:1,MEMORY_MB:64,DISK_GB:1'
    for name, mode in wanted.get('extra_specs', {}).items():
        sign = '!' if mode == 'forbidden' else ''
        query += f'&required={sign}{name.partition(":")[2]}'
    if 'availability_zone' in wanted:
        query += f'&member_of=in:{named_uuid(wanted["availability_zone"])}'
    answer = made.placement.get(f'/allocation_candidates?{query}')
    return {
        made.names[uuid]
        for each in answer['allocation_requests']
        for uuid in each['allocations']
    }


@pytest.fixture
def lagging(cloud, by_api):
    """A cloud whose copy was read before its third and fourth host registered."""
    made = cloud([Host('h1'), Host('h2')])
    scheduler = by_api(made)

    def register():
        for host in (Host('h3'), Host('h4')):
            made.hosts[host.name] = host
            made._write_host(host)
            provide(made.adapter, [made.provider(host)])

    return made, scheduler, register


@pytest.mark.scenario('F42')
def test_new_hosts_are_alternates_before_the_copy_shows_them(lagging):
    made, scheduler, register = lagging
    register()
    (found,) = made.ask(scheduler, new_uuids(), return_alternates=True, **SMALL)
    assert len(found) == 3
    assert made.decisions[-1].from_copy is False
    assert made.decisions[-1].fallback == 'its copy does not show all hosts yet'
    assert len(made.held()) == 1


@pytest.mark.scenario('F42')
def test_request_of_more_servers_than_the_copy_has_hosts_gets_new_hosts(lagging):
    made, scheduler, register = lagging
    register()
    large = {'vcpus': 8, 'memory_mb': 64, 'root_gb': 1}
    found = made.ask(scheduler, new_uuids(4), **large)
    assert sorted(host for (host,) in found) == ['h1', 'h2', 'h3', 'h4']


def test_small_cloud_does_not_pay_for_few_alternates(lagging):
    made, scheduler, _ = lagging
    for _ in range(3):
        (found,) = made.ask(scheduler, new_uuids(), return_alternates=True, **SMALL)
        assert len(found) == 2
    assert all(each.from_copy for each in made.decisions)


def test_copy_serves_where_placement_does_not_tell_of_new_hosts(lagging):
    made, scheduler, register = lagging
    register()
    refused_urls = []

    def refuse(request, send):
        refused_urls.append(request.path_url)
        return refused(request)

    made.faults.on('GET', 1, refuse)
    (found,) = made.ask(scheduler, new_uuids(), return_alternates=True, **SMALL)
    assert len(found) == 2
    assert made.decisions[-1].from_copy
    assert [url.partition('?')[0] for url in refused_urls] == ['/allocation_candidates']


def refused(request):
    """The answer of a placement that is overloaded."""
    answer = requests.Response()
    answer.status_code, answer._content = 500, b'{}'
    answer.url, answer.request = request.url, request
    return answer
