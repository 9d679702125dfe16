# SPDX-License-Identifier: Apache-2.0
"""The walk-through: a cloud in this process, one request, a report, clean-up."""

from __future__ import annotations

import contextlib
import dataclasses
import random
import signal
import tempfile
import time
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple, TextIO

import oslo_messaging  # type: ignore[import-untyped]
import sqlalchemy as sa
from keystoneauth1.adapter import Adapter
from oslo_config import cfg
from oslo_utils import timeutils

from novasched import app, errors, opts
from novasched.clock import SYSTEM_CLOCK
from novasched.db import engines, tables
from novasched.db.transactions import Database
from novasched.objects.context import RequestContext
from novasched.objects.request_spec import RequestSpec
from novasched.objects.selection import Selection
from novasched.rpc import faults, transport
from novasched.rpc.client import SchedulerClient
from novasched.rpc.serializer import RequestSerializer
from novasched.rpc.server import SchedulerEndpoint
from novasched.scheduler.trace import Decision
from novasched_lab.db import schema
from novasched_lab.local import cluster
from novasched_lab.local.placement import EmbeddedPlacement, adapter_to, check
from novasched_lab.local.report import Report, report
from novasched_lab.resource_providers import VERSION, Provider, provide, withdraw

DATABASE = '--database'
FILTERS = [
    'ComputeFilter',
    'AvailabilityZoneFilter',
    'AggregateInstanceExtraSpecsFilter',
]
WEIGHERS = ['nova.scheduler.weights.ram.RAMWeigher']


class GivenServers(NamedTuple):
    """URLs of servers to use; None: what the process has instead."""

    broker: str | None = None
    database: str | None = None
    placement: str | None = None


class Progress:
    """Writes what is being done to a stream, after the first seconds."""

    def __init__(self, stream: TextIO, after_s: float = 5) -> None:
        self._stream = stream
        self._from = time.monotonic() + after_s

    def __call__(self, text: str) -> None:
        if time.monotonic() > self._from:
            self._stream.write(f'{text} ...\n')
            self._stream.flush()


def run(servers: GivenServers, progress: Callable[[str], None]) -> Report:
    """Schedule the request of the walk-through on a cloud made for it.

    Whatever was made is gone when this returns or raises. Raises
    errors.SetupError or errors.StoreFailed if a server cannot be used.
    """
    walkthrough = cluster.read()
    request = cluster.request_spec(walkthrough)
    with contextlib.ExitStack() as stack:
        directory = temporary_directory(stack)
        conf = configured(servers, directory)
        progress('making the databases')
        stack.enter_context(filled_databases(walkthrough, conf))
        progress('making the resource providers')
        adapter = stack.enter_context(_placement(servers.placement, directory))
        providers = cluster.providers(walkthrough)
        stack.enter_context(_provided(adapter, providers, request.instance_uuid))
        progress('starting the scheduler')
        served = stack.enter_context(serving(conf, adapter))
        progress('scheduling')
        made = _scheduled(request, served, adapter, providers)
        progress('cleaning up')
        return made


def temporary_directory(stack: contextlib.ExitStack) -> Path:
    """Make a directory that is gone at the end, whenever a signal comes."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT, signal.SIGTERM})
    try:
        made = tempfile.TemporaryDirectory(
            prefix='novasched-', ignore_cleanup_errors=True
        )
        return Path(stack.enter_context(made))
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def configured(servers: GivenServers, directory: Path) -> cfg.ConfigOpts:
    """Return the options under which the scheduler runs; no file is read."""
    conf = cfg.ConfigOpts()
    opts.register(conf)
    conf([], project='nova', default_config_files=[], default_config_dirs=[])
    oslo_messaging.TransportURL.parse(conf)  # registers transport_url
    api, cell = (f'sqlite:///{directory / name}.sqlite' for name in ('api', 'cell'))
    if servers.database:
        api = cell = servers.database
    for name, value, group in (
        ('transport_url', servers.broker or 'fake:///', None),
        ('state_path', str(directory), None),
        ('connection', api, 'api_database'),
        ('connection', cell, 'database'),
        ('enabled_filters', FILTERS, 'filter_scheduler'),
        ('weight_classes', WEIGHERS, 'filter_scheduler'),
        # Else placement would leave only the hosts of the zone.
        ('query_placement_for_availability_zone', False, 'scheduler'),
    ):
        if isinstance(value, str):
            value = value.replace('$', '$$')
        conf.set_override(name, value, group)
    return conf


@contextlib.contextmanager
def filled_databases(
    walkthrough: cluster.Cluster, conf: cfg.ConfigOpts
) -> Iterator[None]:
    """Make the tables and the rows of a cluster; drop the tables in the end.

    The databases are those of [api_database] and [database], which may be one: no
    table of the one has a name of the other's. Raises errors.OptionError if one has
    tables, which are left as they are, and errors.StoreFailed.
    """
    now = timeutils.utcnow().replace(microsecond=0)
    api_rows = cluster.api_rows(walkthrough, conf.database.connection, now)
    with contextlib.ExitStack() as stack:
        api = schema.opened_empty(engines.api_engine(conf), DATABASE, stack)
        cell = schema.opened_empty(engines.main_engine(conf), DATABASE, stack)
        stack.callback(schema.drop, api, tables.API)
        schema.create_api(api, DATABASE)
        _insert(api, tables.API, api_rows)
        stack.callback(schema.drop, cell, tables.CELL)
        schema.create_cell(cell, DATABASE)
        _insert(cell, tables.CELL, cluster.cell_rows(walkthrough, now))
        yield


def _insert(database: Database, metadata: sa.MetaData, content: cluster.Rows) -> None:
    with database.write() as connection:
        for name, rows in content.items():
            connection.execute(metadata.tables[name].insert(), rows)


class NoNotifications:
    """Sends no notifications. Satisfies ports.Notifier."""

    def select_destinations(
        self, context: RequestContext, spec: RequestSpec, phase: str
    ) -> None: ...


@dataclasses.dataclass(frozen=True)
class Served:
    """A scheduler that takes requests at ``target``; ``decisions`` so far."""

    conf: cfg.ConfigOpts
    transport: Any
    target: Any
    decisions: list[Decision]

    def ask(self, request: RequestSpec) -> list[Selection]:
        """Send select_destinations as a conductor does, for one instance.

        Returns the claimed host and its alternates. Raises faults.WireError or
        oslo.messaging's RemoteError when the scheduler has none.
        """
        client = SchedulerClient(self.conf, self.transport, self.target)
        context = RequestContext(
            user_id=request.user_id, project_id=request.project_id, overwrite=False
        )
        (selections,) = client.select_destinations(
            context, request, [request.instance_uuid]
        )
        return selections


@contextlib.contextmanager
def serving(conf: cfg.ConfigOpts, placement: Adapter) -> Iterator[Served]:
    """Compose a scheduler and let it serve until the context is left.

    Exchange and queue have a name of their own, so that requests of a cloud that
    uses the same broker do not come here; they go when the last connection does.
    """
    with contextlib.ExitStack() as stack:
        broker = transport.transport_from_conf(conf)
        stack.callback(broker.cleanup)
        transport.check(broker)
        if 'oslo_messaging_rabbit' in conf:
            conf.set_override('amqp_auto_delete', True, 'oslo_messaging_rabbit')
        api_engine = engines.api_engine(conf)
        stack.callback(api_engine.dispose)
        name = f'novasched-demo-{uuid.uuid4()}'
        target = oslo_messaging.Target(exchange=name, topic=name)
        served = Served(conf, broker, target, [])
        given = app.Dependencies(
            api_engine=api_engine,
            make_cell_engine=lambda url: engines.cell_engine(conf, url),
            placement=placement,
            transport=broker,
            notifier=NoNotifications(),
            clock=SYSTEM_CLOCK,
            rng=random.Random(),
            on_decision=served.decisions.append,
        )
        scheduler = app.compose(conf, given)
        scheduler = dataclasses.replace(
            scheduler,
            server=oslo_messaging.get_rpc_server(
                broker,
                served.target(server=name),
                [SchedulerEndpoint(scheduler.manager, None)],
                serializer=RequestSerializer(),
            ),
        )
        stack.callback(scheduler.stop)
        scheduler.start()
        yield served


@contextlib.contextmanager
def _placement(url: str | None, directory: Path) -> Iterator[Adapter]:
    if url is None:
        with EmbeddedPlacement(directory / 'placement.sqlite') as adapter:
            yield adapter
    else:
        with adapter_to(url) as adapter:
            check(adapter)
            yield adapter


@contextlib.contextmanager
def _provided(
    adapter: Adapter, providers: Sequence[Provider], consumer: str
) -> Iterator[None]:
    provide(adapter, providers)
    try:
        yield
    finally:
        adapter.delete(f'/allocations/{consumer}', microversion=VERSION)
        withdraw(adapter, providers)


def _scheduled(
    request: RequestSpec,
    served: Served,
    adapter: Adapter,
    providers: Sequence[Provider],
) -> Report:
    selections: list[Selection] = []
    failure = None
    started = time.monotonic()
    try:
        selections = served.ask(request)
    except faults.WireError as error:
        failure = str(error)
    except oslo_messaging.RemoteError as error:
        failure = str(error.value)
    seconds = time.monotonic() - started
    held = _allocations(adapter, request.instance_uuid, providers)
    decision = served.decisions[0] if served.decisions else None
    return report(request, decision, selections, held, seconds, failure)


def _allocations(
    adapter: Adapter, consumer: str, providers: Sequence[Provider]
) -> Mapping[str, Mapping[str, int]]:
    """Read back what the instance holds: provider name to class to amount."""
    names = {provider.uuid: provider.name for provider in providers}
    url = f'/allocations/{consumer}'
    response = adapter.get(url, microversion=VERSION)
    if response.status_code != 200:
        raise errors.SetupError(f'GET {url}: {response.text}')
    return {
        names.get(provider, provider): dict(sorted(held['resources'].items()))
        for provider, held in response.json()['allocations'].items()
    }
