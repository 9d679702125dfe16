# SPDX-License-Identifier: Apache-2.0
"""What a filter must decide; a failure names the filter, the hosts and the reasons."""

from novasched.testing import assert_passes, assert_rejects


def assert_verdict(filter_, hosts, request, passes):
    """Assert that a filter passes all hosts, or that it rejects all."""
    check = assert_passes if passes else assert_rejects
    check(filter_, hosts, request)
