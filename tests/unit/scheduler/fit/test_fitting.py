# SPDX-License-Identifier: Apache-2.0
"""The operator's choices reach the search."""

import pytest

from novasched.scheduler.fit.fitting import Fitting
from tests.support.clouds.configuration import make_conf

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
