# SPDX-License-Identifier: Apache-2.0
"""Built-in filters and weighers see what earlier plugins changed on hosts."""

import json

import numpy as np
import pytest

from novasched import errors
from novasched.compat.plugin_adapter import adapted
from novasched.objects.monitor_metric import MonitorMetric
from novasched.scheduler.filters import BaseHostFilter
from novasched.scheduler.filters.aggregate import AggregateInstanceExtraSpecsFilter
from novasched.scheduler.filters.compute import ComputeFilter
from novasched.scheduler.filters.compute_capabilities import ComputeCapabilitiesFilter
from novasched.scheduler.filters.image_props import ImagePropertiesFilter
from novasched.scheduler.filters.json_query import JsonFilter
from novasched.scheduler.filters.metrics import MetricsFilter
from novasched.scheduler.hosts import HostTable
from novasched.scheduler.pipeline import run_filters, weigh
from novasched.scheduler.reasons import Code
from novasched.scheduler.weighers import BaseHostWeigher
from novasched.scheduler.weighers.metrics import MetricsWeigher
from tests.support.clouds import factories
from tests.support.tables.cases import cases

LOAD = 'cpu.percent'
REQUEST = factories.request()
REPORTED = json.dumps([{'name': LOAD, 'value': 0.5}])


class Changing(BaseHostFilter):
    """Changes the host with an even number."""

    def __init__(self, change):
        self.change = change

    def host_passes(self, host_state, spec_obj):
        if host_state.host == 'h2':
            self.change(host_state)
        return True


class ChangingWeigher(BaseHostWeigher):
    """Changes hosts while it weighs them."""

    def __init__(self, change):
        super().__init__()
        self.change = change

    def _weigh_object(self, host_state, spec_obj):
        if host_state.host == 'h2':
            self.change(host_state)
        return 0.0


def setting(name, value):
    return lambda host: setattr(host, name, value)


def put(name, key, value):
    return lambda host: getattr(host, name).update({key: value})


def queried(*query):
    return factories.request(scheduler_hints={'query': [json.dumps(query)]})


def capable(key, value='a'):
    return factories.request(extra_specs={key: value})


def left(change, filter_, request, **columns):
    """Return which of h1 and h2 pass after a plugin changed h2."""
    hosts = factories.hosts(2, **columns)
    found, _ = run_filters([Changing(change), filter_], hosts, request)
    return found.host.tolist()


IN_ROW_A = setting('rack', {'row': 'a'})


@cases(
    'change, query, passes',
    ('a key of an attribute', IN_ROW_A, ['=', '$rack.row', 'a'], ['h2']),
    ('an attribute', setting('rack', 'a'), ['=', '$rack', 'a'], ['h2']),
    ('an attribute of None', setting('rack', None), ['=', '$rack', 'a'], []),
    ('no key', setting('rack', {}), ['not', ['=', '$rack.row', 'a']], ['h1', 'h2']),
    ('a new stat', put('stats', 'gpu', '1'), ['=', '$stats.gpu', '1'], ['h2']),
    ('a limit', put('limits', 'vcpu', 7), ['=', '$limits.vcpu', 7], ['h2']),
)
def test_json_filter(change, query, passes):
    assert left(change, JsonFilter(), queried(*query)) == passes


@cases('change, key, passes',
    ('a key of an attribute', setting('rack', {'row': 'a'}), 'capabilities:rack:row',
     ['h2']),
    ('an attribute', setting('rack', 'a'), 'capabilities:rack', ['h2']),
    ('another attribute', setting('rack', 'b'), 'capabilities:rack', []),
    ('an attribute of None', setting('rack', None), 'capabilities:rack', []),
    ('a name counts where it is known', setting('rack', 'b'), 'rack', ['h1']),
    ('None is a name that is known', setting('rack', None), 'rack', ['h1']),
    ('a new stat', put('stats', 'gpu', 'a'), 'capabilities:gpu', ['h2']),
    ('a stat that is a dict', put('stats', 'gpu', {'type': 'a'}),
     'capabilities:gpu:type', ['h2']),
)  # fmt: skip
def test_compute_capabilities_filter(change, key, passes):
    assert left(change, ComputeCapabilitiesFilter(), capable(key)) == passes


def test_the_reason_names_what_a_plugin_set():
    hosts = factories.hosts(1)
    hosts = hosts.keep(_changed(hosts.states(), setting('rack', 'b')))
    reason = ComputeCapabilitiesFilter().why(
        hosts.state(0), capable('capabilities:rack')
    )
    assert reason == (Code.CAPABILITY_DIFFERS, 'rack is b, not a')


def _changed(states, change):
    states = list(states)
    for state in states:
        change(state)
    return states


SSD = factories.aggregate(1, ssd='true')


X86 = 'x86_64'
MEASURED, IMAGES = MetricsFilter([LOAD]), ImagePropertiesFilter()
IN_SSD = AggregateInstanceExtraSpecsFilter()


@cases('change, filter_, passes',
    ('a metric', lambda h: h.metrics.append(MonitorMetric(name=LOAD, value=5)),
     MEASURED, ['h2']),
    ('metrics', setting('metrics', [MonitorMetric(name=LOAD, value=5)]), MEASURED,
     ['h2']),
    ('an aggregate', lambda h: h.aggregates.append(SSD), IN_SSD, ['h2']),
    ('no architecture', lambda h: h.supported_instances[0].remove(X86), IMAGES, ['h1']),
    ('disabled', setting('service', {'disabled': True}), ComputeFilter(), ['h1']),
    ('up', setting('service', {'forced_down': False}), ComputeFilter(), ['h1', 'h2']),
)  # fmt: skip
def test_other_filters(change, filter_, passes):
    asked = {'extra_specs': {'ssd': 'true'}, 'image': {'hw_architecture': X86}}
    assert left(change, filter_, factories.request(**asked)) == passes


def test_metrics_weigher():
    hosts = factories.hosts(metrics=[REPORTED, REPORTED])
    weighers = [
        ChangingWeigher(setting('metrics', [MonitorMetric(name=LOAD, value=70)])),
        MetricsWeigher(1.0, [f'{LOAD}=1.0']),
    ]
    weighed = weigh(weighers, hosts, factories.request())
    assert weighed.weighings[1].raw.tolist() == [50.0, 70.0]


def test_a_change_is_seen_once_more_when_it_is_changed_again():
    hosts = factories.hosts(2)
    seen = []

    def count(host):
        host.stats['asked'] = host.stats.get('asked', 0) + 1
        seen.append(host.stats)

    query = queried('=', '$stats.asked', 2)
    filters = [Changing(count), Changing(count), JsonFilter()]
    found, _ = run_filters(filters, hosts, query)
    assert found.host.tolist() == ['h2']
    assert seen[0] is seen[1]
    again, _ = run_filters([Changing(count)], found, query)
    assert again.stats.tolist() == [{'asked': 3}]
    assert hosts.stats.tolist() == [{}, {}]


class Incomparable:
    """Refuses to be compared, as arrays and tensors do."""

    __hash__ = None

    def __init__(self, error):
        self.error = error

    def __eq__(self, other):
        raise self.error


@pytest.mark.parametrize(
    'value',
    [
        pytest.param(np.array([1, 2]), id='an array'),
        *(
            pytest.param(Incomparable(error('no')), id=error.__name__)
            for error in (
                ArithmeticError,
                AttributeError,
                KeyError,
                NotImplementedError,
                RecursionError,
                TypeError,
            )
        ),
    ],
)
def test_incomparable_value_is_a_change(value):
    hosts = factories.hosts(2, stats=[{'gpu': '1'}] * 2)
    found, _ = run_filters([Changing(put('stats', 'gpu', value))], hosts, REQUEST)
    first, second = found.states()
    assert first.stats == {'gpu': '1'}
    assert second.stats['gpu'] is value
    again, _ = run_filters([Changing(lambda host: host.stats)], found, REQUEST)
    assert again.snapshot is found.snapshot
    assert hosts.stats.tolist() == [{'gpu': '1'}] * 2


def test_value_that_was_only_read_has_not_changed():
    stats = np.array([1, 2])
    hosts = factories.hosts(2, stats=[{}, stats])
    found, _ = run_filters([Changing(lambda host: host.stats)], hosts, REQUEST)
    assert found.snapshot is hosts.snapshot


def test_metrics_that_are_none_harm_only_those_who_read_them():
    hosts = factories.hosts(2)
    found, _ = run_filters([Changing(setting('metrics', 5))], hosts, REQUEST)
    assert [host.metrics for host in found.states()] == [[], 5]
    with pytest.raises(errors.ExtensionFailed, match='MetricsFilter failed'):
        run_filters([MetricsFilter([LOAD])], found, REQUEST)


def test_a_change_deep_inside_stays_in_its_request():
    hosts = factories.hosts(2, supported_instances=[[['x86_64', 'kvm', 'hvm']]] * 2)
    change = Changing(lambda host: host.supported_instances[0].remove('x86_64'))
    found, _ = run_filters([change], hosts, REQUEST)
    assert found.state(1).supported_instances == [['kvm', 'hvm']]
    for host in (hosts.state(1), found.state(0)):
        apart = HostTable(hosts.snapshot.for_new_request()).state(host._row)
        assert apart.supported_instances == [['x86_64', 'kvm', 'hvm']]


def test_a_subclass_changes_in_place_before_it_asks_the_rule():
    class Deciding(ComputeCapabilitiesFilter):
        def host_passes(self, host_state, spec_obj):
            host_state.stats['gpu'] = 'a'
            passes = super().host_passes(host_state, spec_obj)
            host_state.stats['asked'] = '1'
            return passes

    hosts = factories.hosts(2)
    found, _ = run_filters([adapted(Deciding())], hosts, capable('capabilities:gpu'))
    assert found.stats.tolist() == [{'gpu': 'a', 'asked': '1'}] * 2
    assert hosts.stats.tolist() == [{}, {}]


def test_reading_makes_no_new_columns():
    hosts = factories.hosts(2, stats=[{'gpu': '1'}] * 2, metrics=[REPORTED] * 2)
    reading = Changing(
        lambda host: (
            host.stats,
            host.metrics,
            host.aggregates,
            host.supported_instances,
        )
    )
    found, _ = run_filters([reading], hosts, factories.request())
    assert found.snapshot is hosts.snapshot
