# SPDX-License-Identifier: Apache-2.0
"""Drivers written for nova, at work with their host manager."""

import random
import threading

import pytest

from novasched import errors
from novasched.compat.legacy_driver import LegacyDriver, Scheduler
from novasched.drivers import DriverContext
from novasched.objects.context import RequestContext
from novasched.objects.request_spec import RequestSpec
from novasched.scheduler.filters import BaseHostFilter
from novasched.scheduler.filters.legacy.overcommit import RamFilter
from novasched.scheduler.pipeline import Profile
from tests.support.clouds import factories
from tests.support.clouds.fakes import FakeView, schedule_request
from tests.support.tables.cases import cases

A = 'c0000000-0000-4000-8000-00000000000a'


class Mitaka:
    """A driver without a base class."""

    def select_destinations(self, context, spec_obj):
        return ()


@pytest.fixture
def hosts():
    return factories.hosts(3)


def names(placed):
    return [[one.service_host for one in each] for each in placed.selections]


class Waits(BaseHostFilter):
    """Passes hosts when it is told to."""

    def __init__(self):
        self.started, self.end = threading.Event(), threading.Event()

    def host_passes(self, host_state, spec_obj):
        self.started.set()
        return self.end.wait(10)


@cases(
    'cls, expected',
    ('the driver itself', 'driver', ('Driver', 'Waiting')),
    ('a filter that it lets run', 'filter', ('Filter', 'Waits')),
)
def test_hung_driver_or_filter_is_known_as_running(hosts, cls, expected):
    filter_ = Waits()

    class Waiting(Scheduler):
        def select_destinations(self, context, spec_obj):
            found = self.host_manager.get_all_host_states(context)
            if cls == 'driver':
                filter_.host_passes(None, None)
                return list(found)[:1]
            return self.host_manager.get_filtered_hosts(found, spec_obj)[:1]

    profile = Profile((filter_,), ())
    parts = DriverContext(profile, FakeView(hosts), None, random.Random(1))
    driver, context = LegacyDriver(Waiting, parts), RequestContext(overwrite=False)
    work = schedule_request(context, factories.request(), [A])
    thread = threading.Thread(target=driver.select_destinations, args=[work])
    thread.start()
    assert filter_.started.wait(10)
    running = parts.watch.running()[thread.ident]
    filter_.end.set()
    thread.join(10)
    assert (running.kind, running.extension) == expected
    assert running.request_id == context.request_id
    assert parts.watch.running() == {}


class Liberty(Scheduler):
    """A driver that has nothing but dicts; it may change them first."""

    change = {}

    def select_destinations(self, context, request_spec, filter_properties):
        filter_properties.update(self.change)
        hosts = self.host_manager.get_all_host_states(context)
        passed = self.host_manager.get_filtered_hosts(
            hosts, filter_properties, None, index=0
        )
        weighed = self.host_manager.get_weighed_hosts(passed, filter_properties)
        return [
            {'host': each.obj.host, 'nodename': each.obj.nodename, 'limits': {}}
            for each in weighed
        ][: request_spec['num_instances']]


class Painted(BaseHostFilter):
    """Passes the host that the driver painted, and keeps what it was given."""

    def __init__(self):
        self.given = []

    def host_passes(self, host_state, filter_properties):
        self.given.append(filter_properties)
        return host_state.host in filter_properties.get('painted', ['h2', 'h3'])


@cases(
    'change, memory_mb, expected',
    ('as it came', {}, 512, [['h2']]),
    ('the request behind it counts', {}, 9000, [['h3']]),
    ('hosts to ignore', {'ignore_hosts': ['h2']}, 512, [['h3']]),
    ('a key of its own', {'painted': ['h3']}, 512, [['h3']]),
)
def test_dicts_mean_the_request_behind_them(change, memory_mb, expected):
    hosts, painted = factories.hosts(free_ram_mb=[8000, 8000, 16000]), Painted()
    profile = Profile((painted, RamFilter()), ())
    parts = DriverContext(profile, FakeView(hosts), None, random.Random(1))
    driver = LegacyDriver(type('Some', (Liberty,), {'change': change}), parts)
    context = RequestContext(overwrite=False)
    request = factories.request(memory_mb=memory_mb)
    work = schedule_request(context, request, [A])
    assert names(driver.select_destinations(work)) == expected
    assert {type(given) for given in painted.given} == {RequestSpec}


class Usual(Scheduler):
    """A driver as they were written for nova 23."""

    USES_ALLOCATION_CANDIDATES = False

    def __init__(self):
        super().__init__()
        self.ran = []
        self.manager_at_start = self.host_manager

    def run_periodic_tasks(self, context):
        self.ran.append(self.hosts_up(context, 'compute'))

    def select_destinations(self, context, spec_obj, uuids, requests, *more):
        hosts = self.host_manager.get_all_host_states(context)
        hosts = self.host_manager.get_filtered_hosts(hosts, spec_obj, 0)
        up = [
            each for each in hosts if self.servicegroup_api.service_is_up(each.service)
        ]
        return [
            [each.obj] for each in self.host_manager.get_weighed_hosts(up, spec_obj)
        ]


def usual(hosts):
    parts = DriverContext(Profile((), ()), FakeView(hosts), None, random.Random(1))
    return LegacyDriver(Usual, parts)


def test_the_base_class_offers_what_it_did(hosts):
    service = [{'host': name} for name in ('h1', 'h2', 'h3')]
    up = [False, True, True]
    table = factories.hosts(3, service=service, service_up=up)
    context = RequestContext(overwrite=False)
    work = schedule_request(context, factories.request(), [A])
    assert names(usual(table).select_destinations(work)) == [['h2']]


def test_periodic_tasks_run_where_there_are_some(hosts):
    driver = usual(hosts)
    driver.run_periodic_tasks(None)
    assert driver._driver.ran == [['h1', 'h2', 'h3']]
    assert driver._driver.manager_at_start is driver._driver.host_manager
    parts = DriverContext(None, None, None, random.Random(1))
    LegacyDriver(Mitaka, parts).run_periodic_tasks(None)


def test_periodic_tasks_that_raise_name_the_driver(hosts):
    class Breaks(Mitaka):
        def run_periodic_tasks(self, context):
            raise ValueError('boom')

    driver = LegacyDriver(Breaks, usual(hosts).context)
    with pytest.raises(errors.ExtensionFailed, match=r'^Breaks failed: ValueError'):
        driver.run_periodic_tasks(None)


def test_the_base_class_alone_is_no_driver(hosts):
    with pytest.raises(errors.OptionError, match='Scheduler: TypeError'):
        LegacyDriver(Scheduler, usual(hosts).context)


def test_the_base_class_has_no_tasks_of_its_own(hosts):
    cls = type('Idle', (Mitaka, Scheduler), {})
    assert LegacyDriver(cls, usual(hosts).context).run_periodic_tasks(None) is None
