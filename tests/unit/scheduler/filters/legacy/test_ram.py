# SPDX-License-Identifier: Apache-2.0
"""Memory that is oversubscribed up to a ratio."""

from __future__ import annotations

import pytest

from novasched.compat.plugin_adapter import adapted
from novasched.scheduler.filters.legacy.overcommit import AggregateRamFilter, RamFilter
from novasched.scheduler.reasons import Code
from tests import factories

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


@pytest.mark.parametrize(
    ('total', 'free', 'ratio', 'asked', 'expected'),
    [
        pytest.param(1024, 1024, 1.0, 1024, 1024.0, id='all of it'),
        pytest.param(1024, 1023, 1.0, 1024, None, id='one too few'),
        pytest.param(2048, -1024, 2.0, 1024, 4096.0, id='oversubscribed'),
        pytest.param(2048, -1025, 2.0, 1024, None, id='oversubscribed, one too few'),
        pytest.param(512, 512, 4.0, 1024, None, id='larger than the host'),
        pytest.param(1024, 1024, NAN, 512, None, id='the ratio is unknown'),
    ],
)
def test_ram(total, free, ratio, asked, expected):
    hosts = host(total, free, ratio, '9')
    expected = None if expected is None else {'memory_mb': expected}
    assert limits(RamFilter(), hosts, asked) == expected


@pytest.mark.parametrize(
    ('free', 'ratio', 'of_aggregates', 'expected'),
    [
        pytest.param(0, 1.0, ['2.0'], 2048.0, id='of the aggregate'),
        pytest.param(0, 1.0, ['1.5', '2.0'], None, id='the smallest of two'),
        pytest.param(1024, 1.0, ['XX'], 1024.0, id='no number'),
        pytest.param(1024, 1.0, ['nan', '0.1'], 1024.0, id='nan is no number'),
        pytest.param(1024, 1.0, ['2', 'XX'], 1024.0, id='one of two is no number'),
        pytest.param(0, 2.0, [], 2048.0, id='of the host'),
        pytest.param(1024, 1.0, [''], 1024.0, id='empty'),
    ],
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


@pytest.mark.parametrize(
    ('filter_', 'hosts', 'text'),
    [
        pytest.param(
            RamFilter(),
            host(512, 512, 4.0),
            'does not have 1024 MB usable ram before overcommit, it only has 512 MB',
            id='larger than the host',
        ),
        pytest.param(
            RamFilter(),
            host(2048, -1025, 2.0),
            'does not have 1024 MB usable ram, it only has 1023.0 MB usable ram '
            '(ram_allocation_ratio 2.0)',
            id='too little left',
        ),
        pytest.param(
            AggregateRamFilter(),
            host(1024, 0, 1.0, '1.5'),
            'does not have 1024 MB usable ram, it only has 512.0 MB usable ram '
            '(ram_allocation_ratio 1.5)',
            id='the ratio of the aggregate',
        ),
        pytest.param(
            AggregateRamFilter(),
            host(1024, 0, 1.0, 'XX', '2'),
            'does not have 1024 MB usable ram, it only has 0.0 MB usable ram '
            '(ram_allocation_ratio 1.0, as 2, XX of its aggregates is no number)',
            id='a ratio that is no number',
        ),
    ],
)
def test_why(filter_, hosts, text):
    reason = filter_.why(hosts.state(0), factories.request(memory_mb=1024))
    assert reason == (Code.NOT_ENOUGH_RAM, text)


@pytest.mark.parametrize('filter_', [RamFilter, AggregateRamFilter])
def test_operators_are_told_that_it_is_of_the_past(filter_):
    assert filter_.deprecated.startswith(f'The {filter_.__name__} is deprecated since')
