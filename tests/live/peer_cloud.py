# SPDX-License-Identifier: Apache-2.0
"""A cloud of the peer's own API, conductors and computes; the scheduler is not theirs.

The API and its conductor share a virtual host with the scheduler; each of the two cells
has a conductor, a virtual host and computes of its own.
"""

import contextlib
import json
import os
from pathlib import Path

from tests.live.cloud import Cloud
from tests.live.daemon import QUEUE, command
from tests.live.peer import peer_program
from tests.live.peer_api import PeerApi
from tests.live.servers.neighbours import Neighbours
from tests.live.servers.process import Process, at_once, free_port, wait_until

START_S = 120
# The medium ones have 10 vCPUs, 8 GiB and 1 TiB, the others a hundred times as much.
# The mortal one knows itself again when it is started again; the picky one refuses
# every instance once. These two stand aside until a test needs them.
COMPUTES = {
    'peer-1': ('cell1', 'fake.MediumFakeDriver'),
    'peer-2': ('cell1', 'fake.MediumFakeDriver'),
    'peer-3': ('cell2', 'fake.MediumFakeDriver'),
    'peer-mortal': ('cell1', 'fake.FakeDriverWithoutFakeNodes'),
    'peer-picky': ('cell1', 'fake.FakeRescheduleDriver'),
}
MORTAL = 'peer-mortal'
PICKY = 'peer-picky'
ASIDE = (MORTAL, PICKY)
# Name, vCPUs, MiB, GiB; of the half one fits on each of the medium computes.
FLAVORS = (('small', 1, 512, 1), ('bigger', 2, 1024, 2), ('half', 6, 4096, 10))


@contextlib.contextmanager
def scheduling(cloud, name):
    """Run the scheduler under test; no service of its name is left.

    Its copy of placement is never long behind, and servers return to their hosts.
    """
    own = {'mirror_api_share': 1.0}
    weights = {'same_host_weight_multiplier': 1000.0}
    conf = cloud.write_scheduler_conf(name, novasched=own, filter_scheduler=weights)
    process = cloud.start_scheduler(conf, name=name)
    cloud.wait_ready(process)
    with contextlib.closing(PeerApi(cloud.port)) as api:
        api.wait_ready(cloud['api'])
        yield
        process.stop()
        api.delete_service('nova-scheduler', name)


class PeerMade(Cloud):
    """A cloud whose databases a program of the peer makes, which is loaded once."""

    maker = 'peer'

    def manage(self, conf, *words):
        done = self._manage.run('nova-manage', '--config-file', conf, *words)
        assert done.returncode == 0, done
        return done.stdout


class PeerCloud(PeerMade):
    """Databases that the peer makes; hosts and their rows are made by its computes."""

    computes = COMPUTES

    def __init__(self, directory, servers, programs):
        """Take the Servers and the peer's programs; the directory's name is unique."""
        self._neighbours = Neighbours()
        vhost = servers.rabbitmq.create_vhost
        self._cell_urls = {name: vhost() for name in self.cells}
        prefix = f'{Path(directory).name.replace("-", "_")}_'
        super().__init__(
            directory, servers, programs, prefix=prefix, transport_url=vhost()
        )
        self.running = {}
        self.schedulers = []
        self.port = free_port()

    def build(self):
        self._neighbours.start()
        self.make_tables(self.urls)
        self._make_cells()

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
        for cell in self.cells:
            self._start_conductor(f'{cell}-conductor', cell, cell)
        for name in self.computes:
            self.start_compute(name)
        self._start_api()

    def _start_conductor(self, name, cell=None, database='cell0'):
        conf = self.write_service_conf(name, cell, database)
        self._start(name, 'nova-conductor', '--config-file', conf)

    def _start(self, name, *argv, log=None, **env):
        """Start a program of the peer; its log is named after it, or ``log``."""
        self.running[name] = Process(
            argv,
            self.dir / f'{log or name}.log',
            env={**os.environ, **env},
            cwd=self.dir,
            fork_of=self.programs_of(name),
        )

    def programs_of(self, name):
        """What the program of a name is started by."""
        return self._manage

    def start_compute(self, name):
        """Start a compute for the first time."""
        cell, driver = self.computes[name]
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
        self._start(name, 'nova-compute', '--config-file', conf)

    def _start_api(self):
        conf = self.write_service_conf('api')
        paste = peer_program('python').parents[1] / 'etc/nova/api-paste.ini'
        self._start(
            'api',
            'gunicorn',
            f'--bind=127.0.0.1:{self.port}',
            '--workers=1',
            '--worker-class=gthread',
            '--threads=4',
            '--timeout=120',
            '--graceful-timeout=1',
            '--no-control-socket',
            'nova.wsgi.osapi_compute:application',
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
        conf = self.dir / f'{name}.conf'
        self._start(name, 'nova-scheduler', '--config-file', conf, log=log)

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
        for cell in self.cells:
            url = self._cell_urls[cell]
            self._wait_consumed(url, 'conductor', self[f'{cell}-conductor'])
        for name in self.computes:
            self.wait_compute(name)

    def discover_hosts(self):
        """Have the peer's `nova-manage` map the hosts to their cells."""
        self.manage(self.dir / 'cell0.conf', 'cell_v2', 'discover_hosts')
        self.wait_mapped()

    def wait_mapped(self):
        """Wait until hosts are mapped to their cells and placement has inventories."""
        wait_until(
            lambda: len(self.rows('api', 'host_mappings')) == len(self.computes),
            START_S,
            'host mappings',
        )
        wait_until(self._have_inventories, START_S, 'inventories')

    def _have_inventories(self):
        found = self._placement.rows(
            'SELECT uuid FROM resource_providers '
            'WHERE id IN (SELECT resource_provider_id FROM inventories)'
        )
        return self.providers().keys() <= {uuid for (uuid,) in found}

    def __getitem__(self, name):
        """A running program of the peer."""
        return self.running[name]

    def wait_compute(self, name):
        """Wait until a compute takes messages."""
        url = self._cell_urls[self.computes[name][0]]
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
            for cell in ('cell0', *self.cells)
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
            for cell in self.cells
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
        for name, (cell, _) in self.computes.items():
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
        cell, _ = self.computes[host]
        moves = self.rows(
            cell, 'migrations', source_compute=host, migration_type='evacuation'
        )
        return all(move['status'] == 'completed' for move in moves)

    def left_over(self):
        """Describe what is there besides the hosts: instances, requests, usage."""
        left = [
            f'{row["uuid"]} in {cell}, {row["vm_state"]}'
            for cell in ('cell0', *self.cells)
            for row in self.rows(cell, 'instances', deleted=0)
        ]
        left += [str(row) for row in self.rows('api', 'build_requests')]
        for uuid, name in self.providers().items():
            path = f'/resource_providers/{uuid}/usages'
            usages = self._placement.get(path)['usages']
            left += [f'{name}: {usages}'] if any(usages.values()) else []
        return left

    def close(self):
        at_once(each.kill for each in (*self.schedulers, *self.running.values()))
        for uuid in self.providers():
            self._placement.request('DELETE', f'/resource_providers/{uuid}')
        self._neighbours.stop()
        super().close()
