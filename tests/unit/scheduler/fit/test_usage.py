# SPDX-License-Identifier: Apache-2.0
"""What the nodes of a host have left once a fitted guest is on them."""

from __future__ import annotations

import pytest

from novasched.scheduler.fit.topology import Pages
from novasched.scheduler.fit.usage import BookingFailed, with_usage
from tests import topologies

CORES = ((0, 4), (1, 5), (2, 6), (3, 7))
PAGES = (Pages(2048, 600, 1), Pages(4, 1048576))


@pytest.mark.parametrize('as_nova', [False, True])
@pytest.mark.parametrize(('host', 'guest', 'after'), [
    pytest.param(
        {}, {'shared': {0, 1}},
        {'cpu_usage': 2, 'memory_usage': 1024,
         'mempages': (Pages(4, 1048576, 262144),)},
        id='shared CPUs and the smallest pages',
    ),
    pytest.param(
        {'mempages': PAGES, 'cpu_usage': 1, 'memory_usage': 5},
        {'shared': {0}, 'pagesize': 2048},
        {'cpu_usage': 2, 'memory_usage': 1029,
         'mempages': (Pages(2048, 600, 513), Pages(4, 1048576))},
        id='the pages that were chosen',
    ),
    pytest.param(
        {}, {'dedicated': {0, 1}, 'pinning': ((0, 2), (1, 3)), 'pagesize': 2048,
             'reserved': frozenset({1})},
        {'memory_usage': 1024, 'pinned_cpus': {1, 2, 3}},
        id='dedicated CPUs and that of the emulator',
    ),
    pytest.param(
        {}, {'dedicated': {0}, 'shared': {1, 2}, 'pinning': ((0, 2),), 'pagesize': 1},
        {'memory_usage': 1024, 'cpu_usage': 2, 'pinned_cpus': {2}}, id='some of both',
    ),
    pytest.param(
        {'cores': CORES},
        {'dedicated': {0, 1}, 'pinning': ((0, 0), (1, 1)), 'pagesize': 1,
         'cpu_thread_policy': 'isolate'},
        {'memory_usage': 1024, 'pinned_cpus': {0, 1, 4, 5}}, id='whole cores',
    ),
    pytest.param(
        {}, {'dedicated': (), 'shared': {0}, 'cpu_policy': 'mixed', 'pagesize': 1},
        {'memory_usage': 1024, 'cpu_usage': 1}, id='mixed without dedicated CPUs',
    ),
    pytest.param({}, {'id': 8, 'shared': {0}}, {}, id='on another node'),
])  # fmt: skip
def test_what_is_used(host, guest, after, as_nova):
    cells = (topologies.host_cell(**host),)
    used = with_usage(cells, topologies.guest(topologies.guest_cell(**guest)), as_nova)
    assert used == (topologies.host_cell(**{**host, **after}),)


@pytest.mark.parametrize(('host', 'guest', 'error', 'after'), [
    pytest.param(
        {'mempages': ()}, {'shared': {0}},
        'IndexError: cell 0: the compute reports no memory pages',
        {'cpu_usage': 1, 'memory_usage': 1024}, id='no page data',
    ),
    pytest.param(
        {'pcpuset': None}, {'shared': {0}, 'pagesize': 2048},
        'UnsetField: cell 0: the compute reports no dedicated CPUs',
        {'cpu_usage': 1, 'memory_usage': 1024}, id='an old compute',
    ),
    pytest.param(
        {'cores': CORES, 'pinned_cpus': {5}},
        {'dedicated': {0}, 'pinning': ((0, 0),), 'reserved': frozenset({1}),
         'cpu_thread_policy': 'isolate', 'pagesize': 1},
        'CPUPinningInvalid: cell 0: CPUs 5 are pinned already',
        {'memory_usage': 1024, 'pinned_cpus': {0, 1, 4, 5}},
        id='the CPU of the emulator is on a core that is in use',
    ),
])  # fmt: skip
def test_nova_fails_where_we_book_what_there_is(host, guest, error, after):
    cells = (topologies.host_cell(**host),)
    guest = topologies.guest(topologies.guest_cell(**guest))
    with pytest.raises(BookingFailed) as failed:
        with_usage(cells, guest, as_nova=True)
    assert str(failed.value) == error
    used = with_usage(cells, guest, as_nova=False)
    assert used == (topologies.host_cell(**{**host, **after}),)


@pytest.mark.parametrize('as_nova', [False, True])
@pytest.mark.parametrize(('taken', 'cpu', 'error'), [
    pytest.param((), 9, 'CPUPinningUnknown', id='of another node'),
    pytest.param({1}, 1, 'CPUPinningInvalid', id='that others have'),
])  # fmt: skip
def test_nobody_books_host_cpus(taken, cpu, error, as_nova):
    cells = (topologies.host_cell(pinned_cpus=set(taken)),)
    node = topologies.guest_cell(dedicated={0}, pinning=((0, cpu),))
    with pytest.raises(BookingFailed) as failed:
        with_usage(cells, topologies.guest(node), as_nova)
    assert failed.value.error == error


def test_nova_books_no_cores_for_host_cpus_of_another_node():
    cells = (topologies.host_cell(),)
    node = topologies.guest_cell(
        dedicated={0}, pinning=((0, 9),), cpu_thread_policy='isolate', pagesize=1
    )
    (used,) = with_usage(cells, topologies.guest(node), as_nova=True)
    assert used == topologies.host_cell(memory_usage=1024)
    with pytest.raises(BookingFailed):
        with_usage(cells, topologies.guest(node), as_nova=False)
