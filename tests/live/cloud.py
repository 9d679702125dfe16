# SPDX-License-Identifier: Apache-2.0
"""A small cloud in two cells, as its databases and placement know it."""

import configparser
import contextlib
import datetime
import threading
from functools import partial
from pathlib import Path
from typing import NamedTuple

import sqlalchemy as sa

from tests.live.hosts import HOSTS, ZONES, compute_node_row, name_uuid, now, service_row
from tests.live.servers.process import at_once, run

CELLS = ('cell1', 'cell2')
HEARTBEAT_S = 10
TRAITS = ('OWNER_NOVA', 'COMPUTE_NODE', 'COMPUTE_IMAGE_TYPE_QCOW2', 'HW_CPU_X86_AVX2')


_TABLES = {}
"""Statements that make the tables of an API database and of a cell's in MariaDB, by who
made them first: migrations take half a minute a cloud."""


def lasting_engine(url):
    """Connect as a test does: to servers that a test before may have restarted."""
    return sa.create_engine(url, pool_pre_ping=True)


class Servers(NamedTuple):
    """What the programs of a cloud share."""

    rabbitmq: object
    database: object
    """A server of databases: `create_database(name)` gives a URL."""
    placement: object
    keystone: object


class Split(NamedTuple):
    """Two database servers for one cloud: the second has those of the second cell."""

    first: object
    second: object

    def create_database(self, name):
        server = self.second if name.endswith('cell2') else self.first
        return server.create_database(name)


@contextlib.contextmanager
def built(made, *more):
    """Build a cloud; close it in the end."""
    try:
        made.build(*more)
        yield made
    finally:
        made.close()


class Cloud:
    """Databases made by a `nova-manage`, rows as computes and the API write them."""

    hosts = {host.name: host for host in HOSTS}
    zones = ZONES
    cells = CELLS
    now = staticmethod(now)
    maker = 'ours'
    """Whose nova-manage makes the tables."""

    def __init__(self, directory, servers, manage, *, prefix='', transport_url=None):
        """Take the Servers and the `nova-manage` that makes the tables.

        Another cloud on the same server has a prefix to the names of its databases.
        """
        self.dir = Path(directory)
        self.dir.mkdir(parents=True, exist_ok=True)
        self._manage = manage
        self._rabbitmq, server, self._placement, self._keystone = servers
        self.transport_url = transport_url or self._rabbitmq.url()
        self.urls = {
            name: server.create_database(f'{prefix}nova_{name}')
            for name in ('api', 'cell0', *self.cells)
        }
        self._engines = {name: lasting_engine(url) for name, url in self.urls.items()}
        self._tables = {}
        self._silent = set()
        self._ended = threading.Event()
        self.beats = threading.Lock()
        """Who holds it keeps the hosts from beating."""
        self._heart = threading.Thread(target=self._beat, daemon=True)

    def build(self):
        """Make the tables, the cells and all rows; keep the services up."""
        self.make_tables(self.urls)
        self._make_cells()
        self._write_api()
        for cell in self.cells:
            self._write_cell(cell)
        self.write_placement()
        self._heart.start()

    def close(self):
        """Let the heartbeats end and drop the connections."""
        self._ended.set()
        if self._heart.is_alive():
            self._heart.join(10)
        for engine in self._engines.values():
            engine.dispose()

    # -- configuration

    def write_conf(self, path, *, transport_url=None, **sections):
        """Write a nova.conf: stock settings but for `sections`, and give its path.

        A section is a dict of options; None takes an option away.
        """
        options = {
            'DEFAULT': {
                'transport_url': transport_url or self.transport_url,
                'host': 'live-scheduler',
                'state_path': str(self.dir),
            },
            'api_database': {'connection': self.urls['api']},
            'database': {'connection': self.urls['cell0']},
            'oslo_concurrency': {'lock_path': str(self.dir / 'locks')},
            'placement': {
                'auth_type': 'password',
                'auth_url': self._keystone.url,
                'username': 'nova',
                'password': 'placement-secret',
                'project_name': 'service',
                'user_domain_name': 'Default',
                'project_domain_name': 'Default',
                'region_name': 'RegionOne',
            },
            'scheduler': {'workers': 1},
        }
        for section, changes in sections.items():
            options.setdefault(section, {}).update(changes)
        parser = configparser.RawConfigParser(default_section='')
        for section, values in options.items():
            parser[section] = {
                key: str(value) for key, value in values.items() if value is not None
            }
        with Path(path).open('w') as file:
            parser.write(file)
        return Path(path)

    # -- tables and cells

    def make_tables(self, urls, prefix=''):
        """Have tables made in empty databases, by what they are: `api`, or a cell's.

        In MariaDB those of each kind are made once, and copied then. The files for
        `nova-manage` have names with the prefix.
        """
        for name, url in urls.items():
            is_api, is_copied = name == 'api', url.startswith('mysql')
            conf = self.write_conf(
                self.dir / f'{prefix}{name}.conf',
                api_database={'connection': url if is_api else self.urls['api']},
                database={'connection': self.urls['cell0'] if is_api else url},
            )
            kind = self.maker, is_api
            if is_copied and kind in _TABLES:
                _execute(url, _TABLES[kind])
                continue
            sync = ('api_db', 'sync') if is_api else ('db', 'sync', '--local_cell')
            self.manage(conf, *sync)
            if is_copied:
                _TABLES[kind] = _statements(url)

    def _manage_all(self, commands):
        at_once((partial(self.manage, *command) for command in commands), most=2)

    def manage(self, conf, *words):
        """Run the `nova-manage` of this cloud; give its output."""
        return run([self._manage, '--config-file', conf, *words])

    def _make_cells(self):
        conf = self.dir / 'cell0.conf'
        commands = [('map_cell0', '--database_connection', self.urls['cell0'])] + [
            (
                'create_cell',
                '--name',
                cell,
                '--database_connection',
                self.urls[cell],
                '--transport-url',
                self.cell_transport_url(cell),
            )
            for cell in self.cells
        ]
        self._manage_all([(conf, 'cell_v2', *words) for words in commands])

    def cell_transport_url(self, cell):
        """No two cells may share one; a scheduler never goes there."""
        return self.transport_url + cell

    def cell_uuid(self, name):
        """The uuid that `nova-manage` gave a cell."""
        (row,) = self.rows('api', 'cell_mappings', name=name)
        return row['uuid']

    # -- rows

    def table(self, database, name):
        """A table as the database describes it."""
        key = (database, name)
        if key not in self._tables:
            self._tables[key] = sa.Table(
                name, sa.MetaData(), autoload_with=self._engines[database]
            )
        return self._tables[key]

    def insert(self, database, table, rows):
        """Write new rows, given as dicts that share their keys."""
        with self._engines[database].begin() as connection:
            connection.execute(sa.insert(self.table(database, table)), list(rows))

    def rows(self, database, table, **where):
        """Read rows as dicts, narrowed to equal columns."""
        found = self.table(database, table)
        query = sa.select(found).filter_by(**where)
        with self._engines[database].connect() as connection:
            return [dict(row) for row in connection.execute(query).mappings()]

    def update(self, database, table, values, **where):
        """Change rows, narrowed to equal columns."""
        found = self.table(database, table)
        change = sa.update(found).filter_by(**where).values(**values)
        with self._engines[database].begin() as connection:
            connection.execute(change)

    def delete(self, database, table, **where):
        """Take rows away, narrowed to equal columns."""
        change = sa.delete(self.table(database, table)).filter_by(**where)
        with self._engines[database].begin() as connection:
            connection.execute(change)

    def _write_api(self):
        at = now()
        cells = {row['name']: row['id'] for row in self.rows('api', 'cell_mappings')}
        self.insert(
            'api',
            'host_mappings',
            [
                {'created_at': at, 'cell_id': cells[host.cell], 'host': host.name}
                for host in self.hosts.values()
            ],
        )
        self.insert(
            'api',
            'aggregates',
            [
                {'created_at': at, 'id': number, 'uuid': name_uuid(zone), 'name': zone}
                for number, zone in enumerate(self.zones, 1)
            ],
        )
        self.insert(
            'api',
            'aggregate_metadata',
            [
                {
                    'created_at': at,
                    'aggregate_id': number,
                    'key': 'availability_zone',
                    'value': zone,
                }
                for number, zone in enumerate(self.zones, 1)
            ],
        )
        self.insert(
            'api',
            'aggregate_hosts',
            [
                {
                    'created_at': at,
                    'aggregate_id': self.zones.index(host.zone) + 1,
                    'host': host.name,
                }
                for host in self.hosts.values()
            ],
        )

    def _write_cell(self, cell):
        hosts = [host for host in self.hosts.values() if host.cell == cell]
        self.insert(cell, 'services', [service_row(host) for host in hosts])
        self.insert(cell, 'compute_nodes', [compute_node_row(host) for host in hosts])

    def heartbeat(self):
        """Make every host that is not down seen up now."""
        for cell in self.cells:
            services = self.table(cell, 'services')
            beating = [
                h.name for h in self.hosts.values() if h.cell == cell and not h.down
            ]
            names = [name for name in beating if name not in self._silent]
            change = (
                sa.update(services)
                .where(services.c.host.in_(names))
                .values(
                    last_seen_up=now(),
                    updated_at=now(),
                    report_count=services.c.report_count + 1,
                )
            )
            with self._engines[cell].begin() as connection:
                connection.execute(change)

    def silence(self, name):
        """Let a host's heartbeats have ended two hours ago."""
        seen = now() - datetime.timedelta(hours=2)
        with self.beats:  # none that has begun may come after it
            self._silent.add(name)
            self.update(
                self.hosts[name].cell, 'services', {'last_seen_up': seen}, host=name
            )

    def revive(self, name):
        """Let a silenced host beat again."""
        self._silent.discard(name)
        self.heartbeat()

    def _beat(self):
        while not self._ended.wait(HEARTBEAT_S):
            try:
                with self.beats:
                    self.heartbeat()
            except sa.exc.SQLAlchemyError:
                # A test has stopped the server; the next beat finds it again.
                continue

    # -- placement

    def write_placement(self):
        """Write the providers, unless they are there already."""
        known = self._placement.get('/resource_providers')['resource_providers']
        for host in self.hosts.values():
            if host.uuid not in {provider['uuid'] for provider in known}:
                self._write_provider(host)

    def _write_provider(self, host):
        place = self._placement
        path = f'/resource_providers/{host.uuid}'
        place.request(
            'POST', '/resource_providers', {'uuid': host.uuid, 'name': host.node}
        )
        place.put(
            f'{path}/inventories',
            {
                'resource_provider_generation': 0,
                'inventories': {
                    'VCPU': _inventory(host.vcpus),
                    'MEMORY_MB': _inventory(host.memory_mb),
                    'DISK_GB': _inventory(host.disk_gb),
                },
            },
        )
        place.put(
            f'{path}/traits',
            {'resource_provider_generation': 1, 'traits': list(TRAITS)},
        )
        place.put(
            f'{path}/aggregates',
            {'resource_provider_generation': 2, 'aggregates': [name_uuid(host.zone)]},
        )


def _statements(url):
    """Return the statements that make the tables of a database, and their rows."""
    found = [('SET FOREIGN_KEY_CHECKS = 0', None)]
    engine = sa.create_engine(url, poolclass=sa.NullPool)
    with engine.connect() as connection:
        for (table,) in connection.exec_driver_sql('SHOW TABLES').all():
            shown = connection.exec_driver_sql(f'SHOW CREATE TABLE `{table}`')
            found.append((shown.one()[1].replace('%', '%%'), None))
            rows = connection.exec_driver_sql(f'SELECT * FROM `{table}`').all()
            if rows:
                places = ', '.join(['%s'] * len(rows[0]))
                insert = f'INSERT INTO `{table}` VALUES ({places})'
                found.append((insert, [tuple(row) for row in rows]))
    return found


def _execute(url, statements):
    with sa.create_engine(url, poolclass=sa.NullPool).begin() as connection:
        for statement, rows in statements:
            connection.exec_driver_sql(statement, rows)


def _inventory(total):
    return {'total': total, 'max_unit': total, 'allocation_ratio': 1.0}
