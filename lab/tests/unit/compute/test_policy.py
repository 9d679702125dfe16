# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import types

import pytest

from novasched_lab.compute import policy
from tests import factories


class Servers:
    """Instances of a cell, by the host of each."""

    def __init__(self, **hosts):
        self._hosts = hosts

    def instances(self, uuids):
        return [
            types.SimpleNamespace(uuid=uuid, host=self._hosts[uuid])
            for uuid in uuids
            if uuid in self._hosts
        ]


def request(group):
    return factories.request(instance_group=group)


@pytest.mark.parametrize(
    ('kind', 'rules', 'hosts', 'violates'),
    [
        pytest.param('anti-affinity', {}, {}, False, id='the first of its group'),
        pytest.param('anti-affinity', {}, {'a': 'h2'}, False, id='another elsewhere'),
        pytest.param('anti-affinity', {}, {'a': 'h1'}, True, id='another here'),
        pytest.param('anti-affinity', {}, {'a': None}, False, id='another nowhere yet'),
        pytest.param(
            'anti-affinity',
            {'max_server_per_host': 2},
            {'a': 'h1'},
            False,
            id='two may be here',
        ),
        pytest.param(
            'anti-affinity',
            {'max_server_per_host': 2},
            {'a': 'h1', 'b': 'h1'},
            True,
            id='two are here already',
        ),
        pytest.param('affinity', {}, {'a': 'h1'}, False, id='together with another'),
        pytest.param('affinity', {}, {'a': 'h2'}, True, id='apart from another'),
        pytest.param('soft-anti-affinity', {}, {'a': 'h1'}, False, id='a soft policy'),
    ],
)
def test_late_check(kind, rules, hosts, violates):
    group = factories.group(policy=kind, members=['u', 'a', 'b'], **rules)
    servers = Servers(u='h1', **hosts)
    if not violates:
        policy.check(servers, 'h1', 'u', request(group))
        return
    with pytest.raises(policy.PolicyViolated, match='violated'):
        policy.check(servers, 'h1', 'u', request(group))


def test_no_group():
    policy.check(Servers(), 'h1', 'u', request(None))
