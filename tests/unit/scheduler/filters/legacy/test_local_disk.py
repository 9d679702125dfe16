# SPDX-License-Identifier: Apache-2.0
"""Hosts with local disks of a size and a type."""

from __future__ import annotations

import pytest

from novasched.scheduler.filters.legacy.own import LocalDiskFilter
from novasched.scheduler.reasons import Code
from tests import factories
from tests.verdicts import assert_verdict

FILTER = LocalDiskFilter()
GIB = 1024


def host(free_gb=200, *of_aggregates):
    aggregates = tuple(
        factories.aggregate(number, **metadata)
        for number, metadata in enumerate(of_aggregates)
    )
    return factories.hosts(free_disk_mb=[free_gb * GIB], aggregates=[aggregates])


def asks(size=None, type_=None, **flavor):
    specs = {'local_disk:size_gb': size, 'local_disk:type': type_}
    given = {name: value for name, value in specs.items() if value is not None}
    return factories.request(extra_specs=given, **flavor)


LOCAL = {'local_disk': 'true'}
NVME = {'local_disk_type': 'ssd, nvme'}


@pytest.mark.parametrize(
    ('hosts', 'request_', 'passes'),
    [
        pytest.param(host(), asks(), True, id='nothing is asked'),
        pytest.param(host(200, LOCAL), asks('100', root_gb=20), True, id='enough'),
        pytest.param(host(100, LOCAL), asks('100', root_gb=20), False, id='too little'),
        pytest.param(host(120, LOCAL), asks('100', root_gb=20), True, id='just enough'),
        pytest.param(
            host(120, LOCAL), asks('100', root_gb=20, swap=1), False, id='swap counts'
        ),
        pytest.param(
            host(120, LOCAL),
            asks('100', root_gb=19, ephemeral_gb=2),
            False,
            id='ephemeral disks count',
        ),
        pytest.param(host(200), asks('1'), False, id='no local disks'),
        pytest.param(host(200), asks('0'), False, id='none is enough, but of these'),
        pytest.param(
            host(200, {'local_disk': 'false'}), asks('1'), False, id='not said to be'
        ),
        pytest.param(host(200, NVME), asks(type_='nvme'), True, id='the type'),
        pytest.param(host(200), asks(type_='nvme'), False, id='no type'),
        pytest.param(host(200, NVME), asks(type_='hdd'), False, id='another type'),
        pytest.param(host(200, NVME), asks(type_='NVMe'), False, id='case counts'),
        pytest.param(
            host(200, NVME, LOCAL), asks('9', 'ssd'), True, id='of two aggregates'
        ),
        pytest.param(host(200, LOCAL), asks('big'), False, id='a size of no number'),
        pytest.param(host(200, LOCAL), asks(''), False, id='an empty size'),
        pytest.param(host(200, LOCAL), asks('-1'), False, id='a negative size'),
        pytest.param(host(200, LOCAL), asks('9' * 30), False, id='a huge size'),
        pytest.param(host(200, LOCAL), asks('9' * 9999), False, id='no such number'),
    ],
)
def test_local_disk(hosts, request_, passes):
    assert_verdict(FILTER, hosts, request_, passes)


@pytest.mark.parametrize(
    ('hosts', 'request_', 'code', 'text'),
    [
        pytest.param(
            host(),
            asks('big'),
            Code.EXTRA_SPEC_INVALID,
            "local_disk:size_gb is 'big', not a number of GiB",
            id='a size of no number',
        ),
        pytest.param(
            host(200, NVME),
            asks(type_='hdd'),
            Code.LOCAL_DISK_DIFFERS,
            'local disks are of type nvme, ssd, not hdd',
            id='another type',
        ),
        pytest.param(
            host(200, NVME),
            asks('1', 'ssd'),
            Code.LOCAL_DISK_MISSING,
            'no aggregate says local_disk=true',
            id='no local disks',
        ),
        pytest.param(
            host(1, LOCAL),
            asks('1'),
            Code.NOT_ENOUGH_DISK,
            '2048 MB of local disk asked, 1024 MB free',
            id='too little',
        ),
    ],
)
def test_why(hosts, request_, code, text):
    assert FILTER.why(hosts.state(0), request_) == (code, text)
