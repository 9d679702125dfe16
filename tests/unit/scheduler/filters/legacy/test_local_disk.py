# SPDX-License-Identifier: Apache-2.0
"""Hosts with local disks of a size and a type."""

from __future__ import annotations

from novasched.scheduler.filters.legacy.own import LocalDiskFilter
from novasched.scheduler.reasons import Code
from tests import factories
from tests.tables import cases
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


@cases(
    'hosts, request_, passes',
    ('nothing is asked', host(), asks(), True),
    ('enough', host(200, LOCAL), asks('100', root_gb=20), True),
    ('too little', host(100, LOCAL), asks('100', root_gb=20), False),
    ('just enough', host(120, LOCAL), asks('100', root_gb=20), True),
    ('swap counts', host(120, LOCAL), asks('100', root_gb=20, swap=1), False),
    (
        'ephemeral disks count',
        host(120, LOCAL),
        asks('100', root_gb=19, ephemeral_gb=2),
        False,
    ),
    ('no local disks', host(200), asks('1'), False),
    ('none is enough, but of these', host(200), asks('0'), False),
    ('not said to be', host(200, {'local_disk': 'false'}), asks('1'), False),
    ('the type', host(200, NVME), asks(type_='nvme'), True),
    ('no type', host(200), asks(type_='nvme'), False),
    ('another type', host(200, NVME), asks(type_='hdd'), False),
    ('case counts', host(200, NVME), asks(type_='NVMe'), False),
    ('of two aggregates', host(200, NVME, LOCAL), asks('9', 'ssd'), True),
    ('a size of no number', host(200, LOCAL), asks('big'), False),
    ('an empty size', host(200, LOCAL), asks(''), False),
    ('a negative size', host(200, LOCAL), asks('-1'), False),
    ('a huge size', host(200, LOCAL), asks('9' * 30), False),
    ('no such number', host(200, LOCAL), asks('9' * 9999), False),
)
def test_local_disk(hosts, request_, passes):
    assert_verdict(FILTER, hosts, request_, passes)


@cases(
    'hosts, request_, code, text',
    (
        'a size of no number',
        host(),
        asks('big'),
        Code.EXTRA_SPEC_INVALID,
        "local_disk:size_gb is 'big', not a number of GiB",
    ),
    (
        'another type',
        host(200, NVME),
        asks(type_='hdd'),
        Code.LOCAL_DISK_DIFFERS,
        'local disks are of type nvme, ssd, not hdd',
    ),
    (
        'no local disks',
        host(200, NVME),
        asks('1', 'ssd'),
        Code.LOCAL_DISK_MISSING,
        'no aggregate says local_disk=true',
    ),
    (
        'too little',
        host(1, LOCAL),
        asks('1'),
        Code.NOT_ENOUGH_DISK,
        '2048 MB of local disk asked, 1024 MB free',
    ),
)
def test_why(hosts, request_, code, text):
    assert FILTER.why(hosts.state(0), request_) == (code, text)
