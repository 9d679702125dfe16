# SPDX-License-Identifier: Apache-2.0
"""A recorder that tells what it was given."""

import pytest

from tests.unit.observability.recorder import FakeRecorder


@pytest.fixture
def recorder():
    return FakeRecorder()
