# SPDX-License-Identifier: Apache-2.0
"""A host at work, and what all hosts of a process work with."""

from __future__ import annotations

import contextlib
import logging
import threading
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import oslo_messaging  # type: ignore[import-untyped]

from novasched import errors
from novasched.objects.context import RequestContext
from novasched.objects.instance import Instance, InstanceList
from novasched_lab.allocations import Allocations
from novasched_lab.compute.book import Book
from novasched_lab.compute.fleet import Host
from novasched_lab.compute.inventories import Inventories
from novasched_lab.compute.machines import Provider, providers_of
from novasched_lab.compute.rows import FleetRows
from novasched_lab.compute.rules import Rules
from novasched_lab.store.stores import CellServers
from novasched_lab.wire import ComputeClient, ConductorClient

LOG = logging.getLogger(__name__)

SILENCE: tuple[type[Exception], ...] = (
    oslo_messaging.MessagingException,
    oslo_messaging.MessageUndeliverable,
)
"""What a message that reaches nobody raises."""


class News(Protocol):
    """Tells schedulers what became of instances; see wire.SchedulerNews."""

    def update_instance_info(
        self, context: RequestContext, host: str, instances: InstanceList
    ) -> None: ...

    def delete_instance_info(
        self, context: RequestContext, host: str, instance_uuid: str
    ) -> None: ...

    def sync_instance_info(
        self, context: RequestContext, host: str, instance_uuids: Sequence[str]
    ) -> None: ...


@dataclass(frozen=True)
class Parts:
    """What hosts work with; ``news`` is None where schedulers are told nothing."""

    allocations: Allocations
    inventories: Inventories
    conductor: ConductorClient
    news: News | None
    rules: Rules
    checks_policy: bool = True
    counts_failures: bool = True


class Station:
    """A host at work: its book, the rows that follow it, and who waits for whom.

    One lock is held while a claim is made. ``alive`` is False for a host that was
    told to crash: it does nothing until it is told to recover.
    """

    def __init__(
        self, host: Host, servers: CellServers, rows: FleetRows, computes: ComputeClient
    ) -> None:
        self.host = host
        self.name = host.name
        self.servers = servers
        self.rows = rows
        self.computes = computes
        self.book = Book(host)
        self.lock = threading.RLock()
        self.providers: list[Provider] = providers_of(host)
        self.provider_uuids = frozenset(each.uuid for each in self.providers)
        self.node_id = 0
        self.disabled = False
        self.alive = True
        self._busy = Counter[str]()
        self._writing = threading.Lock()
        self._written: dict[str, object] = {}

    @contextlib.contextmanager
    def working_on(self, uuid: str) -> Iterator[None]:
        """Keep the audit away from an instance or migration meanwhile."""
        with self.lock:
            self._busy[uuid] += 1
        try:
            yield
        finally:
            with self.lock:
                self._busy[uuid] -= 1
                if not self._busy[uuid]:
                    del self._busy[uuid]

    def busy(self) -> frozenset[str]:
        """Return what is being worked on."""
        with self.lock:
            return frozenset(self._busy)

    def publish(self) -> None:
        """Write the row of the node if its usage is not what was written last.

        One that cannot be written now is written by the next change or audit.
        """
        with self._writing:
            with self.lock:
                usage = self.book.usage()
            if usage == self._written:
                return
            try:
                self.rows.write_usage(self.node_id, usage)
                self._written = usage
            except errors.StoreFailed as problem:
                LOG.warning('The row of %s stays old: %s', self.name, problem)

    def release(self, uuid: str) -> None:
        """Take back what an instance holds, and publish it."""
        with self.lock:
            self.book.release(uuid)
        self.publish()

    def note(self, uuid: str, event: str, error: str | None = None) -> None:
        """Write how a step ended; that it cannot be written changes nothing."""
        try:
            self.servers.add_event(uuid, event, self.name, error)
        except errors.StoreFailed as problem:
            LOG.warning('%s of %s is not written: %s', event, uuid, problem)

    def wrote(self, usage: dict[str, object]) -> None:
        """Note that the row has this usage, from its registration."""
        self._written = usage


def tell(news: News | None, what: Callable[[News], Any], of: str) -> None:
    """Tell schedulers something, if anybody is to be told; a failure is a warning."""
    if news is None:
        return
    try:
        what(news)
    except SILENCE as problem:
        LOG.warning('Schedulers were not told of %s: %s', of, problem)


def tell_of(
    parts: Parts, context: RequestContext, host: str, *instances: Instance
) -> None:
    """Tell schedulers of instances that a host has."""
    listed = InstanceList(objects=list(instances))
    tell(
        parts.news,
        lambda news: news.update_instance_info(context, host, listed),
        f'the instances of {host}',
    )
