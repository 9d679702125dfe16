# SPDX-License-Identifier: Apache-2.0
"""Metrics of the hosts, as their final weights."""

import json

import pytest

from novasched import errors
from novasched.compat import plugin_adapter
from novasched.scheduler.pipeline import weigh
from novasched.scheduler.weighers.metrics import MetricsWeigher
from tests.support.clouds import factories
from tests.support.clouds.configuration import make_conf
from tests.support.tables.cases import cases

ONE = ['cpu.frequency=1.0']


def text(**values):
    """Return the JSON text of metrics of the CPU; percent is a fraction there."""
    return json.dumps(
        [
            {'name': f'cpu.{name}', 'value': value, 'timestamp': None, 'source': 'x'}
            for name, value in values.items()
        ]
    )


def off(value):
    return (factories.aggregate(1, metrics_weight_multiplier=value),)


class OnlyH1(MetricsWeigher):
    """Has a multiplier as one for nova would."""

    def weight_multiplier(self, host_state):
        return super().weight_multiplier(host_state) * (host_state.host == 'h1')


def test_missing_metric_counts_by_the_multiplier_of_a_plugin():
    weigher, request = OnlyH1(1.0, ONE, required=False), factories.request()
    hosts = factories.hosts(metrics=[text(), text(), text(frequency=5)])
    weights = plugin_adapter.adapted(weigher).weights(hosts, request)
    assert weights.tolist() == [-10000.0, 0.0, 5.0]


def several(*frequencies):
    """Return the metrics of hosts, by frequency; None: it is not reported."""
    return [text() if f is None else text(frequency=f) for f in frequencies]


def lenient(multiplier, setting, **more):
    return MetricsWeigher(multiplier, setting, required=False, **more)


BOTH = ['cpu.frequency=1.0', 'cpu.percent=-2']
TWICE = ['cpu.frequency=1', 'cpu.frequency=-1']
ZERO = ['cpu.frequency=0']
PERCENT = [text(percent=0.03), text(percent=0.1)]


@cases('weigher, metrics, weights',
    ('one metric', MetricsWeigher(1.0, ONE), several(512, 1024, 3072), [0.0, 0.2, 1.0]),
    ('two metrics', MetricsWeigher(1.0, BOTH),
     [text(frequency=100, percent=0.1), text(frequency=90, percent=0)], [0.0, 1.0]),
    ('one metric twice adds up', MetricsWeigher(1.0, TWICE), several(1, 2), [0, 0]),
    ('only one host', MetricsWeigher(1.0, ONE), several(None), [0.0]),
    ('absent', lenient(1.0, ONE), several(512, None), [1.0, 0.0]),
    ('it does not count', lenient(1.0, ZERO), several(512, None), [0, 0]),
    ('the one that is absent does not count', lenient(1.0, ['cpu.percent=5', *ZERO]),
     PERCENT, [0.0, 1.0]),
    ('nothing counts', lenient(0.0, ONE), several(512, None), [0, 0]),
    ('absent is better', lenient(1.0, ONE, unavailable=600),
     [text(frequency=512), None], [0.0, 1.0]),
    ('empty', MetricsWeigher(), [text(frequency=1), None], [0, 0]),
)  # fmt: skip
def test_weights(weigher, metrics, weights):
    hosts = factories.hosts(metrics=metrics)
    assert weigh([weigher], hosts, factories.request()).totals.tolist() == weights


@cases(
    'multiplier, of_aggregates, weights',
    ('one does not count', 1.0, [None, '0', '2'], [1.0, 0.0, 0.0]),
    ('all count', 0.0, ['3', '3', '3'], [3.0, 0.0, 0.0]),
)
def test_aggregates_have_multipliers(multiplier, of_aggregates, weights):
    aggregates = [off(each) if each else () for each in of_aggregates]
    hosts = factories.hosts(metrics=several(512, None, None), aggregates=aggregates)
    weighed = weigh([lenient(multiplier, ONE)], hosts, factories.request())
    assert weighed.totals.tolist() == weights


def test_the_raw_weights_are_sums():
    hosts = factories.hosts(
        metrics=[text(frequency=100, percent=0.1), text(frequency=90, percent=0), None]
    )
    weigher = MetricsWeigher(
        1.0, ['cpu.frequency=1.0', 'cpu.percent=-2'], required=False
    )
    assert weigher.weigh(hosts, factories.request()).tolist() == [80, 90, -10000]


def test_a_host_without_a_required_metric_fails_the_weigher():
    hosts = factories.hosts(
        host=['h1', 'h2'], nodename=['n1', 'n2'], metrics=[text(frequency=512), text()]
    )
    with pytest.raises(
        errors.MetricNotFound,
        match=r'Metric cpu\.frequency could not be found on the compute host '
        r'node h2\.n2\.',
    ):
        weigh([MetricsWeigher(1.0, ONE)], hosts, factories.request())


@pytest.mark.parametrize('required', [True, False])
def test_a_metric_that_is_not_one_number_fails_the_weigher(required):
    bandwidth = json.dumps(
        [{'name': 'numa.membw.max', 'numa_membw_values': {'0': 5}, 'timestamp': None}]
    )
    hosts = factories.hosts(metrics=[bandwidth, bandwidth])
    weigher = MetricsWeigher(1.0, ['numa.membw.max=1'], required=required)
    with pytest.raises(TypeError, match=r'numa\.membw\.max'):
        weigher.weigh(hosts, factories.request())


def test_a_host_that_lacks_one_is_not_asked_for_the_next():
    bandwidth = json.dumps([{'name': 'numa.membw.max', 'numa_membw_values': {'0': 5}}])
    hosts = factories.hosts(metrics=[bandwidth])
    weigher = MetricsWeigher(
        1.0, ['cpu.frequency=1', 'numa.membw.max=1'], required=False
    )
    assert weigher.weigh(hosts, factories.request()).tolist() == [-10000]


def test_options():
    conf = make_conf()
    for name, value in {
        'weight_multiplier': 2.5,
        'weight_setting': ONE,
        'required': False,
        'weight_of_unavailable': 7.0,
    }.items():
        conf.set_override(name, value, 'metrics')
    weigher = MetricsWeigher.from_conf(conf)
    hosts = factories.hosts(metrics=[text(frequency=3), None])
    assert weigher.weigh(hosts, factories.request()).tolist() == [3, 7]
    assert weigher.multiplier == 2.5
