# SPDX-License-Identifier: Apache-2.0
"""The rules of a server group's policy, as text."""

from novasched.db import server_groups
from tests.support.tables.cases import cases


@cases(
    ('text', 'rules'),
    ('text', '{"max_server_per_host": "2"}', {'max_server_per_host': '2'}),
    ('number', '{"max_server_per_host": 2}', {'max_server_per_host': '2'}),
    ('none', '{}', {}),
    ('null', None, {}),
    ('empty', '', {}),
    ('not an object', '[1]', {}),
    ('not JSON', '{', {}),
)
def test_rules_from_text(text, rules):
    assert server_groups.rules_from_text(text) == rules
