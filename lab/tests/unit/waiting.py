# SPDX-License-Identifier: Apache-2.0
"""Waiting for what another thread does."""

import time


def soon(check, within_s=20):
    """Wait until a check holds; fail when it does not in time."""
    until = time.monotonic() + within_s
    while not check():
        assert time.monotonic() < until
        time.sleep(0.01)
