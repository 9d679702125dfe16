# SPDX-License-Identifier: Apache-2.0
"""What many unit tests are given, who hear what their own threads say."""

import threading

import pytest

from tests.support.clouds.configuration import make_conf
from tests.support.clouds.fakes import FakeClock
from tests.support.suite.own_logs import caplog, threads_of_others

__all__ = ['caplog', 'threads_of_others']


@pytest.fixture
def conf():
    """The configuration of an empty file."""
    return make_conf()


@pytest.fixture
def clock():
    return FakeClock()


@pytest.fixture
def gate():
    """What calls wait for that are to hang; it opens at the end."""
    event = threading.Event()
    yield event
    event.set()
