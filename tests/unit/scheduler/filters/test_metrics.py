# SPDX-License-Identifier: Apache-2.0
"""Hosts that do not report what they are weighed by."""

import json

import pytest
from oslo_config import cfg

from novasched.scheduler.filters.metrics import MetricsFilter
from novasched.scheduler.reasons import Code
from tests.support.clouds import factories
from tests.support.tables.cases import cases
from tests.support.tables.verdicts import assert_verdict


def host(*names):
    entries = [{'name': name, 'value': 1} for name in names]
    return factories.hosts(metrics=[json.dumps(entries) if entries else None])


def filter_of(*setting):
    conf = cfg.ConfigOpts()
    conf.register_opt(cfg.ListOpt('weight_setting', default=list(setting)), 'metrics')
    return MetricsFilter.from_conf(conf)


@cases(
    'setting, names, expected',
    ('nothing asked', [], [], True),
    ('there', ['cpu.frequency=1.0'], ['cpu.frequency'], True),
    ('one of two', ['cpu.frequency=1.0', 'cpu.percent=2'], ['cpu.frequency'], False),
    ('another', ['cpu.frequency=1.0'], ['cpu.percent'], False),
    ('a ratio of 0 counts', ['cpu.percent=0'], [], False),
    (
        'nonsense is left out',
        ['bad', 'cpu.percent=x', 'cpu.percent=3'],
        ['cpu.percent'],
        True,
    ),
)
def test_metrics(setting, names, expected):
    assert_verdict(filter_of(*setting), host(*names), factories.request(), expected)


def test_equal_reports_share_an_answer_and_each_table_gets_its_own():
    filter_ = MetricsFilter(['cpu.percent'])
    report = json.dumps([{'name': 'cpu.percent', 'value': 1}])
    for metrics in ([report, None, report], [None, None, report]):
        hosts = factories.hosts(metrics=metrics)
        mask = filter_.mask(hosts, factories.request())
        assert mask.tolist() == [text is not None for text in metrics]


def test_an_unknown_metric_raises_as_in_nova():
    with pytest.raises(ValueError):
        MetricsFilter(['cpu.percent']).apply(host('bogus'), factories.request())


@pytest.mark.parametrize('names', [[], ['cpu.percent']])
def test_a_host_that_never_reported_raises_as_in_nova(names):
    hosts = factories.hosts(uuid=[None])
    with pytest.raises(TypeError):
        MetricsFilter(names).apply(hosts, factories.request())


def test_why():
    filter_ = MetricsFilter(['cpu.percent', 'cpu.frequency', 'cpu.user.time'])
    reason = filter_.why(host('cpu.percent').state(0), factories.request())
    text = 'does not report cpu.frequency, cpu.user.time'
    assert reason == (Code.METRIC_MISSING, text)
