# SPDX-License-Identifier: Apache-2.0
"""Computes in this process: SQLite, the real placement, messages in memory."""

import queue
import threading
import time

import oslo_messaging
from oslo_config import cfg

from novasched.db import engines, tables
from novasched.db.transactions import Database
from novasched.objects.context import RequestContext
from novasched.objects.instance import Instance
from novasched.objects.selection import Selection
from novasched.rpc.serializer import RequestSerializer, decode
from novasched.rpc.transport import transport_from_conf
from novasched_lab import opts, rpc_api
from novasched_lab.compute import fleet, service
from novasched_lab.db import schema
from novasched_lab.db.cell_servers import CellServers, Migration
from novasched_lab.host_inventory import name_uuid
from tests.functional.conftest import new_uuids
from tests.support.clouds import factories

PATIENCE_S = 60


def eventually(found):
    """Wait until a function gives something true, and return it."""
    end = time.monotonic() + PATIENCE_S
    while not (value := found()):
        assert time.monotonic() < end, 'it never came about'
        time.sleep(0.02)
    return value


class Conductor:
    """Takes down what computes ask a conductor for."""

    target = rpc_api.TASK_TARGET

    def __init__(self):
        self.asked = queue.Queue()

    def build_instances(self, context, **arguments):
        self.asked.put(decode(arguments, context))


class Cell:
    """A cell with a database, and placement, for the fleets of one test."""

    def __init__(self, directory, adapter, stack):
        self.adapter = adapter
        self.context = RequestContext(
            user_id='user', project_id='project', overwrite=False
        )
        self._stack = stack
        self._doubles = []
        self.conf = self._conf(directory)
        self.engine = engines.main_engine(self.conf)
        self.api_engine = engines.api_engine(self.conf)
        for engine in (self.engine, self.api_engine):
            stack.callback(engine.dispose)
        schema.create_cell(Database(self.engine), 'cell')
        schema.create_api(Database(self.api_engine), 'api')
        self.servers = CellServers(self.engine)
        self.transport = transport_from_conf(self.conf)
        stack.callback(self.transport.cleanup)
        self.computes = rpc_api.ComputeClient(self.transport)
        stack.callback(self._end)
        self.conductor = self._serve('conductor', Conductor())

    def _conf(self, directory):
        conf = cfg.ConfigOpts()
        opts.register(conf)
        conf([], default_config_files=[], default_config_dirs=[])
        conf.set_override('transport_url', 'fake://')
        conf.set_override('connection', f'sqlite:///{directory}/cell', 'database')
        conf.set_override('connection', f'sqlite:///{directory}/api', 'api_database')
        return conf

    def _serve(self, topic, endpoint):
        server = oslo_messaging.get_rpc_server(
            self.transport,
            oslo_messaging.Target(topic=topic, server='here'),
            [endpoint],
            executor='threading',
            serializer=RequestSerializer(),
        )
        server.start()
        self._doubles.append(server)
        return endpoint

    def _end(self):
        """End both servers at once: each takes half a second."""
        ending = [threading.Thread(target=each.stop) for each in self._doubles]
        for thread in ending:
            thread.start()
        for thread, server in zip(ending, self._doubles, strict=True):
            thread.join()
            server.wait()

    def compose(self, content):
        """Wire computes for what a fleet file says."""
        return service.compose(
            self.conf,
            fleet.fleet_of(content),
            self.adapter,
            self.transport,
            lambda cell: (self.engine, self.transport),
            self.api_engine,
        )

    def run(self, content):
        """Run computes until the test ends."""
        computes = self.compose(content)
        computes.start()
        self._stack.callback(computes.stop)
        return computes

    # -- what a conductor does

    def claim(self, uuid, host, vcpus=1, memory_mb=512, disk_gb=1):
        """Have an instance hold room on a host."""
        resources = {'VCPU': vcpus, 'MEMORY_MB': memory_mb, 'DISK_GB': disk_gb}
        body = {
            'allocations': {name_uuid('node', host): {'resources': resources}},
            'project_id': 'project',
            'user_id': 'user',
            'consumer_generation': None,
        }
        url = f'/allocations/{uuid}'
        answer = self.adapter.put(url, json=body, microversion='1.28')
        assert answer.status_code == 204, answer.text

    def held(self, uuid):
        """The names of the providers where something is held."""
        answer = self.adapter.get(f'/allocations/{uuid}', microversion='1.28').json()
        return set(answer['allocations'])

    def new(self, host, claimed=True, **values):
        """Make an instance that is to be built on a host; return its request."""
        (uuid,) = new_uuids()
        request = request_for(uuid, **values)
        size = request.flavor
        self.servers.create(
            Instance(
                uuid=uuid,
                user_id='user',
                project_id='project',
                display_name=uuid,
                vm_state='building',
                task_state='scheduling',
                vcpus=size.vcpus,
                memory_mb=size.memory_mb,
                root_gb=size.root_gb,
                ephemeral_gb=size.ephemeral_gb,
                flavor=size,
                numa_topology=request.numa_topology,
                pci_requests=request.pci_requests,
                system_metadata={},
            )
        )
        if claimed:
            self.claim(uuid, host, size.vcpus, size.memory_mb, size.root_gb)
        return request

    def build(self, host, request, retry=True, alternates=()):
        """Send an instance to a host."""
        attempt = {'num_attempts': 1, 'hosts': [[host, host]]}
        self.computes.build_and_run_instance(
            self.context,
            host,
            instance=Instance(uuid=request.instance_uuid),
            request_spec=request,
            filter_properties={'retry': attempt} if retry else {},
            node=host,
            limits=None,
            host_list=[selection(name) for name in alternates],
        )

    def boot(self, host, **values):
        """Have an instance built on a host; wait until it is active."""
        request = self.new(host, **values)
        self.build(host, request)
        self.wait_for(request.instance_uuid, vm_state='active')
        return request

    def move(self, source, destination, request, send=True):
        """Send an instance to another host; return the uuid of the migration."""
        uuid, size = request.instance_uuid, request.flavor
        migration = Migration.of(uuid, 'migration', source, source)
        self.servers.add_migration(migration)
        self.servers.update(uuid, task_state='resize_prep')
        self.adapter.delete(f'/allocations/{uuid}')
        amounts = size.vcpus, size.memory_mb, size.root_gb
        self.claim(migration.uuid, source, *amounts)
        self.claim(uuid, destination, *amounts)
        if not send:
            return migration.uuid
        self.computes.prep_resize(
            self.context,
            destination,
            instance=Instance(uuid=uuid),
            flavor=size,
            request_spec=request,
            filter_properties={},
            node=destination,
            migration=migration._asdict(),
            host_list=[],
        )
        return migration.uuid

    # -- what came of it

    def wait_for(self, uuid, **values):
        """Wait until the row of an instance has these values."""

        def found():
            now = self.servers.instance(uuid)
            return now if now and _has(now, values) else None

        return eventually(found)

    def row(self, table, **where):
        """The one row of a table of the cell with these values."""
        (row,) = self.rows(table, **where)
        return row

    def rows(self, table, **where):
        query = table.select().filter_by(**where)
        with self.engine.connect() as connection:
            return [dict(row) for row in connection.execute(query).mappings()]

    def node(self, host):
        return self.row(tables.compute_nodes, host=host)


def _has(instance, values):
    return all(getattr(instance, name) == value for name, value in values.items())


def request_for(uuid, **values):
    """A request for one instance, as a conductor sends it."""
    made = factories.request(**{'image': {}, 'is_bfv': False, **values})
    made.assign(instance_uuid=uuid, num_instances=1)
    return made


def selection(host):
    """A host that the scheduler has chosen."""
    return Selection(
        compute_node_uuid=name_uuid('node', host),
        service_host=host,
        nodename=host,
        cell_uuid='c0000000-0000-4000-8000-00000000000c',
        limits=None,
        allocation_request='null',
        allocation_request_version='1.36',
    )
