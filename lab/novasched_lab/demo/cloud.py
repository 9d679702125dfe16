# SPDX-License-Identifier: Apache-2.0
"""The cloud of the demo: servers, configuration and programs, for a while."""

from __future__ import annotations

import configparser
import contextlib
import functools
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import amqp  # type: ignore[import-untyped]
import oslo_messaging  # type: ignore[import-untyped]
from oslo_config import cfg

from novasched import errors
from novasched.db import engines
from novasched.rpc.transport import (
    CONNECTION_ERRORS,
    brokers,
    check,
    connection_to,
    is_rabbit,
    transport_from_conf,
)
from novasched_lab.api import service
from novasched_lab.api.service import ApiContext
from novasched_lab.compute import fleet
from novasched_lab.host_inventory import SimulatedHost, provider_of
from novasched_lab.local.databases import (
    CELL,
    DatabaseUrls,
    GivenServers,
    database_urls,
    made_databases,
    temporary_directory,
)
from novasched_lab.local.placement import adapter_to, serving
from novasched_lab.resource_providers import VERSION, held_on, withdraw
from novasched_lab.rpc_api import COMPUTE, CONDUCTOR, SCHEDULER

ZONES = ('az1', 'az2')
REFUSALS = 0.05
REFUSED = 'm1.medium'
"""The flavor that hosts refuse now and then."""
START_S = 120.0
STOP_S = 30.0
LAST_LINES = 3

RUN = 'import sys; from {0} import main; sys.exit(main(sys.argv[1:]))'
MODULES = {
    'compute': 'novasched_lab.cmd.compute',
    'conductor': 'novasched_lab.cmd.conductor',
    'scheduler': 'novasched.cmd.scheduler',
}
OPTION = '--broker'
TOPICS = (SCHEDULER, CONDUCTOR, COMPUTE)
EXCHANGE = 'novasched-demo'


class RunningCloud(NamedTuple):
    api: ApiContext
    hosts: Sequence[SimulatedHost]
    placement: str


@contextlib.contextmanager
def running(
    servers: GivenServers, count: int, progress: Callable[[str], None]
) -> Iterator[RunningCloud]:
    """Run scheduler, conductor and computes while the context lasts.

    Whatever was made is gone when it is left. Raises errors.SetupError and
    errors.StoreFailed.
    """
    broker_url = servers.broker or ''
    broker = DemoBroker(broker_url)
    broker.check()
    with contextlib.ExitStack() as stack:
        directory = temporary_directory(stack)
        conf_path, fleet_path = directory / 'nova.conf', directory / 'fleet.toml'
        fleet_path.write_text(fleet_text(count))
        hosts = fleet.read(fleet_path).hosts
        progress('starting databases and placement')
        urls = database_urls(servers.database, directory)
        place = stack.enter_context(serving(servers.placement, directory))
        _write(conf_path, options(broker_url, urls, place, directory))
        conf = service.configure([str(conf_path)])
        stack.enter_context(made_databases(conf, urls, broker_url))
        stack.callback(broker.clear, [host.name for host in hosts])
        if servers.placement is not None:
            stack.callback(_withdraw, place, hosts)

        def start(name: str, *arguments: str | Path) -> ChildProgram:
            words = ('--config-file', conf_path, *arguments)
            return stack.enter_context(program(name, directory, *words))

        api = stack.enter_context(service.opened(conf))
        progress(f'starting {count} hosts')
        computes = start(COMPUTE, '--fleet', fleet_path)
        last = f'{COMPUTE}.{hosts[-1].name}'
        computes.wait_until(lambda: bool(broker.consumers(last)))
        api.database.map_new_hosts(functools.partial(engines.cell_engine, conf))
        mapped = sum(api.database.host_cell(host.name) is not None for host in hosts)
        if mapped != len(hosts):
            raise errors.SetupError(
                f'{mapped} of {len(hosts)} hosts are mapped to the cell'
            )
        progress('starting scheduler and conductor')
        started = {topic: start(topic) for topic in (SCHEDULER, CONDUCTOR)}
        for topic, child in started.items():
            child.wait_until(lambda topic=topic: bool(broker.consumers(topic)))  # type: ignore[misc]
        yield RunningCloud(api, hosts, place)
        progress('cleaning up')
        for child in (computes, *started.values()):
            child.end()


def fleet_text(hosts: int) -> str:
    """Return hosts in two zones, which refuse a server now and then."""
    second = hosts // 2
    text = ''
    for zone, count in zip(ZONES, (hosts - second, second), strict=True):
        if count:
            text += f"""[[hosts]]
name = "{zone}-host-{{:03}}"
count = {count}
cell = "{CELL}"
zone = "{zone}"
vcpus = 16
memory_mb = 65536
disk_gb = 1000
numa_nodes = 2

"""
    return f"""{text}[[rules]]
outcome = "refuse"
probability = {REFUSALS}
flavors = ["{REFUSED}"]
"""


def options(
    broker: str, urls: DatabaseUrls, place: str, directory: Path
) -> dict[str, dict[str, object]]:
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


def _withdraw(place: str, hosts: Sequence[SimulatedHost]) -> None:
    """Delete the providers of the hosts, with what is left on them."""
    with adapter_to(place) as adapter:
        for host in hosts:
            for consumer in held_on(adapter, host.uuid):
                adapter.delete(f'/allocations/{consumer}', microversion=VERSION)
        withdraw(adapter, [provider_of(host) for host in hosts])


class ChildProgram:
    """A program whose output goes to a file; a context that stops it."""

    def __init__(self, name: str, command: Sequence[str | Path], log: Path) -> None:
        self.name = name
        self._log = log
        with log.open('wb') as file:
            self._process = subprocess.Popen(  # noqa: S603 our own programs
                command,
                stdin=subprocess.DEVNULL,
                stdout=file,
                stderr=subprocess.STDOUT,
                start_new_session=True,  # Ctrl-C is ours alone: we stop it in order
            )

    def __enter__(self) -> ChildProgram:
        return self

    def __exit__(self, *unused: object) -> None:
        self.stop()

    def end(self) -> None:
        """Tell it to stop, and do not wait."""
        if self._process.poll() is None:
            self._process.terminate()

    def stop(self) -> None:
        """Tell it to stop, and after a while make it."""
        self.end()
        try:
            self._process.wait(STOP_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()

    def wait_until(self, so: Callable[[], bool], timeout_s: float = START_S) -> None:
        """Wait until it is ready; raises errors.SetupError if it ends, or does not."""
        end = time.monotonic() + timeout_s
        while not so():
            code = self._process.poll()
            problem = None if code is None else f'ended with {code}'
            if problem is None and time.monotonic() > end:
                problem = f'is not ready after {timeout_s:.0f} s'
            if problem is not None:
                lines = self._log.read_text(errors='replace').strip().splitlines()
                said = ' / '.join(lines[-LAST_LINES:]) or 'it said nothing'
                raise errors.SetupError(f'{self.name} {problem}: {said}')
            time.sleep(0.2)


def program(name: str, directory: Path, *arguments: str | Path) -> ChildProgram:
    command = [sys.executable, '-c', RUN.format(MODULES[name]), *arguments]
    return ChildProgram(f'novasched-{name}', command, directory / f'{name}.log')


class DemoBroker:
    """Looks at the queues of the virtual host; ``url`` is oslo.messaging's."""

    def __init__(self, url: str) -> None:
        self._conf = conf = cfg.ConfigOpts()
        conf([], default_config_files=[], default_config_dirs=[])
        oslo_messaging.TransportURL.parse(conf)  # registers transport_url
        conf.set_override('transport_url', url.replace('$', '$$'))

    def check(self) -> None:
        """Raise errors.OptionError if its virtual host is in use."""
        transport = transport_from_conf(self._conf)
        try:
            if not is_rabbit(self._conf):
                raise errors.OptionError(
                    OPTION,
                    'it is no RabbitMQ',
                    'Write rabbit://user:password@host/vhost',
                )
            check(transport)
        finally:
            transport.cleanup()
        used = [topic for topic in TOPICS if self.consumers(topic) is not None]
        if used:
            raise errors.OptionError(
                OPTION,
                f'its virtual host is in use: there is a queue {used[0]}',
                'Make one for the demo, with rabbitmqctl add_vhost and set_permissions',
            )

    def consumers(self, queue: str) -> int | None:
        """Return how many listen to a queue; None if there is none."""
        with self._channel() as channel:
            try:
                return int(channel.queue_declare(queue, passive=True).consumer_count)
            except amqp.NotFound:
                return None

    def clear(self, hosts: list[str]) -> None:
        """Delete the queues and exchanges of the demo that have no consumer left."""
        with (
            contextlib.suppress(OSError, *CONNECTION_ERRORS),
            self._channel() as channel,
        ):
            for queue in (*TOPICS, *(f'{COMPUTE}.{host}' for host in hosts)):
                channel.queue_delete(queue, if_unused=True)
            for topic in TOPICS:
                channel.exchange_delete(f'{topic}_fanout')
            channel.exchange_delete(EXCHANGE)

    @contextlib.contextmanager
    def _channel(self) -> Iterator[amqp.Channel]:
        host = brokers(self._conf)[0]
        url = oslo_messaging.TransportURL.parse(self._conf)
        with connection_to(host, url) as connection:
            yield connection.channel()
