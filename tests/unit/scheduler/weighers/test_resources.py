# SPDX-License-Identifier: Apache-2.0
"""Free resources, load, failures, versions and cells, as final weights of the hosts."""

import json

import pytest

from novasched import errors
from novasched.objects.pci import PciDevicePool, PciDevicePoolList
from novasched.objects.request_spec import CellMapping, Destination
from novasched.scheduler.pipeline import weigh
from novasched.scheduler.weighers.resources import (
    BuildFailureWeigher,
    CPUWeigher,
    CrossCellWeigher,
    DiskWeigher,
    HypervisorVersionWeigher,
    IoOpsWeigher,
    NumInstancesWeigher,
    PCIWeigher,
    RAMWeigher,
)
from tests.support.clouds import factories
from tests.support.clouds.configuration import make_conf
from tests.support.tables.cases import cases

NAN = float('nan')
RAM = [512, 1024, 3072, 8192]
RAM_KEY = 'ram_weight_multiplier'
REWARD = factories.aggregate(build_failure_weight_multiplier='-5')


def totals(weigher, request=None, **columns):
    hosts = factories.hosts(**columns)
    return weigh([weigher], hosts, request or factories.request()).totals.tolist()


@cases(
    'weigher, column, values, weights',
    ('RAM', RAMWeigher(), 'free_ram_mb', RAM, [0.0625, 0.125, 0.375, 1]),
    ('RAM below 0', RAMWeigher(), 'free_ram_mb', [-512, 0, 1024], [0, 0, 1]),
    ('equal RAM', RAMWeigher(), 'free_ram_mb', [1024, 1024], [1, 1]),
    ('no RAM', RAMWeigher(), 'free_ram_mb', [-5, -1], [0, 0]),
    ('stacks', RAMWeigher(-1.0), 'free_ram_mb', RAM, [-0.0625, -0.125, -0.375, -1]),
    ('disk', DiskWeigher(), 'free_disk_mb', [5120, 10240, -1024], [0.5, 1, 0]),
    ('I/O', IoOpsWeigher(-1.0), 'num_io_ops', [1, 2, 0, 4], [-0.25, -0.5, 0, -1]),
    ('equal I/O', IoOpsWeigher(-1.0), 'num_io_ops', [3, 3], [-1, -1]),
    ('do not count', NumInstancesWeigher(0.0), 'num_instances', [1, 5, 3], [0, 0, 0]),
    ('fewer', NumInstancesWeigher(-1.0), 'num_instances', [1, 5, 3], [0, -1, -0.5]),
    ('more', NumInstancesWeigher(10.0), 'num_instances', [1, 5, 3], [0, 10, 5]),
    (
        'fails',
        BuildFailureWeigher(),
        'failed_builds',
        [1, 0, 4],
        [-250000, 0, -(10**6)],
    ),
    ('all fail alike', BuildFailureWeigher(), 'failed_builds', [2, 2], [0, 0]),
    ('no matter', BuildFailureWeigher(0.0), 'failed_builds', [1, 0, 4], [0, 0, 0]),
)
def test_weights_of_a_column(weigher, column, values, weights):
    assert totals(weigher, **{column: values}) == weights


@cases(
    'overrides, weights',
    ('the lowest of two', [[], [], [], ['0.5', '2']], [0.0625, 0.125, 0.375, 0.5]),
    ('one outranks all', [['100'], [], [], []], [6.25, 0.125, 0.375, 1]),
)
def test_aggregates_have_multipliers(overrides, weights):
    aggregates = [
        tuple(factories.aggregate(n, **{RAM_KEY: v}) for n, v in enumerate(values))
        for values in overrides
    ]
    assert totals(RAMWeigher(), free_ram_mb=RAM, aggregates=aggregates) == weights


def test_an_aggregate_may_reward_failed_builds():
    columns = {'failed_builds': [1, 0, 4], 'aggregates': [(), (), (REWARD,)]}
    assert totals(BuildFailureWeigher(), **columns) == [-250000, 0, 5]


@cases(
    'total, ratio, used, weights',
    ('CPUs', [8, 4, 16], [16, 16, 1], [0, 10, 20], [1.0, 0.421875, 0.0]),
    ('no CPUs', [8, 8], [1, 1], [8, 8], [0, 0]),
)
def test_cpus(total, ratio, used, weights):
    columns = {'cpu_allocation_ratio': ratio, 'vcpus_used': used}
    assert totals(CPUWeigher(), vcpus_total=total, **columns) == weights


def test_a_host_that_never_reported_fails_the_request():
    with pytest.raises(errors.ExtensionFailed, match='CPUWeigher'):
        totals(CPUWeigher(), cpu_allocation_ratio=[NAN, 4.0])


@cases(
    'versions, weights',
    ('one is unknown', [6002000, 7000000, NAN], [6002000 / 7000000, 1.0, 0.0]),
    ('close ones', [6002000, 7000000, 6002001], [0.0, 1.0, 1 / 998000]),
    ('equal ones do not count', [8002002, 8002002], [0, 0]),
)
def test_hypervisor_versions(versions, weights):
    assert totals(HypervisorVersionWeigher(), hypervisor_version=versions) == weights


def pools(*counts):
    old = {'vendor_id': '8086', 'product_id': '1520', 'tags': {}}
    made = [PciDevicePool(**old, count=count) for count in counts]
    return json.dumps(PciDevicePoolList(objects=made).obj_to_primitive())


@cases(
    'free, weights',
    (
        'fewer devices are better, up to 99',
        [None, pools(), pools(4), pools(16), pools(150), pools(99), pools(100)],
        [1.0, 1.0, 95 / 99, 83 / 99, 0, 0, 0],
    ),
    ('equally many', [pools(4), pools(2, 2)], [0, 0]),
)
def test_pci_devices(free, weights):
    assert totals(PCIWeigher(), pci_stats=free) == weights


def test_the_option_of_devices_may_not_be_negative():
    conf = make_conf()
    with pytest.raises(ValueError):
        conf.set_override('pci_weight_multiplier', -1.0, 'filter_scheduler')


A = 'a0000000-0000-4000-8000-000000000001'
B = 'b0000000-0000-4000-8000-000000000001'
CELL = CellMapping(uuid=A)
AWAY = {'allow_cross_cell_move': True}


@cases(
    'destination, cells, weights',
    ('it is preferred', Destination(cell=CELL, **AWAY), [A, B, A], [10**6, 0, 10**6]),
    ('all are in the cell', Destination(cell=CELL, **AWAY), [A, A], [0, 0]),
    ('it may not', Destination(cell=CELL, allow_cross_cell_move=False), [A, B], [0, 0]),
    ('no cell is named', Destination(cell=None, **AWAY), [A, B], [0, 0]),
    ('only a host is named', Destination(host='h1', **AWAY), [A, B], [0, 0]),
    ('whether it may is not said', Destination(cell=CELL), [A, B], [0, 0]),
    ('no destination', None, [A, B], [0, 0]),
)
def test_cells(destination, cells, weights):
    request = factories.request(requested_destination=destination)
    assert totals(CrossCellWeigher(), request, cell_uuid=cells) == weights
