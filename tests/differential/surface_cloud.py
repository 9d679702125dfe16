# SPDX-License-Identifier: Apache-2.0
"""A small cloud in databases that nova and we read, and requests as they travel."""

import json
import subprocess
from pathlib import Path

import sqlalchemy as sa

from novasched.db import tables
from novasched.ports import CELL0_UUID
from novasched.runtime.clock import SYSTEM_CLOCK
from tests.differential.primitives import primitive
from tests.differential.surface_hosts import hosts_by
from tests.live.peer import peer_program
from tests.support.clouds.configuration import make_conf
from tests.support.databases import databases

HERE = Path(__file__).parent
SAMPLES = HERE.parent / 'samples' / 'rpc'
SPECS = '01c', '02', '03', '04b', '05', '06', '07'
"""Requests that nova sent, which between them have every object in them."""
NODE = 'c0000000-0000-4000-8000-000000000001'
INSTANCE = 'c0000000-0000-4000-8000-000000000002'
STAMP = '2026-01-01T00:00:00.000000'
METRICS = [
    {'name': 'cpu.idle.percent', 'value': 0.35, 'timestamp': STAMP, 'source': 's'},
    {
        'name': 'numa.membw.current',
        'numa_membw_values': {'0': 10, '1': 43},
        'timestamp': STAMP,
        'source': 's',
    },
]


def _numa_cell(number, first):
    cpus = [first, first + 1, first + 2, first + 3]
    pages = [
        primitive(
            'NUMAPagesTopology', '1.1', size_kb=4, total=524288, used=0, reserved=0
        ),
        primitive(
            'NUMAPagesTopology', '1.1', size_kb=2048, total=64, used=1, reserved=2
        ),
    ]
    return primitive(
        'NUMACell',
        '1.5',
        id=number,
        cpuset=cpus,
        pcpuset=cpus,
        memory=2048,
        cpu_usage=1,
        memory_usage=512,
        pinned_cpus=[first],
        siblings=[cpus[:2], cpus[2:]],
        mempages=pages,
        socket=number,
        network_metadata=primitive(
            'NetworkMetadata', '1.0', physnets=['p1'], tunneled=True
        ),
    )


NUMA = primitive('NUMATopology', '1.2', cells=[_numa_cell(0, 0), _numa_cell(1, 4)])
POOL = primitive(
    'PciDevicePool',
    '1.1',
    product_id='p',
    vendor_id='v',
    numa_node=0,
    tags={'dev_type': 'type-PCI', 'rack': 'r'},
    count=2,
)
POOLS = primitive('PciDevicePoolList', '1.1', objects=[POOL])


def requests():
    """Return by name the requests, as primitives."""
    found = {}
    for name in SPECS:
        (path,) = SAMPLES.glob(f'{name}-*.request.json')
        sent = json.loads(path.read_text())['message']
        found[name] = sent['args']['spec_obj']
    return found


class Peer:
    """A program of the peer's that makes tables in a directory, and then is asked."""

    def __init__(self, directory, program='peer_surface.py'):
        self._log = Path(directory) / 'peer.log'
        with self._log.open('w') as log:
            self._process = subprocess.Popen(
                [peer_program('python'), HERE / program, directory],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
            )

    def wait(self):
        """Wait until the tables are there."""
        assert self._process.stdout.readline() == 'tables\n', self._problem()

    def ask(self, given):
        """Send what is asked, and return the answer; the program ends."""
        found, _ = self._process.communicate(json.dumps(given) + '\n')
        assert self._process.returncode == 0, self._problem()
        return json.loads(found)

    def _problem(self):
        return self._log.read_text().strip().rpartition('\n')[2]


class Cloud:
    """Databases in a directory, of two hosts, two zones and one instance."""

    def __init__(self, directory):
        self.directory = directory
        self.peer = Peer(directory)
        self.peer.wait()
        self._engines = {
            name: sa.create_engine(f'sqlite:///{directory}/{name}')
            for name in ('api', 'cell0', 'cell1')
        }
        cells = (
            (CELL0_UUID, 'cell0'),
            ('ce110000-0000-4000-8000-000000000001', 'cell1'),
        )
        for number, (uuid, name) in enumerate(cells, 1):
            url = f'sqlite:///{directory}/{name}'
            self._add(
                'api',
                tables.cell_mappings,
                **databases.cell_mapping(
                    id=number, uuid=uuid, name=name, database_connection=url
                ),
            )
        for number, host in enumerate(('h1', 'h2'), 1):
            self._add_host(number, host)
        self._add(
            'cell1',
            tables.instances,
            **databases.instance(
                uuid=INSTANCE, host='h1', node='h1-node', project_id='p'
            ),
        )
        with self._engines['api'].begin() as connection:
            connection.execute(
                sa.text(
                    'INSERT INTO instance_mappings (instance_uuid, cell_id, '
                    f"project_id) VALUES ('{INSTANCE}', 2, 'p')"
                )
            )
        for engine in self._engines.values():
            engine.dispose()

    def _add(self, database, table, **row):
        with self._engines[database].begin() as connection:
            return databases.insert(connection, table, row)

    def _add_host(self, number, host):
        now = SYSTEM_CLOCK.utcnow().replace(microsecond=0)
        self._add('api', tables.host_mappings, cell_id=2, host=host)
        uuid = f'a0000000-0000-4000-8000-00000000000{number}'
        row = {'id': number, 'uuid': uuid, 'name': f'agg{number}', 'created_at': now}
        self._add('api', tables.aggregates, **row)
        self._add('api', tables.aggregate_hosts, aggregate_id=number, host=host)
        for key, value in (('availability_zone', f'az{number}'), ('ssd', 'true')):
            row = {'aggregate_id': number, 'key': key, 'value': value}
            self._add('api', tables.aggregate_metadata, **row)
        service = databases.service(host=host, created_at=now, last_seen_up=now)
        self._add('cell1', tables.services, **service)
        node = databases.node(
            uuid=f'{NODE[:-1]}{number}',
            host=host,
            hypervisor_hostname=f'{host}-node',
            free_ram_mb=3584,
            free_disk_gb=90,
            running_vms=1,
            disk_available_least=80,
            host_ip='10.0.0.1',
            cpu_allocation_ratio=4.0,
            ram_allocation_ratio=1.5,
            disk_allocation_ratio=1.0,
            supported_instances='[["x86_64", "kvm", "hvm"]]',
            stats='{"num_instances": "1", "io_workload": "2", "failed_builds": "0"}',
            metrics=json.dumps(METRICS),
            numa_topology=json.dumps(NUMA),
            pci_stats=json.dumps(POOLS),
            updated_at=now,
        )
        self._add('cell1', tables.compute_nodes, **node)

    def conf(self, **options):
        """Return a configuration that names the databases."""
        return make_conf(
            api_database={'connection': f'sqlite:///{self.directory}/api'},
            database={'connection': f'sqlite:///{self.directory}/cell0'},
            **options,
        )

    def hosts(self):
        """Read all hosts as the service does."""
        return hosts_by(self.conf())
