# SPDX-License-Identifier: Apache-2.0
"""What a plugin finds on a host, and what it puts there."""

import copy
import datetime
import ipaddress
import json
import random

import netaddr
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from novasched.compat.plugin_adapter import adapted
from novasched.objects.monitor_metric import MonitorMetricList
from novasched.scheduler.filters import BaseHostFilter
from novasched.scheduler.filters.host_limit import NumInstancesFilter
from novasched.scheduler.hosts import HostTable, Lazy, consume
from novasched.scheduler.pipeline import Profile, decide
from novasched.scheduler.weighers import BaseHostWeigher
from novasched.scheduler.weighers.resources import RAMWeigher
from tests.support.clouds import factories

METRICS = json.dumps(
    [{'name': 'cpu.frequency', 'value': 800}, {'name': 'cpu.percent', 'value': 0.35}]
)
REPORTED = {
    'host_ip': ipaddress.ip_address('10.0.0.1'),
    'cpu_info': '{"model": "p4"}',
    'stats': {'gpu': '1'},
    'updated': datetime.datetime(2026, 1, 1, tzinfo=datetime.UTC),
    'aggregates': (factories.aggregate(3, ['h1'], ssd='true'),),
    'instances': {factories.INSTANCE: object()},
    'allocation_candidates': [{'allocations': {}, 'mappings': {}}],
    'metrics': METRICS,
}


KINDS = {
    str: 'host nodename cell_uuid uuid hypervisor_type hypervisor_hostname cpu_info '
    '_lock_name',
    int: 'total_usable_ram_mb free_ram_mb total_usable_disk_gb disk_mb_used '
    'free_disk_mb vcpus_total vcpus_used num_instances num_io_ops failed_builds '
    'hypervisor_version',
    float: 'cpu_allocation_ratio ram_allocation_ratio disk_allocation_ratio',
    MonitorMetricList: 'metrics',
    list: 'supported_instances aggregates allocation_candidates',
    dict: 'limits instances stats service',
    netaddr.IPAddress: 'host_ip',
    datetime.datetime: 'updated',
}


@pytest.mark.parametrize('kind', KINDS)
def test_every_attribute_of_nova_is_there(kind):
    host = factories.hosts(**{key: [value] for key, value in REPORTED.items()}).state(0)
    assert {name: type(getattr(host, name)) for name in KINDS[kind].split()} == (
        dict.fromkeys(KINDS[kind].split(), kind)
    )


def test_nested_attributes_have_novas_names():
    host = factories.hosts(**{k: [v] for k, v in REPORTED.items()}).state(0)
    assert [(m.name, m.value) for m in host.metrics] == [
        ('cpu.frequency', 800),
        ('cpu.percent', 35),
    ]
    (aggregate,) = host.aggregates
    assert (aggregate.id, aggregate.name) == (3, 'agg3')
    assert aggregate.metadata['ssd'] == 'true'
    assert 'h1' in aggregate.hosts
    assert host.service['forced_down'] is False
    assert host.stats['gpu'] == '1'
    assert host._lock_name == 'h1-h1'


@pytest.mark.parametrize('text', [None, '', '[]'])
def test_a_host_without_metrics_has_an_empty_list(text):
    assert factories.hosts(metrics=[text]).state(0).metrics == []


def test_metrics_that_are_none_raise_as_in_nova():
    with pytest.raises(ValueError, match='no metric'):
        _ = factories.hosts(metrics=['[{"name": "x", "value": 1}]']).state(0).metrics


def test_metrics_that_a_plugin_set_are_what_it_set():
    hosts = factories.hosts(metrics=[METRICS])
    host = hosts.state(0)
    host.metrics = host.metrics[:1]
    assert [m.name for m in hosts.keep([host]).state(0).metrics] == ['cpu.frequency']


class Scoring(BaseHostFilter):
    """Puts a score on every second host."""

    def host_passes(self, host_state, spec_obj):
        if host_state.free_ram_mb % 2:
            host_state.my_score = host_state.free_ram_mb
        return True


class Counting(BaseHostFilter):
    """Counts on each host how often it was asked, of one request."""

    def host_passes(self, host_state, spec_obj):
        host_state.asked = getattr(host_state, 'asked', 0) + 1
        return True


class Scored(BaseHostWeigher):
    """Prefers the hosts with a score."""

    def _weigh_object(self, host_state, spec_obj):
        return host_state.my_score if hasattr(host_state, 'my_score') else 0


def test_a_score_is_seen_by_every_later_stage():
    hosts = factories.hosts(
        free_ram_mb=[1, 2, 3, 4], num_instances=[0, 0, 0, 9], num_io_ops=[7, 7, 7, 7]
    )
    request = factories.request()
    profile = Profile([Scoring(), NumInstancesFilter(5), Counting()], [Scored()])
    decision = decide(profile, hosts, request, random.Random(1))
    assert decision.ranked.host.tolist() == ['h3', 'h1', 'h2']
    best, second, third = decision.ranked.states()
    assert (best.my_score, second.my_score, hasattr(third, 'my_score')) == (3, 1, False)
    assert [host.asked for host in decision.ranked.states()] == [1, 1, 1]


def test_a_score_is_seen_by_later_instances_and_not_by_another_request():
    known = factories.hosts(free_ram_mb=[101, 103, 105])
    profile = Profile([Counting()], [RAMWeigher()])
    for _ in range(2):
        hosts = HostTable(known.snapshot.for_new_request())
        left, request = hosts, factories.request(memory_mb=3)
        for index in range(3):
            assert [hasattr(h, 'asked') for h in left.states()] == [index > 0] * 3
            left = decide(profile, left, request, random.Random(1), index).ranked
            assert [host.asked for host in left.states()] == [index + 1] * 3
            left = consume(left, left.state(0)._row, request)
    assert not any(hasattr(host, 'asked') for host in known.states())


def test_an_attribute_that_was_never_set_raises_as_on_any_object():
    hosts = factories.hosts(2)
    first = hosts.state(0)
    first.my_score = None
    first, second = hosts.keep([first, hosts.state(1)]).states()
    assert first.my_score is None
    with pytest.raises(AttributeError, match='my_score'):
        _ = second.my_score
    assert not hasattr(second, 'my_score')
    assert getattr(second, 'my_score', 5) == 5
    assert vars(second).setdefault('my_score', 6) == second.my_score == 6


def test_all_tables_of_a_request_show_the_same_attributes():
    hosts = factories.hosts(2)
    host = hosts.state(1)
    later = hosts.replace(1, num_instances=3)[np.array([1])]
    host.my_score = 1
    assert later.state(0).my_score == 1
    later.state(0).my_score += 1
    assert (host.my_score, vars(hosts.state(1))) == (2, {'my_score': 2})
    assert vars(HostTable(hosts.snapshot.for_new_request()).state(1)) == {}


def test_setting_a_column_adds_no_attribute():
    hosts = factories.hosts(1)
    host = hosts.state(0)
    host.free_ram_mb = 7
    assert vars(host) == {}
    kept = hosts.keep([host])
    assert kept.free_ram_mb.tolist() == [7]
    assert vars(kept.state(0)) == {}


def test_a_table_of_one_host_shows_what_was_set_on_it():
    hosts = factories.hosts(2)
    host = hosts.state(1)
    host.free_ram_mb, host.my_score = 7, 8
    assert host.as_table().free_ram_mb.tolist() == [7]
    assert host.as_table().state(0).my_score == 8
    assert hosts.free_ram_mb.tolist() == [8192, 8192]


def test_a_shallow_copy_of_a_host_is_a_host():
    host = factories.hosts(stats=[{'gpu': '1'}]).state(0)
    host.my_score = host.num_io_ops = 1
    other = copy.copy(host)
    other.my_score = other.num_io_ops = 2
    assert (host.my_score, other.my_score, other.host) == (1, 2, 'h1')
    assert (host.num_io_ops, other.num_io_ops) == (1, 2)
    assert vars(other) is not vars(host)
    host.stats['gpu'] = '2'
    assert copy.copy(host).stats is host.stats


def test_deep_copy_shares_only_constant_values():
    hosts = factories.hosts(
        2, limits=[{}, {'vcpu': 1}], stats=[{}, {'gpu': '1'}], free_ram_mb=[1, 2]
    )
    host = hosts.state(1)
    host.seen, host.free_ram_mb = ['filter'], 5
    host.stats['mark'] = '1'
    trial = copy.deepcopy(host)
    trial.limits['vcpu'] = 9
    trial.allocation_candidates.append('candidate')
    trial.stats['mark'] = '2'
    trial.aggregates.append('aggregate')
    trial.instances['uuid'] = 'instance'
    trial.seen.append('trial')
    trial.free_ram_mb -= 1
    assert (host.limits, host.allocation_candidates) == ({'vcpu': 1}, [])
    assert (host.stats, host.aggregates) == ({'gpu': '1', 'mark': '1'}, [])
    assert (host.seen, host.free_ram_mb) == (['filter'], 5)
    assert (host.instances, trial.instances) == ({}, {'uuid': 'instance'})
    assert copy.copy(trial).limits is trial.limits
    assert trial.stats == {'gpu': '1', 'mark': '2'}
    assert trial.as_table().free_ram_mb.tolist() == [4]
    assert trial.as_table().state(0).seen == ['filter', 'trial']
    assert hosts.state(1).seen == ['filter']


def test_a_deep_copy_copies_no_other_host():
    class Heavy:
        def __deepcopy__(self, memo):
            raise AssertionError

    def unread():
        raise AssertionError

    hosts = factories.hosts(2, limits=[{}, {'uuid': Heavy()}])
    hosts = hosts.with_columns(instances=Lazy(unread))
    hosts.state(1).mark = Heavy()
    trial = copy.deepcopy(hosts.state(0))
    assert (trial.host, vars(trial), trial.limits) == ('h1', {}, {})


class Copying(BaseHostFilter):
    """Answers other objects than it was given, as in nova it may."""

    def __init__(self, copied):
        self.copied = copied

    def filter_all(self, filter_obj_list, spec_obj):
        for host in map(self.copied, filter_obj_list):
            host.mark = host.num_io_ops = host.num_io_ops + 1
            yield host


@pytest.mark.parametrize('copied', [copy.copy, copy.deepcopy])
def test_a_filter_may_answer_copies_of_hosts(copied):
    hosts = factories.hosts(num_io_ops=[3, 4])
    passed = adapted(Copying(copied)).apply(hosts, factories.request())
    assert passed.num_io_ops.tolist() == [4, 5]
    assert [host.mark for host in passed.states()] == [4, 5]
    again = adapted(Copying(copied)).apply(
        passed[np.array([1, 0])], factories.request()
    )
    assert [(host.host, host.mark) for host in again.states()] == [('h2', 6), ('h1', 5)]


def test_the_copy_that_a_rule_is_asked_about_is_not_the_host():
    class Trying(NumInstancesFilter):
        def host_passes(self, host_state, spec_obj):
            trial = copy.deepcopy(host_state)
            trial.mark, trial.num_instances = 'trial', 0
            passes = super().host_passes(trial, spec_obj)
            host_state.mark = 'host'
            return passes

    passed = adapted(Trying(5)).apply(
        factories.hosts(num_instances=[9]), factories.request()
    )
    assert passed.num_instances.tolist() == [9]
    assert passed.state(0).mark == 'host'


@pytest.mark.parametrize(
    ('name', 'write', 'shown'),
    [
        ('stats', lambda stats: stats.update(mark='1'), {'gpu': '1', 'mark': '1'}),
        ('aggregates', list.clear, []),
        ('metrics', MonitorMetricList.clear, []),
        ('supported_instances', lambda known: known[0].clear(), [[]]),
    ],
)
def test_container_written_by_a_plugin_stays_in_its_host_and_request(
    name, write, shown
):
    known = factories.hosts(**{k: [v, v] for k, v in REPORTED.items()})
    hosts = HostTable(known.snapshot.for_new_request())
    before = repr(getattr(known.state(0), name))
    write(getattr(hosts.state(0), name))
    assert getattr(hosts.replace(0, num_io_ops=1).state(0), name) == shown
    assert repr(getattr(hosts.state(1), name)) == before
    assert repr(getattr(known.state(0), name)) == before
    assert (
        repr(getattr(HostTable(hosts.snapshot.for_new_request()).state(0), name))
        == before
    )


def test_attribute_set_after_a_read_is_shown():
    hosts = factories.hosts(stats=[{'gpu': '1'}, {'gpu': '1'}])
    first, second = hosts.states()
    first.stats['mark'] = '1'
    first.stats, second.stats = {'gpu': '2'}, None
    first.aggregates = [factories.aggregate(7)]
    first, second = hosts.keep([first, second]).states()
    assert (first.stats, second.stats) == ({'gpu': '2'}, None)
    assert [aggregate.id for aggregate in first.aggregates] == [7]


def test_filters_over_columns_make_no_attributes():
    hosts = factories.hosts(3)
    passed = NumInstancesFilter(5).apply(hosts, factories.request())
    assert passed is hosts
    assert not passed.snapshot.plugin_attributes


def test_an_attribute_error_of_a_column_is_not_mistaken():
    def broken():
        raise AttributeError('of the store')

    hosts = factories.hosts(2).with_columns(instances=Lazy(broken))
    with pytest.raises(AttributeError, match='of the store'):
        _ = hosts.state(0).instances


changes = st.lists(
    st.tuples(
        st.sampled_from(['set', 'delete', 'drop', 'turn', 'column']),
        st.integers(0, 3),
        st.sampled_from(['a', 'keep', 'row', 'my-score']),
        st.integers(),
    ),
    max_size=12,
)


@given(changes)
def test_hosts_hold_attributes_as_plain_objects_do(steps):
    hosts = factories.hosts(4)
    plain = {f'h{number}': {} for number in range(1, 5)}
    for what, number, name, value in steps:
        states = list(hosts.states())
        if what == 'turn':
            hosts = hosts[np.arange(len(hosts))[::-1]]
        elif what == 'drop' and len(states) > 1:
            hosts = hosts[np.arange(len(hosts)) != number % len(hosts)]
        elif what == 'column':
            hosts = hosts.replace(int(hosts.rows[0]), num_instances=number)
        elif what in ('set', 'delete'):
            host = states[number % len(states)]
            if what == 'set':
                setattr(host, name, value)
                plain[host.host][name] = value
            elif name in plain[host.host]:
                delattr(host, name)
                del plain[host.host][name]
            hosts = hosts.keep(states)
        assert {h.host: vars(h) for h in hosts.states()} == {
            name: plain[name] for name in hosts.host.tolist()
        }
