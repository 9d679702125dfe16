# SPDX-License-Identifier: Apache-2.0
"""What a policy says of the CPUs of a guest node."""

from __future__ import annotations

import dataclasses

import pytest

from tests import topologies


@pytest.mark.parametrize(
    ('policy', 'pins', 'shares'),
    [
        pytest.param(None, False, True, id='no policy: all are shared'),
        pytest.param('shared', False, True, id='shared'),
        pytest.param('dedicated', True, False, id='dedicated'),
        pytest.param('mixed', True, True, id='some of both'),
    ],
)
def test_whose_the_cpus_are(policy, pins, shares):
    cell = topologies.guest_cell(shared={0}, dedicated={1}, cpu_policy=policy)
    assert (cell.pins, cell.shares) == (pins, shares)


def test_guests_are_values():
    one, other = (topologies.guest(topologies.guest_cell(shared={0})) for _ in range(2))
    assert one == other
    assert len({one, other}) == 1
    assert one != dataclasses.replace(one, isolates_emulator=True)
    with pytest.raises(dataclasses.FrozenInstanceError):
        one.cells = ()
