# SPDX-License-Identifier: Apache-2.0
"""A copy of placement that was read, and placement as it is read from."""

from __future__ import annotations

import pytest

from novasched.placement_copy.copy import CopyKeeper
from tests.support.clouds.fakes import FakeClock
from tests.unit.placement_copy.providers import FakeProviders


@pytest.fixture
def clock():
    return FakeClock()


@pytest.fixture
def store():
    return FakeProviders(a=4, b=4)


@pytest.fixture
def mirror(store, clock):
    made = CopyKeeper(store, clock, patience_s=20.0)
    made.keep_up()
    store.reads.clear()
    return made
