# SPDX-License-Identifier: Apache-2.0
"""Requests with ports and routed networks: Neutron over HTTP, the real placement."""

import pytest
from keystoneauth1 import loading

from novasched import errors
from novasched.external.network import NetworkClient
from novasched.objects.context import RequestContext
from novasched.objects.network import NetworkRequest, NetworkRequestList
from novasched_lab.resource_providers import Provider, provide
from tests.functional.conftest import Host, named_uuid, new_uuids
from tests.functional.neutron import Neutron
from tests.support.clouds.fakes import FakeCaller
from tests.support.tables.cases import cases

HOSTS = [Host('h1', zone='rack1'), Host('h2', zone='rack2'), Host('h3', zone='rack3')]
ROUTED = {'scheduler': {'query_placement_for_routed_network_aggregates': True}}
NETWORK, SUBNET, SEGMENT, PORT = (
    named_uuid(name) for name in ('network', 'subnet', 'segment', 'port')
)
PATIENCE_S = 1


@pytest.fixture
def neutron():
    with Neutron() as server:
        yield server


@pytest.fixture
def schedulers(cloud, neutron):
    """Return a maker of a cloud and of a scheduler in it that can ask Neutron."""
    opened = []

    def make(patience_s=60, **options):
        made = cloud(HOSTS, **options)
        plugin = loading.get_auth_plugin_conf_options('admin_token')
        made.conf.register_opts(plugin, 'neutron')
        for name, value in {
            'auth_type': 'admin_token',
            'endpoint': neutron.url,
            'token': 'own',
            'http_retries': 0,
            'timeout': patience_s,
        }.items():
            made.conf.set_override(name, value, 'neutron')
        opened.append(NetworkClient.from_conf(made.conf))
        return made, made.compose(network=opened[-1])

    yield make
    for client in opened:
        client.close()


@pytest.fixture
def user(neutron):
    """The context of a user, who has a token and a catalog."""
    catalog = [{'type': 'network', 'endpoints': [{'publicURL': neutron.url}]}]
    return RequestContext(auth_token='users', service_catalog=catalog, overwrite=False)


def place(cloud, scheduler, context, *networks, caller=None):
    """Ask for one instance on these networks; return the name of its host."""
    asked = [NetworkRequest(**network) for network in networks]
    request = cloud.request(requested_networks=NetworkRequestList(objects=asked))
    ((selection, *_),) = scheduler.manager.select_destinations(
        context, request, new_uuids(), True, False, caller
    )
    return selection.service_host


def have(cloud, host, trait):
    """Let the provider of a host have one trait more."""
    there = cloud.placement.of(cloud.hosts[host].uuid, 'traits')
    cloud.change(host, 'traits', [*there, trait])


def segment(cloud, *zones):
    """Make the provider of a segment that these zones reach."""
    aggregates = frozenset(named_uuid(zone) for zone in zones)
    provide(cloud.adapter, [Provider(SEGMENT, 'segment', {}, frozenset(), aggregates)])


@cases(
    'network, asked',
    (
        'a network',
        {'network_id': NETWORK},
        [('own', f'/v2.0/subnets?network_id={NETWORK}&fields=segment_id')],
    ),
    (
        'a port with an address',
        {'port_id': PORT},
        [('users', f'/v2.0/ports/{PORT}'), ('own', f'/v2.0/subnets/{SUBNET}')],
    ),
)
def test_a_host_that_reaches_the_segment_is_found(
    schedulers, neutron, user, network, asked
):
    cloud, scheduler = schedulers(**ROUTED)
    neutron.add_subnet(SUBNET, NETWORK, SEGMENT)
    neutron.add_port(PORT, network=NETWORK, subnet=SUBNET)
    segment(cloud, 'rack2')
    assert place(cloud, scheduler, user, network) == 'h2'
    assert neutron.asked == asked


@pytest.mark.parametrize('known', [True, False])
def test_a_segment_that_no_host_reaches(schedulers, neutron, user, known):
    cloud, scheduler = schedulers(**ROUTED)
    neutron.add_subnet(SUBNET, NETWORK, SEGMENT)
    if known:
        segment(cloud)
    with pytest.raises(errors.NoValidHost) as raised:
        place(cloud, scheduler, user, {'network_id': NETWORK})
    assert str(raised.value) == (
        'No valid host was found. Scheduling failed: Aggregates not found for the '
        f'network {NETWORK}'
    )


def test_by_default_only_ports_are_looked_up(schedulers, neutron, user):
    cloud, scheduler = schedulers()
    neutron.add_port(PORT, network=NETWORK, subnet=SUBNET)
    place(cloud, scheduler, user, {'network_id': NETWORK}, {'port_id': PORT})
    assert neutron.asked == [('users', f'/v2.0/ports/{PORT}')]


def test_remote_managed_ports_go_where_they_can_be_plugged(schedulers, neutron, user):
    cloud, scheduler = schedulers()
    neutron.add_port(PORT, 'remote-managed', NETWORK)
    have(cloud, 'h3', 'COMPUTE_REMOTE_MANAGED_PORTS')
    assert place(cloud, scheduler, user, {'port_id': PORT}) == 'h3'


@cases(
    'network',
    ('a network', {'network_id': NETWORK}),
    ('a port with an address', {'port_id': PORT}),
)
def test_a_neutron_that_is_away_is_waited_for(schedulers, neutron, user, network):
    cloud, scheduler = schedulers(**ROUTED, novasched={'outage_patience': 30})
    neutron.add_subnet(SUBNET, NETWORK, SEGMENT)
    neutron.add_port(PORT, network=NETWORK, subnet=SUBNET)
    segment(cloud, 'rack2')
    neutron.failing = 2
    assert place(cloud, scheduler, user, network, caller=FakeCaller()) == 'h2'
    assert neutron.failing == 0


def test_a_neutron_that_is_silent_is_not_waited_for(schedulers, neutron, user):
    cloud, scheduler = schedulers(PATIENCE_S)
    neutron.hold = True
    with pytest.raises(errors.NetworkFailed):
        place(cloud, scheduler, user, {'port_id': PORT})
    assert cloud.held() == {}
