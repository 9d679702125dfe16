# SPDX-License-Identifier: Apache-2.0
"""Plans that ask several questions, on clouds in memory."""

from dataclasses import dataclass, replace

from novasched.db.servers import ServerRow
from novasched.inspection.questions import plan
from novasched.inspection.session import catalogue
from novasched.inspection.session.requests import RequestMaker
from novasched.inspection.session.servers import FoundServer
from tests.support.clouds import factories
from tests.support.clouds.dry_clouds import ALIAS, DryCloud, node
from tests.support.databases import fake_databases

FLAVOR = catalogue.flavor_of('vcpus=1,ram=512,disk=1,pci_passthrough:alias=nic:1')
FILTERS = ['ComputeFilter', 'PciPassthroughFilter']
OPTIONS = {'filter_scheduler': {'enabled_filters': FILTERS}, 'pci': {'alias': [ALIAS]}}


@dataclass
class Mover:
    """Makes requests to move servers of one flavor."""

    maker: RequestMaker

    def move(self, server, leaves):
        made = self.maker.boot(FLAVOR)
        request = made.request.replaced(ignore_hosts=[server.row.host])
        return replace(made, request=request, uuids=[server.uuid])


def devices(count):
    return {'pci_stats': factories.pools(count)}


def server_on(host):
    row = ServerRow(*[f'server of {host}', None, host, *[None] * 4, 512, 1, None])
    return FoundServer(row, fake_databases.cell('c1'))


def test_each_host_alone_may_have_the_last_device():
    full = [node(host, row=devices(0)) for host in ('h1', 'h2')]
    cloud = DryCloud((*full, node('h3', row=devices(1))), (), OPTIONS)
    servers = [server_on(host) for host in ('h1', 'h2')]
    with cloud.opened() as opened:
        asked = opened.run, Mover(opened.maker), servers, ['h1', 'h2']
        assert plan.drain(*asked).fits == 1
        for _ in range(2):
            assert plan.drain_one_of(*asked).fits == 2
        assert len(opened.run.log.records) == 6


def test_room_of_host_is_of_all_its_nodes():
    nodes = [node('h1', row=devices(count)) for count in (2, 3)]
    with DryCloud(tuple(nodes), (), OPTIONS).opened() as opened:
        [host] = plan.boot(opened.run, opened.maker.boot(FLAVOR)).hosts
        assert (host.servers, host.room) == (1, 4)


def test_tightest_flavor_counts_all_nodes_of_host():
    nodes = [node('h1', row=devices(count)) for count in (2, 3)]
    cloud = DryCloud((*nodes, node('h2', row=devices(0))), (), OPTIONS)
    with cloud.opened() as opened:
        asked = opened.run, Mover(opened.maker), [server_on('h2')], ['h2']
        assert plan.drain(*asked).tightest.slots == 4
