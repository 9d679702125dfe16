# SPDX-License-Identifier: Apache-2.0
"""A cloud of the peer's own API, conductors and computes; the scheduler is not theirs.

The API and its conductor share a virtual host with the scheduler; each of the two cells
has a conductor, a virtual host and computes of its own.
"""

from __future__ import annotations

import json
import os
import subprocess
import threading
from pathlib import Path

from tests.live.cloud import CELLS, Cloud
from tests.live.daemon import QUEUE, command
from tests.live.peer import peer_program
from tests.live.servers.neighbours import Neighbours
from tests.live.servers.process import Process, at_once, free_port, wait_until

START_S = 120
# The medium ones have 10 vCPUs, 8 GiB and 1 TiB, the others a hundred times as much.
# The mortal one knows itself again when it is started again; the picky one refuses
# every instance once. These two stand aside until a test needs them.
COMPUTES = {
    'peer-1': ('cell1', 'fake.MediumFakeDriver'),
    'peer-2': ('cell1', 'fake.MediumFakeDriver'),
    'peer-3': ('cell1', 'fake.MediumFakeDriver'),
    'peer-4': ('cell2', 'fake.MediumFakeDriver'),
    'peer-mortal': ('cell1', 'fake.FakeDriverWithoutFakeNodes'),
    'peer-picky': ('cell1', 'fake.FakeRescheduleDriver'),
}
MORTAL = 'peer-mortal'
PICKY = 'peer-picky'
ASIDE = (MORTAL, PICKY)


class PeerServices:
    """The peer's programs: forks of one process that has loaded them."""

    def __init__(self, directory):
        self.dir = Path(directory)
        self._log = (self.dir / 'services.log').open('w')
        self._process = subprocess.Popen(
            [
                peer_program('python'),
                Path(__file__).with_name('peer_services.py'),
            ],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._log,
            text=True,
            cwd=directory,
            env=dict(os.environ, OS_NOVA_DISABLE_EVENTLET_PATCHING='true'),
        )
        self._turn = threading.Lock()

    def wait_ready(self):
        """Wait until the programs are loaded."""
        assert self._read() == 'ready'

    def _read(self):
        line = self._process.stdout.readline()
        assert line, f'the peer ended, see {self._log.name}'
        return json.loads(line)

    def ask(self, **request):
        """Send a request and give its answer."""
        with self._turn:
            self._process.stdin.write(json.dumps(request) + '\n')
            self._process.stdin.flush()
            return self._read()

    def start(self, program, *argv, name=None, **env):
        """Start a program; its log is named after it, or `name`."""
        log = self.dir / f'{name or program}.log'
        pid = self.ask(start=program, argv=[*map(str, argv)], log=str(log), env=env)
        return Service(self, pid, log)

    def close(self):
        """End every program, and then the process."""
        self._process.stdin.close()
        self._process.wait(60)
        self._process.stdout.close()
        self._log.close()


class Service:
    """One running program of the peer."""

    def __init__(self, services, pid, log_path):
        self.pid = pid
        self.log_path = log_path
        self._services = services
        self._code = None

    def poll(self):
        """Give the exit code, None while the program runs."""
        if self._code is None:
            self._code = self._services.ask(code=self.pid)
        return self._code

    def describe(self):
        """Say how the program is, with the end of its log."""
        tail = '\n'.join(self.log.splitlines()[-40:])
        return f'{self.log_path.stem} (exit code {self.poll()}) printed:\n{tail}'

    @property
    def log(self):
        """The whole of what the program has printed so far."""
        return self.log_path.read_text(errors='replace')

    def signal(self, number):
        """Send a signal to the program and wait for its end."""
        os.killpg(self.pid, number)
        wait_until(lambda: self.poll() is not None, 30, f'{self.log_path.stem} to end')


class _Renaming:
    def __init__(self, server, prefix):
        self._server = server
        self._prefix = prefix

    def create_database(self, name):
        return self._server.create_database(f'{self._prefix}_{name}')


class PeerCloud(Cloud):
    """Databases that the peer makes; hosts and their rows are made by its computes."""

    maker = 'peer'

    def __init__(self, directory, **servers):
        """Take the session's servers by name; the directory's name must be unique."""
        self._services = PeerServices(directory)
        self._neighbours = Neighbours()
        self._rabbitmq = servers['rabbitmq']
        self._cell_urls = {name: self._rabbitmq.create_vhost() for name in CELLS}
        super().__init__(
            directory,
            _Renaming(servers['mariadb'], Path(directory).name.replace('-', '_')),
            None,
            servers['placement'],
            servers['keystone'],
            self._rabbitmq.create_vhost(),
        )
        self.running = {}
        self.schedulers = []
        self.port = free_port()

    def build(self):
        self._neighbours.start()
        self._services.wait_ready()
        self._make_tables()
        self._make_cells()

    def manage(self, conf, *words):
        name = '-'.join(['manage', Path(conf).stem, *words[:2]])
        done = self._services.start(
            'nova-manage', '--config-file', conf, *words, name=name
        )
        wait_until(lambda: done.poll() is not None, START_S, name)
        assert done.poll() == 0, done.describe()
        return done.log

    def cell_transport_url(self, cell):
        """Every cell has a virtual host of its own."""
        return self._cell_urls[cell]

    # -- programs

    def write_service_conf(self, name, cell=None, database='cell0', **sections):
        """Write the nova.conf of a program of the API or of a cell; give its path."""
        where = self.dir / name
        where.mkdir()
        neighbour = {'endpoint_override': self._neighbours.url}
        computing = database is None
        defaults = {
            'host': name,
            'state_path': str(where),
            'my_ip': '127.0.0.1',
            'report_interval': 2,
            'periodic_fuzzy_delay': 0,
            'rpc_response_timeout': 20,
            'log_options': False,
            'initial_cpu_allocation_ratio': 1.0,
            'initial_ram_allocation_ratio': 1.0,
        }
        defaults.update(sections.pop('DEFAULT', {}))
        options = {
            'DEFAULT': defaults,
            'keystone_authtoken': {
                'auth_type': 'none',
                'endpoint': f'{self._neighbours.url}/v3',
            },
            'api_database': {'connection': None if computing else self.urls['api']},
            'database': {'connection': None if computing else self.urls[database]},
            'oslo_concurrency': {'lock_path': str(where)},
            'glance': neighbour,
            'neutron': neighbour | self._credentials(),
            'vnc': {'enabled': False},
            'conductor': {'workers': 1},
            'quota': {'cores': -1, 'instances': -1, 'ram': -1},
            'cache': {'enabled': False},
        }
        options.update(sections)
        url = self._cell_urls[cell] if cell else self.transport_url
        return self.write_conf(where / 'nova.conf', transport_url=url, **options)

    def _credentials(self):
        return {
            'auth_type': 'password',
            'auth_url': self._keystone.url,
            'username': 'nova',
            'password': 'neutron-secret',
            'project_name': 'service',
            'user_domain_name': 'Default',
            'project_domain_name': 'Default',
            'region_name': 'RegionOne',
        }

    def start_peer(self):
        """Start the API, the conductors and the computes."""
        self._start_conductor('super-conductor')
        for cell in CELLS:
            self._start_conductor(f'{cell}-conductor', cell, cell)
        for name in COMPUTES:
            self.start_compute(name)
        self._start_api()

    def _start_conductor(self, name, cell=None, database='cell0'):
        conf = self.write_service_conf(name, cell, database)
        self.running[name] = self._services.start(
            'nova-conductor', '--config-file', conf, name=name
        )

    def start_compute(self, name):
        """Start a compute for the first time."""
        cell, driver = COMPUTES[name]
        conf = self.write_service_conf(
            name,
            cell,
            database=None,
            DEFAULT={'compute_driver': driver},
            workarounds={'disable_group_policy_check_upcall': True},
            # No scheduler listens where the computes are.
            filter_scheduler={'track_instance_changes': False},
        )
        self._start_compute(name, conf)

    def restart_compute(self, name):
        """Start a compute again that has ended."""
        self._start_compute(name, self.dir / name / 'nova.conf')

    def _start_compute(self, name, conf):
        self.running[name] = self._services.start(
            'nova-compute', '--config-file', conf, name=name
        )

    def _start_api(self):
        conf = self.write_service_conf('api')
        paste = peer_program('python').parents[1] / 'etc/nova/api-paste.ini'
        self.running['api'] = self._services.start(
            'gunicorn',
            f'--bind=127.0.0.1:{self.port}',
            '--workers=1',
            '--worker-class=gthread',
            '--threads=4',
            '--timeout=120',
            '--graceful-timeout=1',
            '--no-control-socket',
            'nova.wsgi.osapi_compute:application',
            name='api',
            OS_NOVA_CONFIG_FILES=f'{paste};{conf}',
            OS_NOVA_CONFIG_DIR=str(paste.parent),
        )

    def write_scheduler_conf(self, name, **sections):
        """Write the nova.conf of a scheduler; give its path."""
        return self.write_conf(
            self.dir / f'{name}.conf',
            DEFAULT={'host': name, 'report_interval': 2, 'log_options': False},
            scheduler={'workers': 1, 'discover_hosts_in_cells_interval': 1},
            **sections,
        )

    def start_peer_scheduler(self, name, again=False):
        """Start the peer's scheduler on a conf that is written."""
        log = f'{name}-again' if again else name
        self.running[name] = self._services.start(
            'nova-scheduler', '--config-file', self.dir / f'{name}.conf', name=log
        )

    def start_scheduler(self, *confs, name='scheduler'):
        """Start the scheduler under test; give its process."""
        more = [word for conf in confs[1:] for word in ('--config-file', conf)]
        process = Process([*command(confs[0]), *more], self.dir / f'{name}.log')
        self.schedulers.append(process)
        return process

    def wait_ready(self, scheduler):
        """Wait until everybody listens."""
        self._wait_consumed(self.transport_url, QUEUE, scheduler)
        self._wait_consumed(self.transport_url, 'conductor', self['super-conductor'])
        for cell in CELLS:
            url = self._cell_urls[cell]
            self._wait_consumed(url, 'conductor', self[f'{cell}-conductor'])
        for name in COMPUTES:
            self.wait_compute(name)

    def discover_hosts(self):
        """Have the peer's `nova-manage` map the hosts to their cells."""
        self.manage(self.dir / 'cell0.conf', 'cell_v2', 'discover_hosts')
        self.wait_mapped()

    def wait_mapped(self):
        """Wait until every host is mapped to its cell."""
        wait_until(
            lambda: len(self.rows('api', 'host_mappings')) == len(COMPUTES),
            START_S,
            'host mappings',
        )

    def __getitem__(self, name):
        """A running program of the peer."""
        return self.running[name]

    def wait_compute(self, name):
        """Wait until a compute takes messages."""
        url = self._cell_urls[COMPUTES[name][0]]
        self._wait_consumed(url, f'compute.{name}', self[name])

    def _wait_consumed(self, url, queue, process):
        def consumed():
            found = self._rabbitmq.queue(url, queue)
            return found is not None and found[1] > 0

        wait_until(consumed, START_S, queue, process)

    # -- what there is

    def instance(self, uuid):
        """The row of an instance that is not deleted, and the name of its cell."""
        ((row, cell),) = [
            (row, cell)
            for cell in ('cell0', *CELLS)
            for row in self.rows(cell, 'instances', uuid=uuid, deleted=0)
        ]
        return row, cell

    def would_change(self, database, statement):
        """Count the rows that an SQL statement changes; undo it."""
        with self._engines[database].connect() as connection:
            return connection.execute(statement).rowcount

    def providers(self):
        """The names of the hosts by the uuid of their resource provider."""
        return {
            row['uuid']: row['host']
            for cell in CELLS
            for row in self.rows(cell, 'compute_nodes', deleted=0)
        }

    def held(self, consumer):
        """What a consumer holds: amounts by resource class, by the host's name."""
        names = self.providers()
        allocations = self._placement.allocations(consumer)
        return {names[provider]: held for provider, held in allocations.items()}

    def is_settled(self):
        """Tell whether each live compute has written that it is idle, and what it
        runs."""
        for name, (cell, _) in COMPUTES.items():
            if self[name].poll() is not None:
                continue
            (row,) = self.rows(cell, 'compute_nodes', host=name, deleted=0)
            runs = self.rows(cell, 'instances', host=name, deleted=0)
            used = sum(each['vcpus'] for each in runs)
            workload = json.loads(row['stats'] or '{}').get('io_workload', 0)
            if (row['vcpus_used'], int(workload)) != (used, 0):
                return False
        return True

    def is_told_of_evacuations(self, host):
        """Tell whether a compute has seen everything that was evacuated from it."""
        cell, _ = COMPUTES[host]
        moves = self.rows(
            cell, 'migrations', source_compute=host, migration_type='evacuation'
        )
        return all(move['status'] == 'completed' for move in moves)

    def left_over(self):
        """Describe what is there besides the hosts: instances, requests, usage."""
        left = [
            f'{row["uuid"]} in {cell}, {row["vm_state"]}'
            for cell in ('cell0', *CELLS)
            for row in self.rows(cell, 'instances', deleted=0)
        ]
        left += [str(row) for row in self.rows('api', 'build_requests')]
        for uuid, name in self.providers().items():
            path = f'/resource_providers/{uuid}/usages'
            usages = self._placement.get(path)['usages']
            left += [f'{name}: {usages}'] if any(usages.values()) else []
        return left

    def close(self):
        at_once(process.stop for process in self.schedulers)
        self._services.close()
        for uuid in self.providers():
            self._placement.request('DELETE', f'/resource_providers/{uuid}')
        self._neighbours.stop()
        super().close()
