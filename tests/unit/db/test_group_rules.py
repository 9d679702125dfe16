# SPDX-License-Identifier: Apache-2.0
"""The rules of a server group's policy, as text."""

from __future__ import annotations

import pytest

from novasched.db import servers


@pytest.mark.parametrize(
    ('text', 'rules'),
    [
        pytest.param(
            '{"max_server_per_host": "2"}', {'max_server_per_host': '2'}, id='text'
        ),
        pytest.param(
            '{"max_server_per_host": 2}', {'max_server_per_host': '2'}, id='number'
        ),
        pytest.param('{}', {}, id='none'),
        pytest.param(None, {}, id='null'),
        pytest.param('', {}, id='empty'),
        pytest.param('[1]', {}, id='not an object'),
        pytest.param('{', {}, id='not JSON'),
    ],
)
def test_rules_from_text(text, rules):
    assert servers.rules_from_text(text) == rules
