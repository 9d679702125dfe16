# SPDX-License-Identifier: Apache-2.0
"""The host manager of drivers that were written for nova."""

import copy
import random

import pytest

from novasched import errors
from novasched.compat.host_manager import HostManager, table_of
from novasched.drivers import DriverContext
from novasched.drivers.plugin_timing import PluginTiming
from novasched.objects.request_spec import RequestSpec
from novasched.scheduler.filters import BaseHostFilter
from novasched.scheduler.filters.legacy.overcommit import RamFilter
from novasched.scheduler.pipeline import Profile
from novasched.scheduler.weighers.resources import RAMWeigher
from tests.support.clouds import factories
from tests.support.clouds.fakes import DecisionsSeen, FakeView, schedule_request
from tests.support.tables.cases import cases


class View(FakeView):
    """A view that can be told to look at its cells again."""

    checked = 0

    def check(self):
        self.checked += 1


@pytest.fixture
def hosts():
    return factories.hosts(
        free_ram_mb=[1000, 3000, 2000, 4000],
        service_disabled=[False, False, True, False],
        service_up=[True, True, True, False],
        nodename=['n1', 'n2', 'n3', 'n4'],
        host=['h1', 'h1', 'h3', 'h4'],
    )


@pytest.fixture
def view(hosts):
    return View(hosts)


@pytest.fixture
def manager(view):
    profile = Profile((RamFilter(),), (RAMWeigher(),))
    return HostManager(DriverContext(profile, view, None, random.Random(1)))


@pytest.fixture
def seen(manager):
    """The decisions of the request that is served."""
    decisions = []
    recorder = DecisionsSeen(decisions.append)
    request = schedule_request(None, factories.request(), None, recorder=recorder)
    with manager.serving(request, PluginTiming().of('req-1')):
        yield decisions


def nodes(states):
    return [state.nodename for state in states]


def test_hosts_come_from_a_refresh_all_or_by_uuid(manager, view):
    assert nodes(manager.get_all_host_states(None)) == ['n1', 'n2', 'n3', 'n4']
    assert view.refreshed == 1
    found = manager.get_host_states_by_uuids(None, ['uuid-n3'], factories.request())
    assert nodes(found) == ['n3']
    manager.refresh_cells_caches()
    assert view.checked == 1


@cases(
    'topic, up',
    ('enabled and up, each once', 'compute', ['h1']),
    ('no other services are known', 'network', []),
)
def test_hosts_that_are_up(manager, topic, up):
    assert manager.hosts_up(topic) == up


def test_hosts_are_filtered_as_always_and_it_is_shown(manager, seen):
    request = factories.request(memory_mb=2500, ignore_hosts=['h4'])
    found = manager.get_filtered_hosts(manager.get_all_host_states(None), request)
    assert nodes(found) == ['n2']
    (decision,) = seen
    assert decision.funnel() == ['RamFilter: (start: 3, end: 1)']


def test_hosts_are_weighed_best_first(manager):
    states = manager.get_all_host_states(None)
    found = manager.get_weighed_hosts(states, factories.request())
    assert nodes(each.obj for each in found) == ['n4', 'n2', 'n3', 'n1']
    assert [each.weight for each in found][::3] == [1.0, 0.25]


def test_of_no_hosts_none_are_left(manager, seen):
    assert manager.get_filtered_hosts([], factories.request()) == []
    assert manager.get_weighed_hosts([], factories.request()) == []
    assert seen == []


def test_consumption_of_a_host_counts_from_then_on(manager):
    states = list(manager.get_all_host_states(None))
    request = factories.request(memory_mb=1500, vcpus=2, root_gb=1)
    states[3].consume_from_request(request)
    states[3].consume_from_request(request)
    assert (states[3].free_ram_mb, states[3].vcpus_used) == (1000, 4)
    assert (states[3].num_instances, states[3].num_io_ops) == (2, 2)
    assert states[3].free_disk_mb == 102400 - 2048
    found = manager.get_filtered_hosts(states, request)
    assert nodes(found) == ['n2', 'n3']


def test_a_member_of_a_group_is_seen_on_its_host(manager):
    state = next(manager.get_all_host_states(None))
    group = factories.group(members=[factories.INSTANCE])
    state.consume_from_request(factories.request(instance_group=group))
    assert list(state.instances) == [factories.INSTANCE]


def test_attributes_set_on_hosts_are_kept_in_the_table(hosts):
    states = [hosts.state(2), hosts.state(0)]
    states[0].free_ram_mb = 77
    states[1].colour = 'red'
    table = table_of(states)
    assert table.nodename.tolist() == ['n3', 'n1']
    assert table.free_ram_mb.tolist() == [77, 1000]
    assert [getattr(each, 'colour', None) for each in table.states()] == [None, 'red']


@pytest.mark.parametrize('copied', [copy.copy, copy.deepcopy])
def test_a_driver_may_hand_over_copies(manager, copied):
    states = [copied(state) for state in manager.get_all_host_states(None)]
    states[3].free_ram_mb, states[3].colour = 600, 'red'
    found = manager.get_filtered_hosts(states, factories.request(memory_mb=600))
    assert [getattr(each, 'colour', None) for each in found] == [None] * 3 + ['red']
    weighed = manager.get_weighed_hosts(found, factories.request())
    assert nodes(each.obj for each in weighed) == ['n2', 'n3', 'n1', 'n4']


def test_hosts_of_several_answers_cannot_be_taken_together(manager):
    other = factories.hosts(1, nodename=['n9'], free_ram_mb=[3500])
    states = [*manager.get_all_host_states(None), *other.states()]
    for method in (manager.get_filtered_hosts, manager.get_weighed_hosts):
        with pytest.raises(LookupError, match='hosts of several answers'):
            method(states, factories.request())


def test_the_filters_that_run_can_be_named(manager, seen):
    request, states = factories.request(), list(manager.get_all_host_states(None))
    manager.get_filtered_hosts(states, request, [])
    manager.get_filtered_hosts(states, request, ['RamFilter'], index=1)
    manager.get_filtered_hosts(states, request, None)
    assert [len(decision.steps) for decision in seen] == [0, 1, 1]
    with pytest.raises(errors.FilterNotFound, match='Other could not be found'):
        manager.get_filtered_hosts(states, request, ['RamFilter', 'Other'])


class Once(BaseHostFilter):
    """A filter for the first instance of a request alone."""

    run_filter_once_per_request = True

    def host_passes(self, host_state, spec_obj):
        return False


@cases(
    'arguments, keywords',
    ('the third, as of late', (1,), {}),
    ('the fourth, as of old', (None, 1), {}),
    ('by name', (), {'index': 1}),
)
def test_the_index_of_the_instance_counts(view, arguments, keywords):
    parts = DriverContext(Profile((Once(),), ()), view, None, random.Random(1))
    manager = HostManager(parts)
    states, request = list(manager.get_all_host_states(None)), factories.request()
    assert manager.get_filtered_hosts(states, request) == []
    assert len(manager.get_filtered_hosts(states, request, *arguments, **keywords)) == 4


def test_a_dict_means_nothing_where_no_request_is_served(manager):
    states = list(manager.get_all_host_states(None))
    request = schedule_request(None, factories.request(), None)
    with manager.serving(request, PluginTiming().of('req-1')):
        assert len(manager.get_filtered_hosts(states, {'force_hosts': ['h4']})) == 1
    with pytest.raises(LookupError, match='a dict means no request'):
        manager.get_filtered_hosts(states, {})


def test_how_long_filters_took_is_known(manager, seen):
    states = list(manager.get_all_host_states(None))
    manager.get_filtered_hosts(states, factories.request())
    (decision,) = seen
    assert decision.took_s.keys() == {'RamFilter'}


def test_consumption_of_an_empty_request_raises(manager):
    state = next(manager.get_all_host_states(None))
    with pytest.raises(errors.UnsetField):
        state.consume_from_request(RequestSpec())
