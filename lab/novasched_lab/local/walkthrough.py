# SPDX-License-Identifier: Apache-2.0
"""The walk-through: a cloud in this process, one request, its record, clean-up."""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import random
import time
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import NamedTuple, TextIO

import oslo_messaging  # type: ignore[import-untyped]
from keystoneauth1.adapter import Adapter
from oslo_config import cfg

from novasched import app, errors
from novasched.db import engines
from novasched.db.cells import UrlDefaults
from novasched.decisions import files
from novasched.decisions.reading import Criteria, DecisionFiles
from novasched.decisions.record import DecisionRecord
from novasched.external.silent import SilentNotifier
from novasched.objects.context import RequestContext
from novasched.objects.request_spec import RequestSpec
from novasched.process import opts
from novasched.rpc import faults, transport
from novasched.rpc.serializer import RequestSerializer
from novasched.rpc.server import SchedulerEndpoint
from novasched.runtime.clock import SYSTEM_CLOCK
from novasched_lab.compute.rows import HostRows, make_aggregates
from novasched_lab.db.api_servers import ApiServers
from novasched_lab.local import cluster
from novasched_lab.local.databases import (
    DatabaseUrls,
    GivenServers,
    database_urls,
    made_databases,
    temporary_directory,
)
from novasched_lab.local.placement import EmbeddedPlacement, adapter_to, check
from novasched_lab.resource_providers import VERSION, Provider, provide, withdraw
from novasched_lab.scheduler_client import SchedulerClient

NO_TRANSPORT = 'none:///'
FILTERS = [
    'ComputeFilter',
    'AvailabilityZoneFilter',
    'AggregateInstanceExtraSpecsFilter',
]
WEIGHERS = ['nova.scheduler.weights.ram.RAMWeigher']


class Progress:
    """Writes what is being done to a stream, after the first seconds."""

    def __init__(self, stream: TextIO, after_s: float = 5) -> None:
        self._stream = stream
        self._from = time.monotonic() + after_s

    def __call__(self, text: str) -> None:
        if time.monotonic() > self._from:
            self._stream.write(f'{text} ...\n')
            self._stream.flush()


class WalkthroughResult(NamedTuple):
    """The record of the decision, read back, and what the instance holds then: amounts
    by class by provider."""

    record: DecisionRecord
    allocations: Mapping[str, Mapping[str, int]]


def run(servers: GivenServers, progress: Callable[[str], None]) -> WalkthroughResult:
    """Schedule the request of the walk-through on a cloud made for it.

    Whatever was made is gone when this returns or raises. Raises
    errors.SetupError or errors.StoreFailed if a server cannot be used.
    """
    walkthrough = cluster.read()
    request = cluster.request_spec(walkthrough)
    with contextlib.ExitStack() as stack:
        directory = temporary_directory(stack)
        urls = database_urls(servers.database, directory)
        conf = configured(urls, servers.broker or 'fake:///', str(directory))
        progress('making the databases')
        databases = made_databases(conf, urls, NO_TRANSPORT, walkthrough.cell_uuid)
        stack.enter_context(databases)
        uuids = fill(conf, urls, walkthrough)
        progress('making the resource providers')
        if servers.placement is None:
            path = directory / 'placement.sqlite'
            adapter = stack.enter_context(EmbeddedPlacement(path))
        else:
            adapter = stack.enter_context(adapter_to(servers.placement))
            check(adapter)
        providers = walkthrough.providers(uuids)
        provide(adapter, providers)
        stack.callback(_withdraw, adapter, providers, request.instance_uuid)
        progress('starting the scheduler')
        with serving(conf, adapter) as client:
            progress('scheduling')
            _ask(client, request)
        held = _allocations(adapter, request.instance_uuid, providers)
        record = _record(conf, request.instance_uuid)
        progress('cleaning up')
        return WalkthroughResult(record, held)


def _record(conf: cfg.ConfigOpts, instance_uuid: str) -> DecisionRecord:
    """Read what the scheduler, which has ended, recorded of a request."""
    decisions = DecisionFiles(files.existing(conf))
    for head in decisions.find(Criteria(server=instance_uuid), 1):
        if (record := decisions.read(head.id)) is not None:
            return record
    raise errors.SetupError('the scheduler has kept no record of its decision')


def _ask(client: SchedulerClient, request: RequestSpec) -> None:
    """Ask as a conductor does; why there is no host is in the record."""
    context = RequestContext(
        user_id=request.user_id, project_id=request.project_id, overwrite=False
    )
    uuids = [request.instance_uuid]
    with contextlib.suppress(faults.WireError, oslo_messaging.RemoteError):
        client.select_destinations(context, request, uuids)


def configured(urls: DatabaseUrls, broker: str, state_path: str) -> cfg.ConfigOpts:
    """Return the options under which the scheduler runs; no file is read."""
    conf = cfg.ConfigOpts()
    opts.register(conf)
    conf([], project='nova', default_config_files=[], default_config_dirs=[])
    oslo_messaging.TransportURL.parse(conf)  # registers transport_url
    for name, value, group in (
        ('transport_url', broker, None),
        ('state_path', state_path, None),
        ('connection', urls.api, 'api_database'),
        ('connection', urls.cell0, 'database'),
        ('enabled_filters', FILTERS, 'filter_scheduler'),
        ('weight_classes', WEIGHERS, 'filter_scheduler'),
        # Else placement would leave only the hosts of the zone.
        ('query_placement_for_availability_zone', False, 'scheduler'),
    ):
        if isinstance(value, str):
            value = value.replace('$', '$$')
        conf.set_override(name, value, group)
    return conf


def fill(
    conf: cfg.ConfigOpts, urls: DatabaseUrls, walkthrough: cluster.Cluster
) -> dict[str, str]:
    """Write the rows of a cluster; return the uuids of its aggregates, by name."""
    api, cell = engines.api_engine(conf), engines.cell_engine(conf, urls.cell1)
    try:
        rows, hosts = HostRows(cell), walkthrough.simulated_hosts()
        rows.register(hosts, walkthrough.usage())
        rows.beat(host.name for host in hosts)
        defaults = UrlDefaults(urls.cell0, NO_TRANSPORT)
        make_engine = functools.partial(engines.cell_engine, conf)
        ApiServers(api, defaults).map_new_hosts(make_engine)
        return make_aggregates(api, walkthrough.aggregates())
    finally:
        api.dispose()
        cell.dispose()


@contextlib.contextmanager
def serving(conf: cfg.ConfigOpts, placement: Adapter) -> Iterator[SchedulerClient]:
    """Let a scheduler serve until the context is left; give a client.

    Exchange and queue have a name of their own, so they get no requests of a cloud that
    uses the same broker. They go when the last connection does.
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
        given = app.Dependencies(
            api_engine=api_engine,
            make_cell_engine=functools.partial(engines.cell_engine, conf),
            placement=placement,
            transport=broker,
            notifier=SilentNotifier(),
            clock=SYSTEM_CLOCK,
            rng=random.Random(),
        )
        scheduler = app.compose(conf, given)
        server = oslo_messaging.get_rpc_server(
            broker,
            target(server=name),
            [SchedulerEndpoint(scheduler.manager, None)],
            serializer=RequestSerializer(),
        )
        scheduler = dataclasses.replace(scheduler, server=server)
        stack.callback(scheduler.stop)
        scheduler.start()
        yield SchedulerClient(conf, broker, target)


def _withdraw(adapter: Adapter, providers: Sequence[Provider], consumer: str) -> None:
    adapter.delete(f'/allocations/{consumer}', microversion=VERSION)
    withdraw(adapter, providers)


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
