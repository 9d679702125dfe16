# SPDX-License-Identifier: Apache-2.0
"""Traits, aggregates and PCI devices that placement keeps hosts apart by."""

import contextlib
import json

import pytest

from tests.live.peer import PeerError
from tests.live.wire import primitive
from tests.support.tables.cases import cases

GOLD, SILVER = 'CUSTOM_GOLD', 'CUSTOM_SILVER'
NIC = 'CUSTOM_PCI_8086_1563'
ALIAS = {'vendor_id': '8086', 'product_id': '1563', 'dev_type': 'type-PCI'}
PROJECT = '6f70656e737461636b20444556204954'


@pytest.fixture
def marked(cloud, placement):
    """Give hosts traits: `with marked(**{host: [trait, ...]})`."""

    @contextlib.contextmanager
    def mark(**hosts):
        before = {}
        for host, traits in hosts.items():
            path = f'/resource_providers/{cloud.hosts[host].uuid}/traits'
            before[path] = found = placement.get(path)
            for trait in traits:
                placement.put(f'/traits/{trait}', None)
            placement.put(path, dict(found, traits=[*found['traits'], *traits]))
        try:
            yield
        finally:
            for path, found in before.items():
                placement.put(path, dict(placement.get(path), traits=found['traits']))

    return mark


@pytest.fixture
def with_metadata(cloud):
    """Give the aggregate of a zone metadata: `with with_metadata(zone, **values)`."""

    @contextlib.contextmanager
    def write(zone, values):
        number = cloud.zones.index(zone) + 1
        cloud.insert(
            'api',
            'aggregate_metadata',
            [
                {
                    'created_at': cloud.now(),
                    'aggregate_id': number,
                    'key': k,
                    'value': v,
                }
                for k, v in values.items()
            ],
        )
        try:
            yield
        finally:
            for key in values:
                cloud.delete('api', 'aggregate_metadata', aggregate_id=number, key=key)

    return write


class TestTraits:
    @cases(
        'specs, image, host',
        ('required', {f'trait:{GOLD}': 'required'}, {}, 'node-3'),
        ('forbidden', {f'trait:{SILVER}': 'forbidden'}, {}, 'node-2'),
        ('by the image', {}, {f'trait:{GOLD}': 'required'}, 'node-3'),
        (
            'one required, one forbidden',
            {f'trait:{GOLD}': 'required', f'trait:{SILVER}': 'forbidden'},
            {},
            'node-4',
        ),
    )
    def test_a_trait_of_the_host(self, scheduler, claims, marked, specs, image, host):
        traits = {'node-1': [SILVER], 'node-3': [GOLD], 'node-4': [GOLD]}
        if len(specs) == 2:
            traits['node-3'] = [GOLD, SILVER]
        with marked(**traits):
            reply = scheduler.select(flavor={'extra_specs': specs}, image=image)
        claims.expect(reply.uuid)
        assert reply.hosts == [host]

    def test_trait_of_no_host_finds_no_host(self, scheduler, placement, marked):
        placement.put(f'/traits/{GOLD}', None)
        specs = {f'trait:{GOLD}': 'required'}
        with pytest.raises(PeerError) as raised:
            scheduler.select(flavor={'extra_specs': specs})
        assert raised.value.name == 'NoValidHost'


@pytest.fixture(scope='module')
def keeping_apart(module_daemon):
    """A daemon that minds the aggregates of tenants, and those with traits."""
    options = {
        'limit_tenants_to_placement_aggregate': True,
        'enable_isolated_aggregate_filtering': True,
    }
    return module_daemon(scheduler=options)


class TestAggregates:
    def test_the_servers_of_a_zone_are_claimed_in_it(
        self, scheduler, cloud, placement, claims
    ):
        reply = scheduler.select(count=3, zone='az2', flavor={'vcpus': 12})
        claims.expect(*reply.uuids)
        assert set(reply.hosts) == {'node-3', 'node-4'}
        held = {p for uuid in reply.uuids for p in placement.allocations(uuid)}
        assert held == {cloud.hosts[name].uuid for name in ('node-3', 'node-4')}

    def test_a_tenant_has_an_aggregate_of_its_own(
        self, keeping_apart, claims, with_metadata
    ):
        with with_metadata('az2', {'filter_tenant_id': PROJECT}):
            reply = keeping_apart.select()
        again = keeping_apart.select()
        claims.expect(reply.uuid, again.uuid)
        assert (reply.hosts, again.hosts) == (['node-3'], ['node-1'])

    def test_an_aggregate_with_traits_is_kept_for_who_asks_for_them(
        self, keeping_apart, claims, with_metadata, marked
    ):
        asking = {'extra_specs': {f'trait:{GOLD}': 'required'}}
        isolated = with_metadata('az1', {f'trait:{GOLD}': 'required'})
        with isolated, marked(**{'node-1': [GOLD], 'node-2': [GOLD]}):
            plain, gold = keeping_apart.select(), keeping_apart.select(flavor=asking)
        claims.expect(plain.uuid, gold.uuid)
        assert (plain.hosts, gold.hosts) == (['node-3'], ['node-1'])


class TestDevices:
    @pytest.fixture
    def nics(self, cloud, tree):
        """A device each on node-2 and node-3, as the computes and placement have it."""
        made = {}
        for host in ('node-2', 'node-3'):
            uuid = tree.add(f'{host}_0000:81:00.0', host, ['OWNER_NOVA'], **{NIC: 1})
            made[host] = uuid
            self._report(cloud, host, [_pool(uuid)])
        yield made
        for host in made:
            self._report(cloud, host, [])

    @staticmethod
    def _report(cloud, host, pools):
        found = primitive('PciDevicePoolList', '1.1', objects=pools)
        change = {'pci_stats': json.dumps(found), 'updated_at': cloud.now()}
        cloud.update(cloud.hosts[host].cell, 'compute_nodes', change, host=host)

    def test_a_device_is_claimed_with_its_provider(
        self, scheduler, cloud, placement, nics
    ):
        reply = scheduler.select(devices=[ALIAS])
        assert reply.hosts == ['node-2']
        held = placement.allocations(reply.uuid)
        assert held.pop(cloud.hosts['node-2'].uuid)
        assert held == {nics['node-2']: {NIC: 1}}
        request = json.loads(reply.best[0]['allocation_request'])
        assert [nics['node-2']] in request['mappings'].values()

    def test_a_device_that_is_taken_is_not_offered(self, scheduler, placement, nics):
        replies = [scheduler.select(devices=[ALIAS]) for _ in nics]
        assert [reply.hosts for reply in replies] == [['node-2'], ['node-3']]
        with pytest.raises(PeerError) as raised:
            scheduler.select(devices=[ALIAS])
        assert raised.value.name == 'NoValidHost'

    def test_the_servers_of_one_request_get_a_device_each(
        self, scheduler, placement, nics
    ):
        reply = scheduler.select(count=2, devices=[ALIAS])
        assert sorted(reply.hosts) == ['node-2', 'node-3']
        held = {p for uuid in reply.uuids for p in placement.allocations(uuid)}
        assert held >= set(nics.values())


def _pool(rp_uuid):
    tags = {'dev_type': 'type-PCI', 'rp_uuid': rp_uuid, 'resource_class': NIC}
    return primitive(
        'PciDevicePool',
        '1.1',
        product_id='1563',
        vendor_id='8086',
        numa_node=0,
        tags=tags,
        count=1,
    )
