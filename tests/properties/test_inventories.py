# SPDX-License-Identifier: Apache-2.0
"""Which amounts an inventory gives, by placement's own formula."""

import dataclasses

import numpy as np
from hypothesis import example, given
from hypothesis import strategies as st

from novasched.providers.contents import MOST, NOTHING, build, unpaired

LARGEST = 2**31 - 1
ANY = st.integers(-LARGEST - 1, LARGEST) | st.integers(-9, 9)
RATIOS = st.floats() | st.floats(0, 20) | st.sampled_from([1.0, 1.5, 0.7, 1 / 3])


@given(
    numbers=st.tuples(ANY, ANY, ANY, ANY, ANY),
    ratio=RATIOS,
    used=st.integers(0, 2**63 - 1) | st.integers(0, 9),
    amount=st.integers(1, LARGEST) | st.integers(1, 9),
)
@example((8, 0, 1, 8, 0), 1.0, 0, 8)
@example((0, 0, 1, 8, 1), float('inf'), 0, 1)
@example((8, 0, 1, 8, 1), float('nan'), 0, 1)
@example((-8, 0, 1, 8, 1), 1e308, 2**63 - 1, 1)
def test_an_amount_fits_where_placement_says_so(numbers, ratio, used, amount):
    total, reserved, min_unit, max_unit, step_size = numbers
    contents = dataclasses.replace(
        NOTHING,
        providers=np.array([[1, 0, 1, 0]]),
        inventories=np.array([[1, 0, *numbers, ratio, ratio]], float),
        usage=np.array([[1, 0, used]]),
        uuids={1: 'p1'},
        class_names={0: 'VCPU'},
    )
    inventory = build(contents).inventories['VCPU']
    room = (total - reserved) * ratio  # NaN of an endless ratio of nothing: none
    fits = (
        min_unit <= amount <= max_unit
        and step_size != 0
        and amount % step_size == 0
        and used + amount <= min(room, MOST)
    )
    assert len(inventory.fitting(amount)) == fits
    assert not len(unpaired(contents.inventories, contents.inventories))
