# SPDX-License-Identifier: Apache-2.0
"""A change to conditions gives the hosts that meet all the others."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from novasched.scheduler.nearest import nearest

HOSTS = 6


@st.composite
def conditions(draw):
    row = st.lists(st.booleans(), min_size=HOSTS, max_size=HOSTS)
    rows = draw(st.lists(row, min_size=1, max_size=6))
    return {f'c{place}': np.array(each, bool) for place, each in enumerate(rows)}


@given(conditions())
def test_the_hosts_of_a_change_meet_all_other_conditions(met):
    names = [str(place) for place in range(HOSTS)]
    already = np.logical_and.reduce([*met.values()])
    found = nearest(met, names, most=100)
    for change in found:
        others = [mask for name, mask in met.items() if name not in change.conditions]
        fits = np.logical_and.reduce([np.ones(HOSTS, bool), *others]) & ~already
        if len(change.conditions) == 1:
            assert change.hosts == fits.sum()
        assert all(fits[int(name)] for name in change.names)
    singles = {each.conditions[0] for each in found if len(each.conditions) == 1}
    gives = [
        name for name in met
        if (np.logical_and.reduce([np.ones(HOSTS, bool),
            *(m for n, m in met.items() if n != name)]) & ~already).any()
    ]  # fmt: skip
    assert singles >= set(gives)
    assert [each.hosts for each in found] == sorted(
        (each.hosts for each in found), reverse=True
    )
