# SPDX-License-Identifier: Apache-2.0
"""The cloud of the demo: servers, configuration and programs, for a while."""

from __future__ import annotations

import configparser
import contextlib
import functools
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import sqlalchemy as sa
from oslo_config import cfg
from oslo_utils import timeutils, uuidutils

from novasched import errors
from novasched.db import admin, engines, tables
from novasched.db.transactions import Database
from novasched_lab.api import service
from novasched_lab.api.service import ApiContext
from novasched_lab.compute import fleet
from novasched_lab.db import schema, server_tables
from novasched_lab.demo import processes
from novasched_lab.demo.broker import EXCHANGE, DemoBroker
from novasched_lab.host_inventory import SimulatedHost, provider_of
from novasched_lab.local.placement import adapter_to, serving
from novasched_lab.local.walkthrough import DATABASE, temporary_directory
from novasched_lab.resource_providers import VERSION, held_on, withdraw
from novasched_lab.rpc_api import COMPUTE, CONDUCTOR, SCHEDULER

CELL = 'cell1'
ZONES = ('az1', 'az2')
REFUSALS = 0.05


class CloudOptions(NamedTuple):
    """Which servers to use, None: some of our own; and how many hosts to play."""

    broker: str
    database: str | None
    placement: str | None
    hosts: int


class RunningCloud(NamedTuple):
    """A running cloud; ``placement`` is its URL."""

    api: ApiContext
    hosts: Sequence[SimulatedHost]
    placement: str


@contextlib.contextmanager
def running(
    wanted: CloudOptions, progress: Callable[[str], None]
) -> Iterator[RunningCloud]:
    """Run scheduler, conductor and computes while the context lasts.

    Whatever was made is gone when it is left. Raises errors.SetupError and
    errors.StoreFailed.
    """
    broker = DemoBroker(wanted.broker)
    broker.check()
    with contextlib.ExitStack() as stack:
        directory = temporary_directory(stack)
        text = fleet_text(wanted.hosts)
        (directory / 'fleet.toml').write_text(text)
        hosts = fleet.read(directory / 'fleet.toml').hosts
        progress('starting databases and placement')
        urls = database_urls(wanted.database, directory)
        place = stack.enter_context(serving(wanted.placement, directory))
        path = directory / 'nova.conf'
        _write(path, options(wanted.broker, urls, place, directory))
        conf = service.configure([str(path)])
        drops = wanted.database is not None
        stack.enter_context(made_databases(conf, urls, wanted.broker, drops))
        stack.callback(broker.clear, [host.name for host in hosts])
        if wanted.placement is not None:
            stack.callback(_withdraw, place, hosts)
        start = functools.partial(_start, stack, directory)
        api = stack.enter_context(service.opened(conf))
        progress(f'starting {wanted.hosts} hosts')
        computes = start(COMPUTE, '--fleet', str(directory / 'fleet.toml'))
        last = f'{COMPUTE}.{hosts[-1].name}'
        computes.wait_until(lambda: bool(broker.consumers(last)))
        api.database.map_new_hosts(functools.partial(engines.cell_engine, conf))
        _expect(api, hosts)
        progress('starting scheduler and conductor')
        started = {topic: start(topic) for topic in (SCHEDULER, CONDUCTOR)}
        for topic, process in started.items():
            process.wait_until(lambda topic=topic: bool(broker.consumers(topic)))  # type: ignore[misc]
        yield RunningCloud(api, hosts, place)
        progress('cleaning up')
        for process in (computes, *started.values()):
            process.end()


class DatabaseUrls(NamedTuple):
    """Where the API database is, cell0 and the one cell; all may be the same."""

    api: str
    cell0: str
    cell1: str


def database_urls(url: str | None, directory: Path) -> DatabaseUrls:
    """Return the URL of the database that is named, or of SQLite files."""
    if url is not None:
        return DatabaseUrls(url, url, url)
    names = DatabaseUrls._fields
    return DatabaseUrls(*(f'sqlite:///{directory / name}.sqlite' for name in names))


@contextlib.contextmanager
def made_databases(
    conf: cfg.ConfigOpts, urls: DatabaseUrls, transport_url: str, drops: bool
) -> Iterator[None]:
    """Make the tables, and map both cells; if it ``drops`` them, do so in the end.

    Raises errors.OptionError for a database that has tables, which is left as it is,
    and errors.StoreFailed.
    """
    with contextlib.ExitStack() as stack:
        opened = {url: _opened(conf, url, stack) for url in dict.fromkeys(urls)}
        for url, metadata, create in (
            (urls.api, server_tables.API, schema.create_api),
            *(
                (url, server_tables.CELL, schema.create_cell)
                for url in dict.fromkeys(urls[1:])
            ),
        ):
            if drops:
                stack.callback(schema.drop, opened[url], metadata)
            create(opened[url], DATABASE)
        _map(opened[urls.api], urls, transport_url)
        yield


def _map(api: Database, urls: DatabaseUrls, transport_url: str) -> None:
    """Map both cells; admin.create_cell would not let them share a database."""
    now = timeutils.utcnow()
    admin.map_cell0(api, urls.cell0, now)
    api.insert(
        sa.insert(tables.cell_mappings).values(
            uuid=uuidutils.generate_uuid(),
            name=CELL,
            transport_url=transport_url,
            database_connection=urls.cell1,
            disabled=False,
            created_at=now,
        )
    )


def _opened(conf: cfg.ConfigOpts, url: str, stack: contextlib.ExitStack) -> Database:
    engine = engines.cell_engine(conf, url)
    engines.check(engine, DATABASE)
    return schema.opened_empty(engine, DATABASE, stack)


def fleet_text(hosts: int) -> str:
    """Return hosts in two zones, which refuse a server now and then."""
    share = hosts // len(ZONES)
    counts = {ZONES[0]: hosts - share, ZONES[1]: share}
    return ''.join(
        f"""[[hosts]]
name = "{zone}-host-{{:03}}"
count = {count}
cell = "{CELL}"
zone = "{zone}"
vcpus = 16
memory_mb = 65536
disk_gb = 1000
numa_nodes = 2

"""
        for zone, count in counts.items()
        if count
    ) + (
        f"""[[rules]]
outcome = "refuse"
probability = {REFUSALS}
"""
    )


def options(
    broker: str, urls: DatabaseUrls, place: str, directory: Path
) -> dict[str, dict[str, object]]:
    """Return the options that all programs of the demo run with."""
    return {
        'DEFAULT': {
            'transport_url': broker,
            'control_exchange': EXCHANGE,
            'host': 'novasched-demo',
            'state_path': directory,
            'log_options': False,
        },
        'api_database': {'connection': urls.api},
        'database': {'connection': urls.cell0},
        'oslo_concurrency': {'lock_path': directory / 'locks'},
        'oslo_messaging_rabbit': {
            'amqp_auto_delete': True,
            'rabbit_transient_queues_ttl': 30,
        },
        'placement': {
            'auth_type': 'admin_token',
            'endpoint': place,
            'token': 'admin',
        },
        'scheduler': {'workers': 1},
        'conductor': {'workers': 1},
    }


def _write(path: Path, content: dict[str, dict[str, object]]) -> None:
    parser = configparser.RawConfigParser(default_section='')
    for section, values in content.items():
        parser[section] = {
            name: str(value).replace('$', '$$') for name, value in values.items()
        }
    path.touch(0o600)
    with path.open('w') as file:
        parser.write(file)


def _start(
    stack: contextlib.ExitStack, directory: Path, name: str, *arguments: str
) -> processes.Process:
    path = directory / 'nova.conf'
    made = processes.program(name, directory, '--config-file', path, *arguments)
    return stack.enter_context(made)


def _expect(api: ApiContext, hosts: Sequence[SimulatedHost]) -> None:
    """Raises errors.SetupError if not all hosts are mapped."""
    found = sum(api.database.host_cell(host.name) is not None for host in hosts)
    if found != len(hosts):
        raise errors.SetupError(f'{found} of {len(hosts)} hosts are mapped to the cell')


def _withdraw(place: str, hosts: Sequence[SimulatedHost]) -> None:
    """Delete the providers of the hosts, with what is left on them."""
    with adapter_to(place) as adapter:
        for host in hosts:
            for consumer in held_on(adapter, host.uuid):
                adapter.delete(f'/allocations/{consumer}', microversion=VERSION)
        withdraw(adapter, [provider_of(host) for host in hosts])
