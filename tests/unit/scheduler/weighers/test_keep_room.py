# SPDX-License-Identifier: Apache-2.0
"""Room for flavors: on whole hosts, on NUMA nodes, and the flavors that are meant."""

import numpy as np
import pytest

from novasched import errors
from novasched.scheduler.fit.fitting import Fitting
from novasched.scheduler.flavor_sizes import FlavorSize
from novasched.scheduler.weighers.keep_room import KeepRoomWeigher
from tests.support.clouds import factories
from tests.support.clouds.configuration import make_conf
from tests.support.tables.cases import cases

BIG = FlavorSize(4, 4096)
NAN = float('nan')


def hosts(*free, **columns):
    """Hosts with so many of 16 CPUs and so much of 16 GiB free."""
    return factories.hosts(
        vcpus_total=[16] * len(free),
        cpu_allocation_ratio=[1.0] * len(free),
        vcpus_used=[16 - cpus for cpus, _ in free],
        total_usable_ram_mb=[16384] * len(free),
        free_ram_mb=[ram * 1024 for _, ram in free],
        **columns,
    )


def test_the_hole_that_no_flavor_fits_is_filled_first():
    weigher = KeepRoomWeigher(1.0, [BIG])
    request = factories.request(vcpus=2, memory_mb=2048)
    weights = weigher.weigh(hosts((8, 8), (6, 6), (3, 3)), request)
    assert weights.tolist() == [-1 / 4, 0, 0]


def test_scarce_slots_weigh_more_than_frequent_slots():
    flavors = [FlavorSize(1, 1024), FlavorSize(8, 8192)]
    request = factories.request(vcpus=1, memory_mb=1024)
    weights = KeepRoomWeigher(1.0, flavors).weigh(hosts((8, 8), (7, 7)), request)
    assert weights.tolist() == pytest.approx([-1 / 16 - 1 / 2, -1 / 16])


def test_shares_weigh_flavors():
    flavors = [FlavorSize(4, 1024, 3.0), FlavorSize(1, 4096, 0.5)]
    request = factories.request(vcpus=4, memory_mb=4096)
    weights = KeepRoomWeigher(1.0, flavors).weigh(hosts((4, 16), (16, 4)), request)
    # By CPUs the hosts have 1 and 4 slots of the first, by RAM 4 and 1 of the second.
    assert weights.tolist() == pytest.approx(
        [-3 / 6 - 0.5 * 4 / 6, -3 * 4 / 6 - 0.5 / 6]
    )


def test_infinite_room_of_a_host_leaves_others_their_weight():
    weigher = KeepRoomWeigher(1.0, [BIG])
    request = factories.request(vcpus=2, memory_mb=2048)
    three = hosts((8, 8), (6, 6), (3, 3), ram_allocation_ratio=[1.0, 1.0, float('inf')])
    weights = weigher.weigh(three, request)
    assert (weights <= 0).all()
    others = three[np.array([0, 1])]
    assert weigher.weigh(others, request).tolist() == [-1 / 4, 0]


def test_ratios_make_room():
    columns = {'ram_allocation_ratio': [2.0, 1.0]}
    request = factories.request(vcpus=1, memory_mb=4096)
    weights = KeepRoomWeigher(1.0, [BIG]).weigh(
        hosts((16, 4), (16, 4), **columns), request
    )
    assert weights.tolist() == [-1 / 6, -1 / 6]
    table = hosts((16, 0), (16, 4), ram_allocation_ratio=[1.25, NAN])
    assert KeepRoomWeigher(1.0, [BIG]).weigh(table, request).tolist() == [-1 / 2, 0]


NODES = factories.numa_topology(
    factories.numa_cell(0, range(8), memory=8192, cpu_usage=5, memory_usage=5120),
    factories.numa_cell(1, range(8, 16), memory=8192),
)
GUEST = factories.guest_topology(factories.guest_cell(cpus=range(2), memory=2048))
PINNED = factories.guest_topology(
    factories.guest_cell(cpus=range(2), policy='dedicated', memory=2048)
)


@cases(
    'guest, pack, weight',
    # Node 0 has 3 CPUs left and no slot, node 1 has two.
    ('packed', GUEST, True, 0),
    ('spread', GUEST, False, -1 / 3),
    # All CPUs may be pinned; node 0, the first of two alike, has no slot by its RAM.
    ('pinned', PINNED, False, 0),
    ('no nodes', None, False, -1 / 4),
)
def test_slots_are_counted_within_numa_nodes(guest, pack, weight):
    weigher = KeepRoomWeigher(1.0, [BIG], Fitting(pack=pack))
    request = factories.request(vcpus=2, memory_mb=2048, numa_topology=guest)
    table = hosts((15, 12), numa_topology=[NODES])
    assert weigher.weigh(table, request).tolist() == [weight]


def test_a_host_without_nodes_counts_as_one_node():
    request = factories.request(vcpus=2, memory_mb=2048, numa_topology=GUEST)
    table = hosts((16, 16), (16, 16), numa_topology=[None, NODES])
    weights = KeepRoomWeigher(1.0, [BIG]).weigh(table, request)
    assert weights.tolist() == [-1 / 7, -1 / 7]


def test_public_flavors_count_where_none_are_listed():
    request = factories.request(vcpus=2, memory_mb=2048)
    free = (8, 8), (6, 6)
    table = hosts(*free, public_flavors=[(BIG,)] * 2)
    assert KeepRoomWeigher(1.0).weigh(table, request).tolist() == [-1 / 4, 0]
    assert KeepRoomWeigher(1.0).weigh(hosts(*free), request).tolist() == [0, 0]
    assert KeepRoomWeigher(1.0).weigh(table[[]], request).tolist() == []


@cases(
    'multiplier, flavors, metadata, needed',
    ('off', 0.0, [], {}, False),
    ('on', 10.0, [], {}, True),
    ('on in an aggregate', 0.0, [], {'keep_room_weight_multiplier': '10'}, True),
    ('listed', 10.0, [BIG], {}, False),
)
def test_public_flavors_are_needed_only_if_they_count(
    multiplier, flavors, metadata, needed
):
    weigher = KeepRoomWeigher(multiplier, flavors)
    assert weigher.needs_public_flavors([factories.aggregate(**metadata)]) is needed


def test_options_are_read():
    conf = make_conf()
    conf.set_override('keep_room_weight_multiplier', 10.0, 'filter_scheduler')
    conf.set_override('keep_room_flavors', ['4:4096=2'], 'filter_scheduler')
    weigher = KeepRoomWeigher.from_conf(conf)
    assert (weigher.multiplier, weigher.flavors) == (10.0, (FlavorSize(4, 4096, 2.0),))
    conf.set_override('keep_room_flavors', ['m1.tiny'], 'filter_scheduler')
    with pytest.raises(errors.OptionError, match=r'keep_room_flavors: .*m1\.tiny'):
        KeepRoomWeigher.from_conf(conf)
