# SPDX-License-Identifier: Apache-2.0
"""Combinations of which all but one are for `tools/test --all`; docs/testing.md."""

import pytest

_POSTGRES = pytest.param(
    'postgres', marks=pytest.mark.exhaustive('the other database server')
)
_EVENTLET = pytest.param(
    'eventlet', marks=pytest.mark.exhaustive('the other concurrency backend')
)
SERVERS = ('mariadb', _POSTGRES)
BACKENDS = ('threading', _EVENTLET)
