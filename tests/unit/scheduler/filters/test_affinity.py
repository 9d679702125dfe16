# SPDX-License-Identifier: Apache-2.0
"""Instances are kept apart or together, and near an address."""

import ipaddress

import netaddr
import pytest

from novasched import errors
from novasched.objects.instance_group import InstanceGroup
from novasched.scheduler.filters.affinity import (
    DifferentHostFilter,
    GroupAffinityFilter,
    GroupAntiAffinityFilter,
    SameHostFilter,
    ServerGroupAffinityFilter,
    ServerGroupAntiAffinityFilter,
    SimpleCIDRAffinityFilter,
    _GroupHostsFilter,
)
from novasched.scheduler.reasons import REJECTED, Code
from tests.support.clouds import factories
from tests.support.tables.cases import cases
from tests.support.tables.verdicts import assert_verdict

ANTI = ServerGroupAntiAffinityFilter()
TOGETHER = ServerGroupAffinityFilter()
ME = 'U1'


def passes(filter_, hosts, group):
    request = factories.request(instance_uuid=ME, instance_group=group)
    return filter_.apply(hosts, request).host.tolist() == hosts.host.tolist()


def limited_to(limit, *members):
    return factories.group(members=list(members), max_server_per_host=limit)


@cases(
    'group, running, expected',
    ('another policy', factories.group('affinity', ['U5']), ['U5'], True),
    ('soft', factories.group('soft-anti-affinity', ['U5']), ['U5'], True),
    ('no group', None, ['U5', 'U6'], True),
    ('no member here', factories.group(members=['U8']), ['U5', 'U6'], True),
    ('a member here', factories.group(members=['U5']), ['U5', 'U6'], False),
    ('below the limit', limited_to(3, 'U5', 'U6'), ['U5', 'U6'], True),
    ('at the limit', limited_to(2, 'U5', 'U6'), ['U5', 'U6'], False),
    ('here itself', factories.group(members=[ME, 'U5']), [ME, 'U5'], True),
    ('a limit of none', limited_to(0), [], False),
    ('below none', limited_to(-1), ['U5'], False),
    ('a limit of none, here itself', limited_to(0), [ME], True),
    ('not yet a member', factories.group(members=['U5']), [ME, 'U5'], True),
)
def test_anti_affinity(group, running, expected):
    hosts = factories.hosts(instances=[dict.fromkeys(running)])
    assert passes(ANTI, hosts, group) is expected


def test_a_limit_that_is_no_number_is_an_invalid_request():
    hosts = factories.hosts(1)
    with pytest.raises(errors.InvalidRequest):
        passes(ANTI, hosts, factories.group(max_server_per_host='two'))


def test_a_host_that_has_the_instance_needs_no_limit():
    hosts = factories.hosts(instances=[{ME: None}])
    assert passes(ANTI, hosts, factories.group(max_server_per_host='two'))


@cases(
    'group, host, expected',
    ('no group', None, 'h3', True),
    ('apart', factories.group('anti-affinity', hosts=['h1']), 'h3', True),
    ('soft', factories.group('soft-affinity', hosts=['h1']), 'h3', True),
    ('nowhere yet', factories.group('affinity'), 'h3', True),
    ('here', factories.group('affinity', hosts=['h1', 'h2']), 'h1', True),
    ('elsewhere', factories.group('affinity', hosts=['h1', 'h2']), 'h3', False),
    ('case counts', factories.group('affinity', hosts=['h1', 'h2']), 'H1', False),
)
def test_affinity(group, host, expected):
    assert passes(TOGETHER, factories.hosts(host=[host]), group) is expected


def test_a_group_of_old_has_only_its_policy():
    group = InstanceGroup(policy='affinity', hosts=['h1'])
    assert not passes(TOGETHER, factories.hosts(host=['h3']), group)


class Apart(ServerGroupAntiAffinityFilter):
    policy_name = 'apart'


class Together(_GroupHostsFilter):
    policy_name = 'together'


@cases(
    'filter_, policy, expected',
    ('apart', Apart(), 'apart', False),
    ('apart, another policy', Apart(), 'anti-affinity', True),
    ('together', Together(), 'together', False),
    ('together, another policy', Together(), 'affinity', True),
)
def test_a_subclass_may_be_for_another_policy(filter_, policy, expected):
    hosts = factories.hosts(instances=[{'U5': None}])
    group = InstanceGroup(
        policy=policy, policies=[policy], members=['U5'], hosts=['h9'], _rules={}
    )
    assert passes(filter_, hosts, group) is expected


@pytest.mark.parametrize(('filter_', 'group', 'reason'), [
    (ANTI, factories.group(members=['U5']),
     (Code.GROUP_LIMIT, '1 member of the group, limit 1')),
    (ANTI, None, REJECTED),
    (TOGETHER, factories.group('affinity', hosts=['b', 'a']),
     (Code.NOT_IN_GROUP, 'the group is on a, b')),
    (TOGETHER, None, REJECTED),
])  # fmt: skip
def test_why_of_groups(filter_, group, reason):
    host = factories.hosts(instances=[{'U5': None, 'U6': None}]).state(0)
    assert filter_.why(host, factories.request(instance_group=group)) == reason


@cases(
    'hint, different, same',
    ('no hint', None, True, True),
    ('an empty hint', [], True, True),
    ('an empty text', [''], True, True),
    ('here', ['U5'], False, True),
    ('not here', ['U7'], True, False),
    ('one of them here', ['U7', 'U6'], False, True),
)
def test_different_and_same_host(hint, different, same):
    hosts = factories.hosts(instances=[{'U5': None, 'U6': None}])
    hints = {} if hint is None else {'different_host': hint, 'same_host': hint}
    request = factories.request(scheduler_hints=hints)
    assert_verdict(DifferentHostFilter(), hosts, request, different)
    assert_verdict(SameHostFilter(), hosts, request, same)


@pytest.mark.parametrize(
    ('filter_', 'hint', 'code', 'text'),
    [
        (DifferentHostFilter(), 'different_host', Code.INSTANCE_PRESENT, 'runs U6'),
        (SameHostFilter(), 'same_host', Code.INSTANCE_ABSENT, 'runs none of U7, U6'),
    ],
)
def test_why_of_hosts(filter_, hint, code, text):
    host = factories.hosts(instances=[{'U5': None, 'U6': None}]).state(0)
    request = factories.request(scheduler_hints={hint: ['U7', 'U6']})
    assert filter_.why(host, request) == (code, text)


def test_the_reason_names_some_of_many_instances():
    host = factories.hosts(1).state(0)
    request = factories.request(scheduler_hints={'same_host': ['U'] * 1000})
    text = SameHostFilter().why(host, request).text
    assert text == f'runs none of {", ".join(["U"] * 20)} and 980 more'


NEAR = SimpleCIDRAffinityFilter()


def near(address=None, cidr=None):
    hints = {'build_near_host_ip': address, 'cidr': cidr}
    given = {name: [hint] for name, hint in hints.items() if hint is not None}
    return factories.request(scheduler_hints=given)


def host_at(address):
    return factories.hosts(host_ip=[address and ipaddress.ip_address(address)])


@cases(
    'address, request_, expected',
    ('near', '192.168.1.12', near('192.168.1.1'), True),
    ('far', '192.168.2.12', near('192.168.1.1'), False),
    ('wider', '192.168.2.12', near('192.168.1.1', '/16'), True),
    ('no address hint', '192.168.2.12', near(None, '/32'), True),
    ('no hint, no address', None, near(), True),
    ('without the slash', '192.168.1.12', near('192.168.1.1', '24'), False),
    ('a single address', '10.0.0.5', near('10.0.0.1', ''), False),
    ('that very address', '10.0.0.1', near('10.0.0.1', ''), True),
    ('version 6', 'fd00::5', near('fd00::1', '/64'), True),
    ('another version', '10.0.0.5', near('fd00::1'), False),
)
def test_near_an_address(address, request_, expected):
    assert_verdict(NEAR, host_at(address), request_, expected)


def test_addresses_of_nova_are_understood():
    hosts = factories.hosts(host_ip=[netaddr.IPAddress('192.168.1.12')])
    assert_verdict(NEAR, hosts, near('192.168.1.1'), True)


@cases(
    'address, request_, error',
    ('no network', '192.168.1.12', near('192.168.1.1', 'bad'), netaddr.AddrFormatError),
    ('a host without one', None, near('192.168.1.1'), TypeError),
)
def test_nonsense_raises_as_in_nova(address, request_, error):
    with pytest.raises(error):
        NEAR.apply(host_at(address), request_)


def test_invalid_hint_is_unread_without_hosts():
    assert not len(NEAR.apply(factories.hosts(0), near('192.168.1.1', 'bad')))


def test_why_of_networks():
    reason = NEAR.why(host_at('10.0.0.5').state(0), near('10.1.0.1', '/16'))
    assert reason == (Code.WRONG_NETWORK, '10.0.0.5 is not in 10.1.0.1/16')


@cases(
    'group, host, together, apart',
    ('no group', None, 'h1', True, True),
    ('of today', factories.group('affinity', hosts=['h1']), 'h3', True, True),
    ('nowhere yet', factories.group('legacy'), 'h1', True, True),
    ('here', factories.group('legacy', hosts=['h1', 'h2']), 'h1', True, False),
    ('elsewhere', factories.group('legacy', hosts=['h1']), 'h3', False, True),
)
def test_groups_of_old(group, host, together, apart):
    hosts = factories.hosts(host=[host])
    assert passes(GroupAffinityFilter(), hosts, group) is together
    assert passes(GroupAntiAffinityFilter(), hosts, group) is apart


@pytest.mark.parametrize(
    ('filter_', 'code'),
    [
        (GroupAffinityFilter(), Code.NOT_IN_GROUP),
        (GroupAntiAffinityFilter(), Code.GROUP_LIMIT),
    ],
)
def test_why_groups_of_old(filter_, code):
    host = factories.hosts(1).state(0)
    request = factories.request(instance_group=factories.group('legacy', hosts=['h2']))
    assert filter_.why(host, request) == (code, 'the group is on h2')
    assert filter_.why(host, factories.request()) == REJECTED
