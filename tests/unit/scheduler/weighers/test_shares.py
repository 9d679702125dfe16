# SPDX-License-Identifier: Apache-2.0
"""Shares of what is left after the instance, on hosts of unlike sizes."""

import numpy as np
import pytest

from novasched.scheduler.weighers.shares import (
    CPUShareWeigher,
    DiskShareWeigher,
    RAMShareWeigher,
)
from tests.support.clouds import factories
from tests.support.tables.cases import cases

NAN = float('nan')
CPUS = {'vcpus_total': [4, 16], 'cpu_allocation_ratio': [2.0, 1.0]}
RAM = {'total_usable_ram_mb': [1000, 4000], 'ram_allocation_ratio': [2.0, 1.0]}
DISK = {'total_usable_disk_gb': [10, 40], 'disk_allocation_ratio': [2.0, 1.0]}


def weights(weigher, columns, **asked):
    return weigher.weigh(
        factories.hosts(**columns), factories.request(**asked)
    ).tolist()


@cases(
    'weigher, columns, asked, expected',
    ('cpu', CPUShareWeigher(), {**CPUS, 'vcpus_used': [2, 4]}, {}, [5 / 8, 11 / 16]),
    (
        'ram',
        RAMShareWeigher(),
        {**RAM, 'free_ram_mb': [500, 1000]},
        {'memory_mb': 100},
        [1400 / 2000, 900 / 4000],
    ),
    (
        'disk',
        DiskShareWeigher(),
        {**DISK, 'free_disk_mb': [5120, 10240]},
        {'root_gb': 1, 'ephemeral_gb': 1},
        [13 / 20, 8 / 40],
    ),
    (
        'volume',
        DiskShareWeigher(),
        {**DISK, 'free_disk_mb': [5120, 10240]},
        {'root_gb': 1, 'ephemeral_gb': 1, 'is_bfv': True},
        [14 / 20, 9 / 40],
    ),
)
def test_weight_is_the_share_left_after_the_instance(weigher, columns, asked, expected):
    assert weights(weigher, columns, **asked) == pytest.approx(expected)


def test_a_host_without_the_resource_or_its_ratio_weighs_zero():
    none = {'total_usable_disk_gb': [0, 10], 'disk_allocation_ratio': [1.0, NAN]}
    assert weights(DiskShareWeigher(), none) == [0, 0]


def test_unlike_hosts_fill_alike():
    hosts = factories.hosts(vcpus_total=[8, 32], cpu_allocation_ratio=[1.0, 1.0])
    used, request = [0, 0], factories.request(vcpus=1)
    for _ in range(20):
        table = hosts.with_columns(vcpus_used=np.array(used))
        used[int(CPUShareWeigher(1.0).weigh(table, request).argmax())] += 1
    assert used == [4, 16]
