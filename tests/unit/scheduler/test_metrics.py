# SPDX-License-Identifier: Apache-2.0
"""The metrics that computes report."""

from __future__ import annotations

import json

import pytest

from novasched.scheduler.metrics import HostMetric, parse


def entry(name, **values):
    return {'name': name, 'timestamp': '2026-01-01T00:00:00', 'source': 'x', **values}


@pytest.mark.parametrize('text', [None, '', '[]'])
def test_no_metrics(text):
    assert parse(text) == ()


@pytest.mark.parametrize(
    ('name', 'reported', 'value'),
    [
        pytest.param('cpu.frequency', 512, 512, id='a number'),
        pytest.param('cpu.frequency', '512', 512, id='text'),
        pytest.param('cpu.frequency', 1.7, 1, id='cut to a whole number'),
        pytest.param('cpu.user.time', 0.5, 0, id='a time'),
        pytest.param('cpu.percent', 0.35, 35, id='a fraction'),
        pytest.param('cpu.percent', 0.29, 28, id='a fraction cut after multiplying'),
        pytest.param('cpu.iowait.percent', 1, 100, id='the whole'),
        pytest.param('numa.membw.max', 3, 3, id='a NUMA metric with a number'),
    ],
)
def test_values(name, reported, value):
    assert parse(json.dumps([entry(name, value=reported)])) == (
        HostMetric(name, value),
    )


def test_a_metric_may_have_no_single_number():
    text = json.dumps([entry('numa.membw.current', numa_membw_values={'0': 10})])
    assert parse(text) == (HostMetric('numa.membw.current', None),)


def test_metrics_keep_their_order_and_may_come_twice():
    names = ['cpu.percent', 'cpu.frequency', 'cpu.percent']
    text = json.dumps([entry(name, value=1) for name in names])
    assert [metric.name for metric in parse(text)] == names


@pytest.mark.parametrize(
    'text',
    [
        pytest.param('no JSON', id='no JSON'),
        pytest.param('5', id='no list'),
        pytest.param('null', id='null in JSON'),
        pytest.param('[5]', id='no object'),
        pytest.param('[{"value": 5}]', id='no name'),
        pytest.param('[{"name": "bogus", "value": 5}]', id='another name'),
        pytest.param('[{"name": "CPU.percent", "value": 5}]', id='another case'),
        pytest.param('[{"name": "cpu.percent", "value": null}]', id='a null value'),
        pytest.param('[{"name": "cpu.frequency", "value": "1.7"}]', id='no number'),
        pytest.param('[{"name": "cpu.frequency", "value": Infinity}]', id='infinite'),
        pytest.param('[{"name": ["cpu.percent"], "value": 1}]', id='a list for a name'),
        pytest.param('[' * 100_000, id='too deep'),
    ],
)
def test_nonsense_raises_as_in_nova(text):
    with pytest.raises(ValueError):
        parse(text)
