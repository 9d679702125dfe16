# SPDX-License-Identifier: Apache-2.0
"""Memory that is oversubscribed up to a ratio."""

from __future__ import annotations

import pytest

from novasched.compat.plugin_adapter import adapted
from novasched.scheduler.filters.legacy.overcommit import AggregateRamFilter, RamFilter
from novasched.scheduler.reasons import Code
from tests import factories
from tests.tables import cases

NAN = float('nan')


def host(total, free, ratio, *of_aggregates):
    aggregates = tuple(
        factories.aggregate(number, ram_allocation_ratio=value)
        for number, value in enumerate(of_aggregates)
    )
    return factories.hosts(
        total_usable_ram_mb=[total],
        free_ram_mb=[free],
        ram_allocation_ratio=[ratio],
        aggregates=[aggregates],
    )


def limits(filter_, hosts, asked):
    """The limits of the host that passes; None: it is rejected."""
    passed = filter_.apply(hosts, factories.request(memory_mb=asked))
    return passed.limits.tolist()[0] if len(passed) else None


@cases(
    'total, free, ratio, asked, expected',
    ('all of it', 1024, 1024, 1.0, 1024, 1024.0),
    ('one too few', 1024, 1023, 1.0, 1024, None),
    ('oversubscribed', 2048, -1024, 2.0, 1024, 4096.0),
    ('oversubscribed, one too few', 2048, -1025, 2.0, 1024, None),
    ('larger than the host', 512, 512, 4.0, 1024, None),
    ('the ratio is unknown', 1024, 1024, NAN, 512, None),
)
def test_ram(total, free, ratio, asked, expected):
    hosts = host(total, free, ratio, '9')
    expected = None if expected is None else {'memory_mb': expected}
    assert limits(RamFilter(), hosts, asked) == expected


@cases(
    'free, ratio, of_aggregates, expected',
    ('of the aggregate', 0, 1.0, ['2.0'], 2048.0),
    ('the smallest of two', 0, 1.0, ['1.5', '2.0'], None),
    ('no number', 1024, 1.0, ['XX'], 1024.0),
    ('nan is no number', 1024, 1.0, ['nan', '0.1'], 1024.0),
    ('one of two is no number', 1024, 1.0, ['2', 'XX'], 1024.0),
    ('of the host', 0, 2.0, [], 2048.0),
    ('empty', 1024, 1.0, [''], 1024.0),
)
def test_aggregate_ram(free, ratio, of_aggregates, expected):
    hosts = host(1024, free, ratio, *of_aggregates)
    expected = None if expected is None else {'memory_mb': expected}
    assert limits(AggregateRamFilter(), hosts, 1024) == expected


def test_without_an_end_there_is_no_limit():
    assert limits(AggregateRamFilter(), host(1024, 0, 1.0, 'inf'), 1024) == {}


def test_a_plugin_of_ours_at_host_grain():
    state = host(1024, 1024, 1.0).state(0)
    state.limits = {'own': 1}
    assert RamFilter().host_passes(state, factories.request(memory_mb=512))
    assert state.limits == {'own': 1, 'memory_mb': 1024.0}
    refused = host(1024, 0, 1.0).state(0)
    assert not RamFilter().host_passes(refused, factories.request(memory_mb=512))
    assert refused.limits == {}


def test_a_subclass_goes_host_by_host_and_keeps_the_limits():
    class Picky(RamFilter):
        def host_passes(self, host_state, spec_obj):
            return host_state.host != 'h2' and super().host_passes(host_state, spec_obj)

    hosts = factories.hosts(3, free_ram_mb=[8192, 8192, 1])
    passed = adapted(Picky()).apply(hosts, factories.request(memory_mb=512))
    assert passed.host.tolist() == ['h1']
    assert passed.limits.tolist() == [{'memory_mb': 16384.0}]


@cases(
    'filter_, hosts, text',
    (
        'larger than the host',
        RamFilter(),
        host(512, 512, 4.0),
        'does not have 1024 MB usable ram before overcommit, it only has 512 MB',
    ),
    (
        'too little left',
        RamFilter(),
        host(2048, -1025, 2.0),
        'does not have 1024 MB usable ram, it only has 1023.0 MB usable ram '
        '(ram_allocation_ratio 2.0)',
    ),
    (
        'the ratio of the aggregate',
        AggregateRamFilter(),
        host(1024, 0, 1.0, '1.5'),
        'does not have 1024 MB usable ram, it only has 512.0 MB usable ram '
        '(ram_allocation_ratio 1.5)',
    ),
    (
        'a ratio that is no number',
        AggregateRamFilter(),
        host(1024, 0, 1.0, 'XX', '2'),
        'does not have 1024 MB usable ram, it only has 0.0 MB usable ram '
        '(ram_allocation_ratio 1.0, as 2, XX of its aggregates is no number)',
    ),
)
def test_why(filter_, hosts, text):
    reason = filter_.why(hosts.state(0), factories.request(memory_mb=1024))
    assert reason == (Code.NOT_ENOUGH_RAM, text)


@pytest.mark.parametrize('filter_', [RamFilter, AggregateRamFilter])
def test_operators_are_told_that_it_is_of_the_past(filter_):
    assert filter_.deprecated.startswith(f'The {filter_.__name__} is deprecated since')
