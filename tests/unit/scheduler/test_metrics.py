# SPDX-License-Identifier: Apache-2.0
"""The metrics that computes report, and lists of name=ratio."""

import json

import pytest

from novasched.scheduler.metrics import HostMetric, invalid_ratios, parse, ratios
from tests.support.tables.cases import cases


def entry(name, **values):
    return {'name': name, 'timestamp': '2026-01-01T00:00:00', 'source': 'x', **values}


@pytest.mark.parametrize('text', [None, '', '[]'])
def test_no_metrics(text):
    assert parse(text) == ()


@cases(
    'name, reported, value',
    ('a number', 'cpu.frequency', 512, 512),
    ('text', 'cpu.frequency', '512', 512),
    ('cut to a whole number', 'cpu.frequency', 1.7, 1),
    ('a time', 'cpu.user.time', 0.5, 0),
    ('a fraction', 'cpu.percent', 0.35, 35),
    ('a fraction cut after multiplying', 'cpu.percent', 0.29, 28),
    ('the whole', 'cpu.iowait.percent', 1, 100),
    ('a NUMA metric with a number', 'numa.membw.max', 3, 3),
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


@cases(
    'text',
    ('no JSON', 'no JSON'),
    ('no list', '5'),
    ('null in JSON', 'null'),
    ('no object', '[5]'),
    ('no name', '[{"value": 5}]'),
    ('another name', '[{"name": "bogus", "value": 5}]'),
    ('another case', '[{"name": "CPU.percent", "value": 5}]'),
    ('a null value', '[{"name": "cpu.percent", "value": null}]'),
    ('no number', '[{"name": "cpu.frequency", "value": "1.7"}]'),
    ('infinite', '[{"name": "cpu.frequency", "value": Infinity}]'),
    ('a list for a name', '[{"name": ["cpu.percent"], "value": 1}]'),
    ('too deep', '[' * 100_000),
)
def test_nonsense_raises_as_in_nova(text):
    with pytest.raises(ValueError):
        parse(text)


@cases(
    'items, found',
    ('empty', [], []),
    ('two', ['a=1', 'b=-0.5'], [('a', 1.0), ('b', -0.5)]),
    ('one twice', ['a=1', 'a=2'], [('a', 1.0), ('a', 2.0)]),
    ('blanks around the number', ['a= 2 '], [('a', 2.0)]),
    ('a blank in the name', ['b = 2'], [('b ', 2.0)]),
    ('two equals signs', ['a=b=2', 'c=1'], [('c', 1.0)]),
    ('no name or no number', ['bad', '=1', 'a=', 'a=x'], []),
)
def test_ratios(items, found):
    assert list(ratios(items)) == found


def test_invalid_ratios():
    items = ['a=1', 'bad', '=1', 'a=x', 'b=2']
    assert invalid_ratios(items) == ('bad', '=1', 'a=x')
