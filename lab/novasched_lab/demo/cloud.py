# SPDX-License-Identifier: Apache-2.0
"""The cloud of the demo: servers, configuration and programs, for a while."""

from __future__ import annotations

import configparser
import contextlib
import functools
import signal
import tempfile
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import sqlalchemy as sa

from novasched import errors
from novasched.db import engines, tables
from novasched_lab.api import service
from novasched_lab.api.service import Parts
from novasched_lab.compute import fleet
from novasched_lab.demo import databases, placement, processes
from novasched_lab.demo.broker import EXCHANGE, Broker
from novasched_lab.local.placement import adapter_to
from novasched_lab.wire import COMPUTE, CONDUCTOR, SCHEDULER

ZONES = ('az1', 'az2')
REFUSALS = 0.05


class Wanted(NamedTuple):
    """Which servers to use, None: some of our own; and how many hosts to play."""

    broker: str
    database: str | None
    placement: str | None
    hosts: int


class Cloud(NamedTuple):
    """A running cloud; ``placement`` is its URL."""

    parts: Parts
    hosts: Sequence[fleet.Host]
    placement: str


@contextlib.contextmanager
def running(wanted: Wanted, progress: Callable[[str], None]) -> Iterator[Cloud]:
    """Run scheduler, conductor and computes while the context lasts.

    Whatever was made is gone when it is left. Raises errors.SetupError and
    errors.StoreFailed.
    """
    broker = Broker(wanted.broker)
    broker.check()
    with contextlib.ExitStack() as stack:
        directory = _directory(stack)
        text = fleet_text(wanted.hosts)
        (directory / 'fleet.toml').write_text(text)
        hosts = fleet.read(directory / 'fleet.toml').hosts
        progress('starting databases and placement')
        urls = stack.enter_context(databases.somewhere(wanted.database, directory))
        place = stack.enter_context(placement.serving(wanted.placement, directory))
        path = directory / 'nova.conf'
        _write(path, options(wanted.broker, urls, place, directory))
        conf = service.configure([str(path)])
        drops = wanted.database is not None
        stack.enter_context(databases.made(conf, urls, wanted.broker, drops))
        stack.callback(broker.clear, [host.name for host in hosts])
        if wanted.placement is not None:
            stack.callback(_withdraw, place, hosts)
        start = functools.partial(_start, stack, directory)
        parts = stack.enter_context(service.opened(conf))
        progress(f'starting {wanted.hosts} hosts')
        computes = start(COMPUTE, '--fleet', str(directory / 'fleet.toml'))
        last = f'{COMPUTE}.{hosts[-1].name}'
        computes.wait_until(lambda: bool(broker.consumers(last)))
        parts.api.map_new_hosts(functools.partial(engines.cell_engine, conf))
        _expect(parts, len(hosts))
        progress('starting scheduler and conductor')
        started = {topic: start(topic) for topic in (SCHEDULER, CONDUCTOR)}
        for topic, process in started.items():
            process.wait_until(lambda topic=topic: bool(broker.consumers(topic)))  # type: ignore[misc]
        yield Cloud(parts, hosts, place)
        progress('cleaning up')
        for process in (computes, *started.values()):
            process.end()


def fleet_text(hosts: int) -> str:
    """Return hosts in two zones, which refuse a server now and then."""
    share = hosts // len(ZONES)
    counts = {ZONES[0]: hosts - share, ZONES[1]: share}
    return ''.join(
        f"""[[hosts]]
name = "{zone}-host-{{:03}}"
count = {count}
cell = "{databases.CELL}"
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
    broker: str, urls: databases.Urls, place: str, directory: Path
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


def _directory(stack: contextlib.ExitStack) -> Path:
    """Make a directory that is gone at the end, whenever a signal comes."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT, signal.SIGTERM})
    try:
        made = tempfile.TemporaryDirectory(
            prefix='novasched-', ignore_cleanup_errors=True
        )
        return Path(stack.enter_context(made))
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _start(
    stack: contextlib.ExitStack, directory: Path, name: str, *arguments: str
) -> processes.Process:
    path = directory / 'nova.conf'
    made = processes.program(name, directory, '--config-file', path, *arguments)
    return stack.enter_context(made)


def _expect(parts: Parts, hosts: int) -> None:
    """Raises errors.SetupError if not all hosts are mapped."""
    query = sa.select(sa.func.count()).select_from(tables.host_mappings)
    with parts.database.read() as connection:
        found = connection.execute(query).scalar()
    if found != hosts:
        raise errors.SetupError(f'{found} of {hosts} hosts are mapped to the cell')


def _withdraw(place: str, hosts: Sequence[fleet.Host]) -> None:
    """Delete the providers of the hosts, with what is left on them."""
    with adapter_to(place) as adapter:
        for host in hosts:
            url = f'/resource_providers/{host.uuid}'
            held = adapter.get(f'{url}/allocations', microversion='1.36')
            if held.status_code == 200:
                for consumer in held.json()['allocations']:
                    adapter.delete(f'/allocations/{consumer}', microversion='1.36')
            adapter.delete(url, microversion='1.36')
