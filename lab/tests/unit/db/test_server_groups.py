# SPDX-License-Identifier: Apache-2.0
"""Server groups, as the API keeps them."""

import pytest

from novasched_lab.db import server_tables
from novasched_lab.db.api_servers import ServerGroups

RULES = {'max_server_per_host': '2'}


@pytest.fixture
def groups(databases):
    return ServerGroups(databases.api)


def test_a_group_is_kept_with_policy_and_rules(groups, databases):
    made = groups.create('web', 'anti-affinity', RULES, 'project', 'user')
    assert groups.find('web', 'project') == made
    assert groups.find(made.uuid, 'another') == made
    assert groups.find('web', 'another') is None
    (policy,) = databases.rows(server_tables.instance_group_policy)
    assert policy['rules'] == '{"max_server_per_host": "2"}'


def test_members_join_and_leave(groups):
    made = groups.create('web', 'affinity', {}, 'project', 'user')
    joined = groups.join(made, ['a', 'b', 'c'])
    assert joined.members == ('a', 'b', 'c')
    groups.leave(['b'])
    assert groups.find('web', 'project').members == ('a', 'c')
