# SPDX-License-Identifier: Apache-2.0
"""A conductor and a scheduler on databases and the real placement.

Computes are played: they keep what they are told.
"""

from __future__ import annotations

import threading

import pytest

from novasched.db import engines, tables
from novasched.inspection.server_request import request_spec
from novasched.objects.context import RequestContext
from novasched.rpc.serializer import decode
from novasched_lab import opts, rpc_api
from novasched_lab.api.new_instance import instance_of
from novasched_lab.cells import Brokers
from novasched_lab.conductor import service
from novasched_lab.db import server_tables
from novasched_lab.db.api_servers import ApiServers
from novasched_lab.db.cell_servers import CellServers
from tests import factories
from tests.functional.conftest import Host, new_uuids
from tests.live.servers.process import wait_until

THREE = [Host('h1', memory_mb=9000), Host('h2', memory_mb=8500), Host('h3', 'cell2')]
CONTEXT = {'user_id': 'user', 'project_id': 'project', 'overwrite': False}


class Hypervisors:
    """Keeps what computes are told, as (method, host, arguments)."""

    target = rpc_api.COMPUTE_TARGET

    def __init__(self):
        self.told = []
        self._lock = threading.Lock()

    def _keep(self, method, host, arguments):
        with self._lock:
            self.told.append((method, host, arguments))

    def on(self, host):
        return type(
            'Endpoint',
            (),
            {
                'target': rpc_api.COMPUTE_TARGET,
                'build_and_run_instance': lambda _, context, **arguments: self._keep(
                    'build', host, arguments
                ),
                'prep_resize': lambda _, context, **arguments: self._keep(
                    'prep_resize', host, arguments
                ),
            },
        )()


class Flow:
    """A cloud with a scheduler, a conductor and played computes."""

    def __init__(self, cloud):
        self.cloud = cloud
        self.hypervisors = Hypervisors()
        with cloud.databases['api'].api.begin() as connection:
            mine = tables.cell_mappings.update().values(transport_url='fake://')
            connection.execute(mine)
        conf, stack = cloud.conf, cloud.stack
        engine = engines.api_engine(conf)
        stack.callback(engine.dispose)
        self.api = ApiServers(engine)
        self.cells = {
            name: CellServers(made.cell, name)
            for name, made in cloud.databases.items()
            if name != 'api'
        }
        for host in cloud.hosts:
            server = rpc_api.server(
                cloud.transport, rpc_api.COMPUTE, host, [self.hypervisors.on(host)]
            )
            server.start()
            stack.callback(server.wait)
            stack.callback(server.stop)
        self.conductor = service.compose(
            conf, engine, cloud.adapter, Brokers(conf, cloud.transport)
        )
        self.conductor.start()
        stack.callback(self.conductor.stop)
        self.client = rpc_api.ConductorClient(cloud.transport)
        self.context = RequestContext(**CONTEXT)

    def ask_for(self, uuids, **values):
        """Leave behind what the API does; return instances and requests."""
        flavor = factories.request(**values).flavor
        flavor.assign(disabled=False, is_public=True, description=None)
        requests = [
            request_spec(
                uuid,
                flavor,
                {'id': 'image', 'properties': {}},
                project_id='project',
                user_id='user',
                num_instances=len(uuids),
            )
            for uuid in uuids
        ]
        instances = [instance_of(each, f'vm-{n}') for n, each in enumerate(requests)]
        self.api.ask_for(zip(instances, requests, strict=True))
        return instances, requests

    def boot(self, uuids, **values):
        instances, requests = self.ask_for(uuids, **values)
        builds = [rpc_api.build_request_of(instance) for instance in instances]
        self.client.schedule_and_build_instances(self.context, builds, requests)

    def told(self, count):
        """Wait until computes were told so many things."""
        wait_until(lambda: len(self.hypervisors.told) >= count, 20, 'the computes')
        return self.hypervisors.told


@pytest.fixture
def flow(cloud, tmp_path):
    def make(hosts=THREE, **options):
        made = cloud(hosts)
        opts.register(made.conf)
        for group, values in options.items():
            for name, value in values.items():
                made.conf.set_override(name, value, group)
        made.serve()
        return Flow(made)

    return make


def test_a_boot_ends_on_the_host_that_was_chosen(flow):
    made = flow()
    (uuid,) = new_uuids()
    made.boot([uuid])
    ((method, host, told),) = made.told(1)
    assert (method, host) == ('build', 'h1')
    assert made.cloud.held() == {uuid: {'h1'}}
    assert [s['nova_object.data']['service_host'] for s in told['host_list']] == ['h2']
    assert told['filter_properties']['retry'] == {
        'num_attempts': 1,
        'hosts': [['h1', 'h1']],
    }
    assert made.api.cell_of(uuid) == made.cloud.cell_uuids['cell1']
    assert not made.api.is_asked_for(uuid)
    assert made.cells['cell1'].instance(uuid).vm_state == 'building'


def test_without_a_host_an_instance_is_buried_with_its_fault(flow):
    made = flow()
    (uuid,) = new_uuids()
    made.boot([uuid], vcpus=900)
    wait_until(lambda: not made.api.is_asked_for(uuid), 20, 'the burial')
    buried = made.cells['cell0'].instance(uuid)
    assert (buried.vm_state, buried.task_state) == ('error', None)
    assert made.cells['cell0'].last_fault(uuid).message == 'No valid host was found. '
    assert made.cloud.held() == {}
    (action,) = made.cloud.databases['cell0'].rows(server_tables.instance_actions)
    assert (action['action'], action['message']) == ('create', 'Error')


def test_a_refused_instance_goes_to_its_next_host_until_none_is_left(flow):
    made = flow()
    (uuid,) = new_uuids()
    made.boot([uuid])
    for number, host in enumerate(['h1', 'h2'], 1):
        _, where, told = made.told(number)[-1]
        assert where == host
        made.conductor.context.allocations.remove(made.context, uuid)
        decoded = {
            name: decode(told[name], made.context)
            for name in ('instance', 'request_spec', 'host_list', 'filter_properties')
        }
        decoded['filter_properties']['retry']['exc_reason'] = 'refused'
        made.client.build_instances(made.context, **decoded)
    cell = made.cells['cell1']
    wait_until(lambda: cell.instance(uuid).vm_state == 'error', 20, 'the end')
    fault = wait_until(lambda: cell.last_fault(uuid), 20, 'the fault')
    assert 'Exhausted all hosts' in fault.message
    assert made.cloud.held() == {}


def test_an_instance_that_was_deleted_meanwhile_leaves_nothing(flow):
    made = flow()
    uuids = new_uuids(2)
    instances, requests = made.ask_for(uuids)
    made.api.delete_build(uuids[1])
    builds = [rpc_api.build_request_of(instance) for instance in instances]
    made.client.schedule_and_build_instances(made.context, builds, requests)
    made.told(1)
    wait_until(lambda: len(made.cloud.held()) == 1, 20, 'the release')
    assert set(made.cloud.held()) == {uuids[0]}
    assert [m.instance_uuid for m, _ in made.api.with_builds()] == [uuids[0]]


def test_a_host_without_a_mapping_is_no_host(flow):
    made = flow()
    (uuid,) = new_uuids()
    with made.cloud.databases['api'].api.begin() as connection:
        connection.execute(tables.host_mappings.delete())
    made.boot([uuid])
    wait_until(lambda: not made.api.is_asked_for(uuid), 20, 'the burial')
    fault = made.cells['cell0'].last_fault(uuid)
    assert fault.message.startswith('No host-to-cell mapping found')
    assert made.cloud.held() == {}


def running(made, uuid, host='h1'):
    """Boot an instance and let it run."""
    made.boot([uuid])
    made.told(1)
    cell = made.cells['cell1']
    cell.update(uuid, host=host, node=host, vm_state='active', task_state=None)
    return cell.instance(uuid)


def test_a_move_holds_both_ends(flow):
    made = flow()
    (uuid,) = new_uuids()
    instance = running(made, uuid)
    made.client.migrate_server(made.context, instance)
    method, host, told = made.told(2)[-1]
    assert (method, host) == ('prep_resize', 'h2')
    migration = told['migration']
    assert made.cloud.held() == {uuid: {'h2'}, migration['uuid']: {'h1'}}
    assert made.cells['cell1'].migration(migration['uuid']).dest_compute == 'h2'


def test_a_move_without_a_host_leaves_all_as_it_was(flow):
    made = flow(THREE[:1])
    (uuid,) = new_uuids()
    instance = running(made, uuid)
    with pytest.raises(Exception, match='No valid host found for cold migrate'):
        made.client.migrate_server(made.context, instance)
    assert made.cloud.held() == {uuid: {'h1'}}
    after = made.cells['cell1'].instance(uuid)
    assert (after.vm_state, after.task_state) == ('active', None)
    ((row),) = made.cloud.databases['cell1'].rows(server_tables.migrations)
    assert row['status'] == 'error'
