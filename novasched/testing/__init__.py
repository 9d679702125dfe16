# SPDX-License-Identifier: Apache-2.0
"""Hosts, requests and checks for the tests of filters and weighers.

Hosts and requests are valid by default: a test says what matters to it. There is need
of no test framework, server or configuration file. See docs/plugins.md.
"""

from __future__ import annotations

from novasched.testing.checks import (
    Weights,
    assert_passes,
    assert_rejects,
    load,
    rejections,
    weigh,
)
from novasched.testing.hosts import aggregate, hosts, objects
from novasched.testing.requests import INSTANCE, destination, group, request

__all__ = [
    'INSTANCE',
    'Weights',
    'aggregate',
    'assert_passes',
    'assert_rejects',
    'destination',
    'group',
    'hosts',
    'load',
    'objects',
    'rejections',
    'request',
    'weigh',
]
