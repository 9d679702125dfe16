# SPDX-License-Identifier: Apache-2.0
"""Waiting for what another thread does."""

import time


def eventually(check, within_s=60):
    """Wait until a check holds; fail when it does not in time."""
    until_s = time.monotonic() + within_s
    while not check():
        assert time.monotonic() < until_s
        time.sleep(0.005)
