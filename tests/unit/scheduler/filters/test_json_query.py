# SPDX-License-Identifier: Apache-2.0
"""Queries in JSON, with nova's answers."""

import json

import pytest

from novasched import errors
from novasched.scheduler.filters.json_query import JsonFilter
from novasched.scheduler.pipeline import run_filters
from novasched.scheduler.reasons import Code
from tests.support.clouds import factories
from tests.support.tables.cases import cases
from tests.support.tables.verdicts import assert_verdict

FILTER = JsonFilter()
HOST = {
    'host': 'h1',
    'free_ram_mb': 1024,
    'free_disk_mb': 204800,
    'stats': {'num_instances': '3', 'x': {'y': 5}},
    'service': {'disabled': False},
    'cpu_info': '{"x": 1}',
    'cpu_allocation_ratio': float('nan'),
}
HOSTS = factories.hosts(**{name: [value] for name, value in HOST.items()})
H1, TRUE, FALSE = ['=', '$host', 'h1'], ['=', 1, 1], ['=', 1, 2]


def request(query):
    text = query if isinstance(query, str) else json.dumps(query)
    return factories.request(scheduler_hints={'query': [text]})


@pytest.mark.parametrize(
    ('query', 'expected'),
    [
        (['and', ['>=', '$free_ram_mb', 1024], ['>=', '$free_disk_mb', 204800]], True),
        (['>=', '$free_ram_mb', 1025], False),
        (['=', '$free_ram_mb'], False),
        (['=', '$nope', 1], False),
        (['<', 1, 2, 3], True),
        (['<', 1, 2, 1], False),
        (['>', '$free_ram_mb', 1023], True),
        (['<=', '$free_ram_mb', 1023.5], False),
        (['in', '$host', 'h1', 'h2'], True),
        (['in', '$host', 'h2'], False),
        (['in', '$host'], False),
        (['not', H1], False),
        (['not', ['=', '$host', 'h2']], True),
        (['not', H1, ['=', '$host', 'h2']], True),
        (['and', ['not', H1], TRUE], True),
        (['not', ['not', H1]], False),
        (['or', ['not', H1]], True),
        (['and', ['not']], False),
        (['=', ['not', TRUE], ['not', TRUE]], True),
        (['=', ['not', TRUE], ['not', FALSE]], False),
        ([], True),
        ({}, True),
        (['and'], True),
        (['and', []], True),
        (['or'], False),
        (['not'], False),
        (['and', 0], False),
        (['or', FALSE, {'a': 1}], True),
        (['or', {}], False),
        (['=', '$service.disabled', False], True),
        (['=', '$stats.x.y', 5], True),
        (['=', '$stats.nope.y', 5], False),
        (['=', '$stats.num_instances', 3], False),
        (['=', '$stats.num_instances', '3'], True),
        (['=', '$free_ram_mb', None, 1024], True),
        (['=', 'a', 'a', ''], True),
        (['and', '$nope', TRUE], True),
        (['=', True, 1], True),
        (['=', '$cpu_allocation_ratio', 1], False),
        (['or', '$cpu_allocation_ratio'], False),
        (['=', '$hypervisor_type', 'QEMU'], True),
        (['and', '$states', '$row'], True),
        ('false', True),
    ],
    ids=str,
)
def test_query(query, expected):
    assert_verdict(FILTER, HOSTS, request(query), expected)


@pytest.mark.parametrize(
    ('query', 'error'),
    [
        (['bogus', 1], KeyError),
        (['in', '$host', ['h1']], KeyError),
        ('"str"', KeyError),
        ('5', TypeError),
        ([[]], TypeError),
        ('notjson', ValueError),
        (['<', '$free_ram_mb', '2048'], TypeError),
        (['<', 1, 0, 'x'], TypeError),
        (['=', '$cpu_info.x', 1], AttributeError),
        (['=', '$free_ram_mb.x', 1], AttributeError),
    ],
    ids=str,
)
def test_nonsense_raises_as_in_nova(query, error):
    with pytest.raises(error):
        FILTER.apply(HOSTS, request(query))


def test_several_queries_raise_as_in_nova():
    hints = {'query': ['["and"]', '["and"]']}
    with pytest.raises(TypeError):
        FILTER.apply(HOSTS, factories.request(scheduler_hints=hints))


@pytest.mark.parametrize('hints', [{}, {'query': []}, {'query': ['']}])
def test_no_query(hints):
    assert_verdict(FILTER, HOSTS, factories.request(scheduler_hints=hints), True)


def test_invalid_query_is_unread_without_hosts():
    assert not len(FILTER.apply(factories.hosts(0), request('nonsense')))


def test_each_host_has_its_own_nulls():
    hosts = factories.hosts(
        stats=[{'a': '1', 'b': '1'}, {'a': '1'}, {'b': '2'}, {'a': '1', 'b': '2'}, {}]
    )
    found = FILTER.apply(hosts, request(['=', '$stats.a', '$stats.b', '1']))
    assert found.host.tolist() == ['h1', 'h2']
    found = FILTER.apply(hosts, request(['not', '$stats.a', '$stats.b']))
    assert found.host.tolist() == []
    found = FILTER.apply(hosts, request(['and', ['not', '$stats.a'], TRUE]))
    assert found.host.tolist() == ['h1', 'h2', 'h4']


def nested(depth):
    """Queries one within the other, the innermost of one command."""
    return '["and",' * (depth - 1) + '["and"]' + ']' * (depth - 1)


@cases(
    'query',
    ('many arguments', json.dumps(['and', *[1] * 999])),
    ('deeply nested', nested(50)),
    ('long', json.dumps(['or', 'x' * 130_000])),
    ('a long path', '["or", "$stats' + '.x' * 60_000 + '", 1]'),
)
def test_a_query_may_be_large(query):
    assert_verdict(FILTER, HOSTS, request(query), True)


@cases('query, bound',
    ('too many arguments', json.dumps(['and', *[1] * 1000]),
     '1000 commands and arguments'),
    ('too many arguments of nested queries',
     json.dumps(['and', *[['and', *[1] * 99]] * 10]), '1000 commands and arguments'),
    ('too deeply nested', nested(51), '50 nested queries'),
    ('too deeply nested to be read', '[' * 50_000 + ']' * 50_000, '50 nested queries'),
    ('too long', json.dumps(['or', 'x' * 131_072]), '131072 characters'),
)  # fmt: skip
def test_no_host_is_valid_for_a_query_that_is_too_large(query, bound):
    with pytest.raises(errors.NoValidHost, match=f'"query" has more than {bound}'):
        FILTER.apply(HOSTS, request(query))


def test_query_that_is_too_large_is_refused_with_its_reason():
    with pytest.raises(errors.NoValidHost, match='more than 50 nested queries'):
        run_filters([FILTER], HOSTS, request(nested(51)))


def test_a_reason_is_short():
    reason = FILTER.why(HOSTS.state(0), request(json.dumps(['and', 0, 'x' * 9999])))
    assert len(reason.text) < 300


def test_why():
    reason = FILTER.why(HOSTS.state(0), request(FALSE))
    assert reason == (Code.QUERY_NOT_SATISFIED, 'does not satisfy ["=", 1, 2]')
