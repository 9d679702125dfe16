# SPDX-License-Identifier: Apache-2.0
"""The operator's choices reach the search."""

import pytest

from novasched.scheduler.fit.fitting import Fitting
from novasched.scheduler.fit.parse import HostTopology
from novasched.scheduler.fit.requirements import guest_of
from novasched.scheduler.fit.topology import ANY
from tests.support.clouds.configuration import make_conf
from tests.support.clouds.factories import (
    guest_cell,
    guest_topology,
    numa_cell,
    numa_topology,
)

HUGE = 1048576


def configured(**options):
    conf = make_conf()
    for group, (name, value) in options.items():
        conf.set_override(name, value, group)
    return Fitting.from_conf(conf)


def test_the_emptiest_node_is_right_by_default():
    assert configured() == Fitting(pack=False, as_nova=False)


def test_both_can_be_chosen():
    packing = 'packing_host_numa_cells_allocation_strategy'
    chosen = configured(compute=(packing, True), novasched=('numa_compat', 'nova'))
    assert chosen == Fitting(pack=True, as_nova=True)
    with pytest.raises(ValueError):
        configured(novasched=('numa_compat', 'both'))


@pytest.mark.parametrize(('pack', 'taken'), [(False, 1), (True, 0)])
def test_the_fullest_or_the_emptiest_node_is_tried_first(pack, taken):
    busy, idle = numa_cell(0, range(4), cpu_usage=3), numa_cell(1, range(4, 8))
    cells = HostTopology(numa_topology(busy, idle)).cells
    guest = guest_of(guest_topology(guest_cell()))
    attempt = Fitting(pack).attempt(cells, guest, None, None)
    assert [cell.id for cell in attempt.guest.cells] == [taken]


@pytest.mark.parametrize(('as_nova', 'pagesize'), [(False, ANY), (True, HUGE)])
def test_only_for_nova_a_page_size_stays_with_a_guest_that_failed(as_nova, pagesize):
    # The page size is found, and then there are too few CPUs.
    cells = HostTopology(numa_topology(numa_cell(pages={HUGE: 1}))).cells
    guest = guest_of(guest_topology(guest_cell(cpus=range(9), pagesize=ANY)))
    attempt = Fitting(as_nova=as_nova).attempt(cells, guest, None, None)
    assert not attempt.fits
    assert [cell.pagesize for cell in attempt.guest.cells] == [pagesize]
