# SPDX-License-Identifier: Apache-2.0
"""Disk that is oversubscribed up to a ratio."""

from __future__ import annotations

import pytest

from novasched.drivers.selections import limits as selected_limits
from novasched.scheduler.filters.legacy.overcommit import (
    AggregateDiskFilter,
    DiskFilter,
)
from novasched.scheduler.reasons import Code
from tests import factories
from tests.tables import cases


def host(total_gb, free_mb, ratio, *of_aggregates):
    aggregates = tuple(
        factories.aggregate(number, disk_allocation_ratio=value)
        for number, value in enumerate(of_aggregates)
    )
    return factories.hosts(
        total_usable_disk_gb=[total_gb],
        free_disk_mb=[free_mb],
        disk_allocation_ratio=[ratio],
        aggregates=[aggregates],
    )


def request(root_gb, ephemeral_gb, swap):
    return factories.request(root_gb=root_gb, ephemeral_gb=ephemeral_gb, swap=swap)


def limit(filter_, hosts, *asked):
    """The limit of the host that passes; None: it is rejected."""
    passed = filter_.apply(hosts, request(*asked))
    return passed.limits.tolist()[0]['disk_gb'] if len(passed) else None


@cases(
    'total, free, ratio, asked, expected',
    ('enough', 13, 11264, 1.0, (1, 1, 512), 13.0),
    ('swap counts', 13, 2048, 1.0, (1, 1, 1024), None),
    ('oversubscribed', 12, -10240, 10.0, (10, 1, 1024), 120.0),
    ('larger than the host', 1, 1024, 10.0, (1, 0, 1), None),
    ('the ratio is unknown', 13, 11264, float('nan'), (1, 1, 512), None),
)
def test_disk(total, free, ratio, asked, expected):
    assert limit(DiskFilter(), host(total, free, ratio, '99'), *asked) == expected


@cases(
    'total, free, ratio, asked, expected',
    ('of the aggregate', 16, 1024, '2', (2, 1, 0), 32.0),
    ('not a whole number', 10, 0, '1.25', (2, 0, 512), 12.5),
    ('no number', 10, 0, 'XX', (2, 0, 512), None),
)
def test_aggregate_disk(total, free, ratio, asked, expected):
    hosts = host(total, free, 1.0, ratio)
    assert limit(AggregateDiskFilter(), hosts, *asked) == expected


def test_the_selection_has_whole_gigabytes():
    hosts = AggregateDiskFilter().apply(host(10, 0, 1.0, '1.25'), request(2, 0, 512))
    assert selected_limits(hosts.state(0)).disk_gb == 12


@cases(
    'hosts, text',
    (
        'larger than the host',
        host(1, 1024, 10.0),
        'does not have 1025 MB usable disk space before overcommit, it only has '
        '1024 MB',
    ),
    (
        'too little left',
        host(2, 0, 1.5),
        'does not have 1025 MB usable disk, it only has 1024.0 MB usable disk '
        '(disk_allocation_ratio 1.5)',
    ),
)
def test_why(hosts, text):
    reason = DiskFilter().why(hosts.state(0), request(1, 0, 1))
    assert reason == (Code.NOT_ENOUGH_DISK, text)


@pytest.mark.parametrize('filter_', [DiskFilter, AggregateDiskFilter])
def test_operators_are_told_that_it_is_of_the_past(filter_):
    assert filter_.deprecated.startswith(f'The {filter_.__name__} is deprecated since')
