# SPDX-License-Identifier: Apache-2.0
"""Whether one node of a host can take one node of a guest."""

from __future__ import annotations

import pytest

from novasched.scheduler.fit import pair
from novasched.scheduler.fit.guests import LARGE
from novasched.scheduler.fit.refused import Refused
from novasched.scheduler.fit.topology import Limits, Pages
from novasched.scheduler.reasons import Code
from tests import topologies

STRICT = Limits(1.0, 1.0)
HUGE = (Pages(4, 1048576), Pages(2048, 600))
CODES = (
    Code.NODE_DATA_MISSING,
    Code.NOT_ENOUGH_DEDICATED_CPUS,
    Code.NOT_ENOUGH_NODE_CPUS,
    Code.NOT_ENOUGH_NODE_MEMORY,
)
NO_DATA, DEDICATED, SHARED, MEMORY = CODES


@pytest.mark.parametrize(('host', 'guest', 'fitted'), [
    pytest.param(
        {'id': 8}, {'shared': {0, 1}}, {'id': 8, 'shared': {0, 1}},
        id='shared CPUs: on that node, nothing else',
    ),
    pytest.param(
        {'id': 8, 'mempages': HUGE}, {'shared': {0}, 'pagesize': LARGE},
        {'id': 8, 'shared': {0}, 'pagesize': 2048}, id='the size of pages is chosen',
    ),
    pytest.param(
        {'mempages': HUGE}, {'shared': {0}, 'pagesize': 2048},
        {'shared': {0}, 'pagesize': 2048}, id='the size of pages was given',
    ),
    pytest.param(
        {'pinned_cpus': {0}}, {'dedicated': {6, 5}},
        {'dedicated': {5, 6}, 'pinning': ((5, 1), (6, 2))},
        id='dedicated CPUs, in the order of the guest',
    ),
    pytest.param(
        {'cpuset': {8}, 'pcpuset': {0, 1}}, {'shared': {0}, 'dedicated': {1, 2}},
        {'shared': {0}, 'dedicated': {1, 2}, 'pinning': ((1, 0), (2, 1))},
        id='some of both',
    ),
    pytest.param(
        {}, {'shared': {0}, 'cpu_policy': 'mixed', 'reserved': frozenset({3})},
        {'shared': {0}, 'cpu_policy': 'mixed'}, id='mixed without dedicated CPUs',
    ),
    pytest.param(
        {}, {'dedicated': {0}, 'pinning': ((0, 3), (9, 2))},
        {'dedicated': {0}, 'pinning': ((0, 0), (9, 2))},
        id='CPUs of before are replaced',
    ),
    pytest.param(
        {'cpu_usage': 3, 'memory_usage': 3072}, {'shared': {0}}, {'shared': {0}},
        id='exactly full',
    ),
    pytest.param(
        {'cpu_usage': 99, 'memory_usage': 4096, 'mempages': HUGE},
        {'dedicated': {0}, 'pagesize': 2048},
        {'dedicated': {0}, 'pagesize': 2048, 'pinning': ((0, 0),)},
        id='ratios are not for dedicated CPUs',
    ),
])  # fmt: skip
def test_it_fits(host, guest, fitted):
    cell = topologies.host_cell(**host)
    wanted = topologies.guest_cell(**guest)
    assert pair.fit_pair(cell, wanted, STRICT, 0) == topologies.guest_cell(**fitted)


@pytest.mark.parametrize(('host', 'guest', 'code', 'text'), [
    pytest.param(
        {}, {'shared': range(5)}, SHARED, '4 of 5 shared CPUs',
        id='more shared CPUs than the node has',
    ),
    pytest.param(
        {'pcpuset': {0}}, {'dedicated': {0, 1}}, DEDICATED, '1 of 2 dedicated CPUs',
        id='more dedicated CPUs than the node has',
    ),
    pytest.param(
        {'pinned_cpus': {0, 1, 2}}, {'dedicated': {0, 1}}, DEDICATED,
        '1 of 2 dedicated CPUs free', id='more dedicated CPUs than are free',
    ),
    pytest.param(
        {'pcpuset': None}, {'dedicated': {0}}, NO_DATA,
        'the compute reports no dedicated CPUs', id='an old compute',
    ),
    pytest.param(
        {'siblings': ()}, {'dedicated': {0}}, NO_DATA, 'no CPU cores are reported',
        id='no cores',
    ),
    pytest.param(
        {'cpu_usage': 4}, {'shared': {0}}, SHARED,
        'CPUs used: 4 + 1 is over 4 (4 CPUs x 1.0)', id='over the ratio of CPUs',
    ),
    pytest.param(
        {'memory_usage': 4000}, {'shared': {0}}, MEMORY,
        'MiB used: 4000 + 1024 is over 4096 (4096 MiB x 1.0)',
        id='over the ratio of memory',
    ),
    pytest.param(
        {}, {'shared': {0}, 'memory': 5000}, MEMORY,
        '4096 of 5000 MiB', id='more memory than the node has',
    ),
    pytest.param(
        {}, {'shared': {0}, 'pagesize': 2048}, Code.PAGE_SIZE_MISSING,
        'no pages of 2 MiB', id='no such pages',
    ),
])  # fmt: skip
def test_it_does_not_fit(host, guest, code, text):
    cell = topologies.host_cell(**host)
    refused = pair.fit_pair(cell, topologies.guest_cell(**guest), STRICT, 0)
    assert isinstance(refused, Refused)
    assert (refused.code, refused.text) == (code, text)


def test_the_emulator_needs_a_cpu_more():
    cell, wanted = topologies.host_cell(), topologies.guest_cell(dedicated={0, 1, 2})
    assert pair.fit_pair(cell, wanted, None, 1).reserved == {3}
    refused = pair.fit_pair(cell, topologies.guest_cell(dedicated=range(4)), None, 1)
    assert refused.text == '4 of 5 dedicated CPUs'


def test_the_product_with_the_ratio_is_not_rounded():
    host = topologies.host_cell(memory=100, memory_usage=15, mempages=())
    wanted = topologies.guest_cell(shared={0}, memory=100)
    assert pair.fit_pair(host, wanted, Limits(1.0, 1.2), 0).id == 0
    refused = pair.fit_pair(host, wanted, Limits(1.0, 1.15), 0)
    assert refused.text == (
        'MiB used: 15 + 100 is over 114.99999999999999 (100 MiB x 1.15)'
    )


def test_without_limits_there_are_no_ratios():
    host = topologies.host_cell(cpu_usage=99, memory_usage=9999)
    assert pair.fit_pair(host, topologies.guest_cell(shared={0}), None, 0).id == 0


def test_how_far_a_guest_node_got_before_it_was_refused():
    host = topologies.host_cell(id=8, mempages=HUGE, cpu_usage=4)
    wanted = topologies.guest_cell(shared={0}, dedicated={1}, pagesize=LARGE)
    got, refused = pair.examine(host, wanted, STRICT, 0)
    assert refused.code is SHARED
    assert (got.id, got.pagesize, got.pinning) == (8, 2048, ((1, 0),))
