# SPDX-License-Identifier: Apache-2.0
"""Zones by host, for plugins that ask nova's functions."""

from types import SimpleNamespace

from novasched.compat import availability_zones, plugin_adapter
from novasched.scheduler.filters import BaseHostFilter
from tests.support.clouds import factories

FUNCTIONS = availability_zones.functions(SimpleNamespace(default_availability_zone='d'))
zone_of = FUNCTIONS['get_host_availability_zone']


class SameZone(BaseHostFilter):
    """Pass hosts of the zones of the members of the group."""

    def host_passes(self, host_state, spec_obj):
        members = {zone_of(None, host) for host in spec_obj.instance_group.hosts}
        return zone_of(None, host_state.host) in members


def test_zones_come_from_the_current_decision_for_all_hosts():
    one, two = (factories.aggregate(n, availability_zone=f'az{n}') for n in (1, 2))
    hosts = factories.hosts(
        host=['h1', 'h2', 'h3', 'h4'], aggregates=[(one,), (two,), (one,), ()]
    )
    request = factories.request(instance_group=factories.group(hosts=['h1']))
    filter_ = plugin_adapter.adapted(SameZone())
    passed = filter_.apply(hosts[hosts.host != 'h1'], request)
    assert passed.host.tolist() == ['h3']


def test_outside_of_a_decision_there_is_the_default():
    assert zone_of(None, 'h1') == 'd'
    instance = {'host': None, 'availability_zone': 'z'}
    assert FUNCTIONS['get_instance_availability_zone'](None, instance) == 'z'
    instance = {'host': 'h1', 'availability_zone': 'z'}
    assert FUNCTIONS['get_instance_availability_zone'](None, instance) == 'd'
    assert FUNCTIONS['reset_cache']() is None
