# SPDX-License-Identifier: Apache-2.0
"""The walk-through: make a cloud, send one request, tell what happened, clean up."""

from __future__ import annotations

import contextlib
import signal
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple, TextIO

import oslo_messaging  # type: ignore[import-untyped]
from keystoneauth1.adapter import Adapter
from oslo_config import cfg

from novasched import errors, opts
from novasched.objects.request_spec import RequestSpec
from novasched.objects.selection import Selection
from novasched.rpc import faults
from novasched_lab.local import cluster, databases
from novasched_lab.local.placement import (
    VERSION,
    EmbeddedPlacement,
    Provider,
    adapter_to,
    check,
    provide,
    withdraw,
)
from novasched_lab.local.render import Report
from novasched_lab.local.report import report
from novasched_lab.local.serving import Served, serving

FILTERS = [
    'ComputeFilter',
    'AvailabilityZoneFilter',
    'AggregateInstanceExtraSpecsFilter',
]
WEIGHERS = ['nova.scheduler.weights.ram.RAMWeigher']


class Servers(NamedTuple):
    """URLs of servers to use; None: what the process has instead."""

    broker: str | None = None
    database: str | None = None
    placement: str | None = None


class Progress:
    """Tells what is being done, once it takes longer than people like to wait."""

    def __init__(self, stream: TextIO, after_s: float = 5) -> None:
        self._stream = stream
        self._from = time.monotonic() + after_s

    def __call__(self, text: str) -> None:
        if time.monotonic() > self._from:
            self._stream.write(f'{text} ...\n')
            self._stream.flush()


def run(servers: Servers, progress: Callable[[str], None]) -> Report:
    """Schedule the request of the walk-through on a cloud made for it.

    Whatever was made is gone when this returns or raises. Raises
    errors.SetupError or errors.StoreFailed if a server cannot be used.
    """
    walkthrough = cluster.read()
    request = cluster.request_spec(walkthrough)
    with contextlib.ExitStack() as stack:
        directory = _directory(stack)
        conf = configured(servers, directory)
        progress('making the databases')
        stack.enter_context(databases.filled(walkthrough, conf))
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


def _directory(stack: contextlib.ExitStack) -> Path:
    """Make a directory that is gone at the end, whenever a signal comes."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT, signal.SIGTERM})
    try:
        made = tempfile.TemporaryDirectory(prefix='novasched-')
        return Path(stack.enter_context(made))
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def configured(servers: Servers, directory: Path) -> cfg.ConfigOpts:
    """Return the options under which the scheduler runs; no file is read."""
    conf = cfg.ConfigOpts()
    opts.register(conf)
    conf([], project='nova', default_config_files=[], default_config_dirs=[])
    oslo_messaging.TransportURL.parse(conf)  # registers transport_url
    urls = databases.in_files(directory)
    if servers.database:
        urls = databases.Urls(servers.database, servers.database)
    for name, value, group in (
        ('transport_url', servers.broker or 'fake:///', None),
        ('state_path', str(directory), None),
        ('connection', urls.api, 'api_database'),
        ('connection', urls.cell, 'database'),
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
