# SPDX-License-Identifier: Apache-2.0
"""A whole cloud of our own programs: scheduler, conductor and computes."""

import contextlib

import oslo_messaging
from oslo_config import cfg

from novasched.inspection.session.catalogue import flavor_of
from novasched.inspection.session.pci_aliases import PciAliases
from novasched.inspection.session.server_request import request_spec
from novasched.objects.context import RequestContext
from novasched.objects.instance_group import InstanceGroup
from novasched_lab import opts, rpc_api
from novasched_lab.api.new_instance import instance_of
from novasched_lab.db.api_servers import ApiServers, ServerGroups
from novasched_lab.db.cell_servers import CellServers
from tests.live.cloud import CELLS, Cloud, lasting_engine
from tests.live.daemon import own_program
from tests.live.servers.process import Process, at_once, wait_until

START_S = 60
PROJECT = {'user_id': 'user', 'project_id': 'project'}


class FlowCloud(Cloud):
    """Databases of our own; hosts and their rows are the computes' business."""

    def __init__(self, directory, servers, transport_url, cells):
        self.cells = cells
        super().__init__(
            directory,
            servers,
            own_program('novasched-manage'),
            prefix=f'{directory.name}_',
            transport_url=transport_url,
        )

    def build(self):
        self.make_tables(self.urls)
        self._make_cells()

    def cell_transport_url(self, cell):
        """Every cell is on the one broker; how long clients wait parts their URLs."""
        mark = '&' if '?' in self.transport_url else '?'
        number = self.cells.index(cell)
        return f'{self.transport_url}{mark}kombu_reconnect_delay=1.{number}'


class Flow:
    """The programs of a cloud, and what a user does with them."""

    def __init__(self, cloud, directory, fleet, **sections):
        """Take a FlowCloud, the text of a fleet, and sections of options.

        With several processes of computes, a dict has the text of each by its name.
        """
        self.cloud = cloud
        self.dir = directory
        self.conf_path = cloud.write_conf(
            directory / 'flow.conf',
            DEFAULT={
                'host': 'flow',
                'report_interval': 2,
                'log_options': False,
                'periodic_fuzzy_delay': 0,
                **sections.pop('DEFAULT', {}),
            },
            conductor={'workers': 1, **sections.pop('conductor', {})},
            scheduler={
                'discover_hosts_in_cells_interval': 1,
                **sections.pop('scheduler', {}),
            },
            novasched={'mirror_api_share': 1.0, **sections.pop('novasched', {})},
            **sections,
        )
        fleets = fleet if isinstance(fleet, dict) else {'compute': fleet}
        for name, text in fleets.items():
            self._fleet_path(name).write_text(text)
        self.processes = {}
        self._engines = {name: lasting_engine(url) for name, url in cloud.urls.items()}
        self.api = ApiServers(self._engines['api'])
        self.cells = {
            name: CellServers(engine, name)
            for name, engine in self._engines.items()
            if name != 'api'
        }
        conf = cfg.ConfigOpts()
        opts.register(conf)
        conf(['--config-file', str(self.conf_path)])
        self._aliases = PciAliases.from_conf(conf)
        self._groups = ServerGroups(self._engines['api'])
        self.transport = oslo_messaging.get_rpc_transport(conf)
        self.conductor = rpc_api.ConductorClient(self.transport)
        self.context = RequestContext(overwrite=False, **PROJECT)
        self.asked = []

    def _fleet_path(self, name):
        return self.dir / f'{name}.toml'

    def start(self, *names):
        """Start programs by their last name, such as `compute`, or `compute-2`."""
        for name in names:
            program = name.partition('-')[0]
            more = ['--fleet', self._fleet_path(name)] if program == 'compute' else []
            self.processes[name] = Process(
                [
                    own_program(f'novasched-{program}'),
                    '--config-file',
                    self.conf_path,
                    *more,
                ],
                self.dir / f'{name}.log',
            )

    def wait_ready(self, broker, hosts):
        """Wait until everybody listens, and every host is mapped to its cell.

        Of all hosts, the first and the last are looked at.
        """
        ends = [f'compute.{host}' for host in (hosts[0], hosts[-1])]
        for queue in ('scheduler', 'conductor', *ends):
            wait_until(
                lambda queue=queue: self._consumed(broker, queue), START_S, queue
            )
        wait_until(
            lambda: len(self.cloud.rows('api', 'host_mappings')) == len(hosts),
            START_S,
            'host mappings',
        )

    def _consumed(self, broker, queue):
        found = broker.queue(self.cloud.transport_url, queue)
        return found is not None and found[1] > 0

    def requests(
        self,
        uuids,
        vcpus=1,
        memory_mb=512,
        root_gb=1,
        flavor='small',
        extra_specs=None,
        policy=None,
    ):
        """Return the requests for instances; ``policy`` is that of a new group."""
        made = flavor_of(f'vcpus={vcpus},ram={memory_mb},disk={root_gb}')
        made = made.replaced(name=flavor, extra_specs=extra_specs or {})
        return [
            request_spec(
                uuid,
                made,
                {'id': 'image'},
                num_instances=len(uuids),
                group=policy and self._group(policy, uuids),
                aliases=self._aliases,
                **PROJECT,
            )
            for uuid in uuids
        ]

    def boot(self, uuids, **order):
        """Ask for instances, as the API does; see requests()."""
        self.asked += uuids
        requests = self.requests(uuids, **order)
        instances = [instance_of(each, f'vm-{n}') for n, each in enumerate(requests)]
        self.api.ask_for(zip(instances, requests, strict=True))
        builds = [rpc_api.build_request_of(instance) for instance in instances]
        self.conductor.schedule_and_build_instances(self.context, builds, requests)

    def _group(self, policy, uuids):
        name = f'{policy} {uuids[0]}'
        group = self._groups.find(name, PROJECT['project_id'])
        if group is None:
            group = self._groups.create(name, policy, {}, *reversed(PROJECT.values()))
            group = self._groups.join(group, uuids)
        return InstanceGroup(
            uuid=group.uuid, policy=policy, members=list(group.members), _rules={}
        )

    def instance(self, uuid):
        """An instance where it is now, None while no cell has it."""
        cell_uuid = self.api.cell_of(uuid)
        for name, cell in self.cells.items():
            if cell_uuid is not None and cell_uuid == self.cloud.cell_uuid(name):
                return cell.instance(uuid)
        return None

    def ended(self, uuid, timeout_s=60):
        """Wait until an instance is built or has failed; give it."""
        return wait_until(lambda: self._ended(uuid), timeout_s, f'{uuid} to end')

    def _ended(self, uuid):
        found = self.instance(uuid)
        return found if found and found.vm_state in ('active', 'error') else None

    def fault(self, uuid):
        """Why an instance has failed; the fault is written after the state."""

        def written():
            faults = (cell.last_fault(uuid) for cell in self.cells.values())
            return next(filter(None, faults), None)

        return wait_until(written, START_S, f'the fault of {uuid}')

    def delete_all(self):
        """Delete all instances that were asked for here and run; wait for their end."""
        found = {uuid: self.instance(uuid) for uuid in self.asked}
        self.asked = [uuid for uuid, each in found.items() if each and each.host]
        for uuid in self.asked:
            self.computes().terminate_instance(
                self.context, found[uuid].host, found[uuid]
            )
        while self.asked:
            uuid = self.asked.pop()
            wait_until(
                lambda uuid=uuid: self.instance(uuid) is None, START_S, f'{uuid} to end'
            )

    def computes(self):
        """A client of the computes, all of which are on the one broker."""
        return rpc_api.ComputeClient(self.transport)

    def close(self):
        """Stop all programs, and drop the connections."""
        at_once(process.stop for process in self.processes.values())
        self.transport.cleanup()
        for engine in self._engines.values():
            engine.dispose()


@contextlib.contextmanager
def running(
    directory,
    servers,
    hosts,
    fleet,
    cells=CELLS,
    queues=None,
    prepare=lambda cloud: None,
    **sections,
):
    """Run all programs on some hosts, in a cloud that is named after the directory.

    `queues` are options of the kinds of queues that all make; `prepare` is called with
    the cloud when it has tables and cells.
    """
    url = servers.rabbitmq.create_vhost(**(queues or {}))
    cloud = FlowCloud(directory, servers, url, cells)
    with contextlib.ExitStack() as opened:
        opened.callback(cloud.close)
        cloud.build()
        prepare(cloud)
        made = Flow(cloud, directory, fleet, **sections)
        opened.callback(remove_providers, servers.placement, hosts)
        opened.callback(made.close)
        computes = list(fleet) if isinstance(fleet, dict) else ['compute']
        made.start('scheduler', 'conductor', *computes)
        made.wait_ready(servers.rabbitmq, hosts)
        yield made


def remove_providers(placement, hosts):
    """Leave placement without the providers of hosts that hold nothing any more."""
    for each in placement.get('/resource_providers')['resource_providers']:
        if each['name'] in hosts:
            placement.request('DELETE', f'/resource_providers/{each["uuid"]}')


RULES = """
[[rules]]
outcome = "refuse"
hosts = ["{0}", "{1}"]
flavors = ["picky"]

[[rules]]
outcome = "refuse"
flavors = ["nowhere"]
"""


def fleet(*hosts):
    """The text of a fleet of (name, cell) with 32 CPUs each, and RULES of the first."""
    return '\n'.join(
        f'''[[hosts]]
name = "{name}"
cell = "{cell}"
vcpus = 32
memory_mb = 16384
disk_gb = 100
'''
        for name, cell in hosts
    ) + RULES.format(*(name for name, _ in hosts))


HOSTS = tuple((f'flow-{number}', cell) for number, cell in enumerate(CELLS * 2))
