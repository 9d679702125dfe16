# SPDX-License-Identifier: Apache-2.0
"""A test hears itself only: servers of other files' tests may still be at work in the
process."""

import threading

import pytest


@pytest.fixture(autouse=True)
def threads_of_others():
    """The threads that were there before the test and what it uses."""
    return {*threading.enumerate()} - {threading.current_thread()}


@pytest.fixture
def caplog(caplog, threads_of_others):
    """What is logged, but for what the threads of others say."""

    def of_the_test(_):
        return threading.current_thread() not in threads_of_others

    caplog.handler.addFilter(of_the_test)
    yield caplog
    caplog.handler.removeFilter(of_the_test)
