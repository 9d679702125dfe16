# SPDX-License-Identifier: Apache-2.0
"""A unit test hears itself only: servers of other files' tests may still be at work in
the process."""

from __future__ import annotations

import threading

import pytest


@pytest.fixture
def caplog(caplog):
    """What is logged, but for what threads say that were there before the test."""
    before = {*threading.enumerate()} - {threading.current_thread()}

    def of_the_test(_):
        return threading.current_thread() not in before

    caplog.handler.addFilter(of_the_test)
    yield caplog
    caplog.handler.removeFilter(of_the_test)
