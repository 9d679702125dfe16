# SPDX-License-Identifier: Apache-2.0
"""Weighers that nova has not: each equals a plain form, host by host."""

import itertools
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from novasched.scheduler.fit.fitting import Fitting
from novasched.scheduler.flavor_sizes import FlavorSize
from novasched.scheduler.pipeline import weigh
from novasched.scheduler.weighers.keep_room import KeepRoomWeigher
from novasched.scheduler.weighers.resources import SameHostWeigher
from novasched.scheduler.weighers.shares import (
    CPUShareWeigher,
    DiskShareWeigher,
    RAMShareWeigher,
)
from tests.properties.installed import WEIGHERS
from tests.properties.strategies import host_tables, requests
from tests.support.tables.examples import examples

sizes = st.builds(
    FlavorSize,
    st.integers(1, 8),
    st.integers(1, 4096),
    st.sampled_from([0, 0.25, 1, 3]),
)
OWN = [KeepRoomWeigher, CPUShareWeigher, DiskShareWeigher, RAMShareWeigher]
OWN += [SameHostWeigher]


def known(number):
    """A number of a host, 0 where a ratio is unknown."""
    return 0.0 if number is None or math.isnan(number) else number


def amounts(host):
    """Total, ratio and used CPUs, RAM and disk of a host."""
    ram_mb, disk_mb = host.total_usable_ram_mb, host.total_usable_disk_gb * 1024
    return {
        CPUShareWeigher: (host.vcpus_total, host.cpu_allocation_ratio, host.vcpus_used),
        RAMShareWeigher: (ram_mb, host.ram_allocation_ratio, ram_mb - host.free_ram_mb),
        DiskShareWeigher: (
            disk_mb,
            host.disk_allocation_ratio,
            disk_mb - host.free_disk_mb,
        ),
    }


def taken(request):
    """CPUs, RAM and disk that the instance takes."""
    root_gb = 0 if request.if_set('is_bfv') else request.root_gb
    return {
        CPUShareWeigher: request.vcpus,
        RAMShareWeigher: request.memory_mb,
        DiskShareWeigher: (root_gb + request.ephemeral_gb) * 1024,
    }


@pytest.mark.parametrize('weigher', OWN[1:4])
@given(hosts=host_tables, request=requests)
@examples(50)
def test_share_equals_its_plain_form(weigher, hosts, request):
    expected = []
    for host in hosts.states():
        total, ratio, used = amounts(host)[weigher]
        capacity = known(total * known(ratio))
        left = capacity - used - taken(request)[weigher]
        expected.append(left / capacity if capacity > 0 else 0.0)
    assert weigher().weigh(hosts, request).tolist() == pytest.approx(expected)


def places(host, guest):
    """Free CPUs and RAM of the places of a host: its nodes, or itself."""
    cpu_ratio, ram_ratio = host.cpu_allocation_ratio, host.ram_allocation_ratio
    cells = host.numa_topology.cells if guest and host.numa_topology else ()
    if not cells:
        cpus = host.vcpus_total * known(cpu_ratio) - host.vcpus_used
        more_mb = host.total_usable_ram_mb * (ram_ratio or math.nan)
        return [
            [
                known(cpus if cpu_ratio is not None else math.nan),
                known(host.free_ram_mb + more_mb - host.total_usable_ram_mb),
            ]
        ]
    if any(cell.cpu_policy in ('dedicated', 'mixed') for cell in guest.cells):
        return [[len(cell.free_cpus), cell.free_memory] for cell in cells]
    return [
        [
            len(cell.cpuset) * known(cpu_ratio) - cell.cpu_usage,
            cell.memory * known(ram_ratio) - cell.memory_usage,
        ]
        for cell in cells
    ]


def needs(request, guest):
    """CPUs and RAM of each node of the instance, or of the whole."""
    if not guest:
        return [(request.vcpus, request.memory_mb)]
    found = []
    for cell in guest.cells:
        own = cell.cpu_policy in ('dedicated', 'mixed')
        found.append((len(cell.pcpuset if own else cell.cpuset), cell.memory))
    return sorted(found, reverse=True)


def take(free, wanted, pack):
    """Take each need of another place: of those that have room, or of the first."""
    left, untaken = [list(place) for place in free], set(range(len(free)))
    for vcpus, memory_mb in wanted:
        able = [
            place
            for place in sorted(untaken)
            if left[place][0] >= vcpus and left[place][1] >= memory_mb
        ]
        best = min if pack else max
        place = best(able, key=lambda one: left[one][0]) if able else 0
        left[place][0] -= vcpus
        left[place][1] -= memory_mb
        untaken.discard(place)
    return left


def slots(free, flavor):
    """Instances of a flavor that the places of a host have room for."""
    return sum(
        max(0, min(cpus // flavor.vcpus, memory_mb // flavor.memory_mb))
        for cpus, memory_mb in free
    )


@given(
    hosts=host_tables,
    request=requests,
    flavors=st.lists(sizes, min_size=1, max_size=4),
    pack=st.booleans(),
)
@examples(100)
def test_kept_room_equals_its_plain_form(hosts, request, flavors, pack):
    guest = request.if_set('numa_topology')
    before = [places(host, guest) for host in hosts.states()]
    after = [take(free, needs(request, guest), pack) for free in before]
    expected = [0.0] * len(hosts)
    for flavor in flavors:
        total = sum(slots(free, flavor) for free in before)
        for place, (free, left) in enumerate(zip(before, after, strict=True)):
            lost = slots(free, flavor) - slots(left, flavor)
            expected[place] -= flavor.share * lost / (1 + total)
    weigher = KeepRoomWeigher(1.0, flavors, Fitting(pack=pack))
    assert weigher.weigh(hosts, request).tolist() == pytest.approx(expected)


@given(hosts=host_tables, request=requests)
@examples(30)
def test_weighers_that_are_off_leave_no_trace(hosts, request):
    novas = [each for each in WEIGHERS if type(each) not in OWN]
    expected, found = (weigh(some, hosts, request) for some in (novas, WEIGHERS))
    assert found.totals.tolist() == expected.totals.tolist()
    overridden = {
        key for a in hosts.aggregates.tolist() for one in a for key in one.metadata
    }
    names = [w.name for w in found.weighings if w.name not in {n.name for n in novas}]
    assert all(cls.option in overridden for cls in OWN if cls.__name__ in names)


@given(
    tables=st.lists(host_tables, min_size=2, max_size=4),
    asked=st.lists(requests, min_size=1, max_size=2),
    flavors=st.lists(sizes, min_size=1, max_size=4),
)
@examples(50)
def test_kept_slots_equal_slots_of_a_new_weigher(tables, asked, flavors):
    keeping = KeepRoomWeigher(1.0, flavors)
    for hosts, request in itertools.product(tables, asked):
        counted = KeepRoomWeigher(1.0, flavors).weigh(hosts, request)
        assert keeping.weigh(hosts, request).tolist() == counted.tolist()
