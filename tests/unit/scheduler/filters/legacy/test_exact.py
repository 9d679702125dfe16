# SPDX-License-Identifier: Apache-2.0
"""Hosts that an instance fills wholly."""

from __future__ import annotations

import pytest

from novasched.scheduler.filters.legacy.overcommit import (
    ExactCoreFilter,
    ExactDiskFilter,
    ExactRamFilter,
)
from novasched.scheduler.reasons import Code
from tests import factories
from tests.tables import cases


def limits(filter_, hosts, request):
    """The limits of the host that passes; None: it is rejected."""
    passed = filter_.apply(hosts, request)
    return passed.limits.tolist()[0] if len(passed) else None


@cases(
    'free, expected',
    ('exactly', 1024, {'memory_mb': 16384}),
    ('less', 1023, None),
    ('more', 1025, None),
)
def test_ram(free, expected):
    hosts = factories.hosts(free_ram_mb=[free])
    request = factories.request(memory_mb=1024)
    assert limits(ExactRamFilter(), hosts, request) == expected


@cases(
    'total, used, asked, expected',
    ('exactly', 4, 1, 3, {'vcpu': 4}),
    ('more', 4, 1, 2, None),
    ('the host does not tell', 0, 0, 0, None),
)
def test_core(total, used, asked, expected):
    hosts = factories.hosts(vcpus_total=[total], vcpus_used=[used])
    request = factories.request(vcpus=asked)
    assert limits(ExactCoreFilter(), hosts, request) == expected


@cases(
    'asked, free, expected',
    ('exactly, with swap', (1, 1, 512), 2560, {'disk_gb': 100}),
    ('more', (1, 0, 0), 2048, None),
)
def test_disk(asked, free, expected):
    root_gb, ephemeral_gb, swap = asked
    hosts = factories.hosts(free_disk_mb=[free])
    request = factories.request(root_gb=root_gb, ephemeral_gb=ephemeral_gb, swap=swap)
    assert limits(ExactDiskFilter(), hosts, request) == expected


@cases(
    'filter_, columns, code, text',
    (
        'RAM',
        ExactRamFilter(),
        {'free_ram_mb': [5]},
        Code.RAM_DIFFERS,
        'does not have exactly 512 MB usable RAM, it has 5 MB',
    ),
    (
        'CPUs',
        ExactCoreFilter(),
        {'vcpus_used': [6]},
        Code.CPUS_DIFFER,
        'does not have exactly 1 cores of usable vcpu, it has 2',
    ),
    (
        'no CPUs',
        ExactCoreFilter(),
        {'vcpus_total': [0]},
        Code.CPUS_DIFFER,
        'VCPUs not set; assuming CPU collection broken',
    ),
    (
        'disk',
        ExactDiskFilter(),
        {'free_disk_mb': [3]},
        Code.DISK_DIFFERS,
        'does not have exactly 1024 MB usable disk, it has 3',
    ),
)
def test_why(filter_, columns, code, text):
    host = factories.hosts(**columns).state(0)
    assert filter_.why(host, factories.request()) == (code, text)


@pytest.mark.parametrize('filter_', [ExactRamFilter, ExactCoreFilter, ExactDiskFilter])
def test_operators_are_told_that_it_is_of_the_past(filter_):
    assert filter_.deprecated.startswith(
        f'{filter_.__name__} is deprecated in Pike and will be removed in a subsequent '
        'release.'
    )
