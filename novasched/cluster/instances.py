# SPDX-License-Identifier: Apache-2.0
"""Instances by host: reported by the computes, else read from the cells at need.

A host's report counts once it is known to be complete. Until then, a request that asks
for instances reads them, for all such hosts in one query per cell. A periodic
comparison with the database finds moves that no compute reports. It pauses while no
request asks for instances; the first request after a pause reads for itself.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Container, Iterable, Mapping, Sequence, Set
from typing import Any, NamedTuple, TypeVar

import numpy as np
from oslo_config import cfg

from novasched import errors, outages
from novasched.cluster.cells import Cells
from novasched.cluster.snapshot import hosts_of, object_column
from novasched.ports import CellStore, ImageRow, InstanceRow
from novasched.scheduler.hosts import HostTable, Mask, Objects

LOG = logging.getLogger(__name__)

RowT = TypeVar('RowT')
HostKey = tuple[str, str]
"""The uuid of a cell and the name of a host in it."""
Read = Callable[[Mapping[str, list[str]]], Mapping[str, Iterable[InstanceRow]]]


OPTS = {
    'filter_scheduler': [
        cfg.BoolOpt(
            'track_instance_changes',
            default=True,
            deprecated_name='scheduler_tracks_instance_changes',
            deprecated_group='DEFAULT',
            help='Believe what computes report of their instances. When False, the '
            'instances of hosts are read from the database for every request '
            'whose filters or weighers ask for them.',
        )
    ]
}


class _HostInstances(NamedTuple):
    """``complete`` is nova's ``updated``: the uuids are all there are."""

    instances: Mapping[str, Any]
    complete: bool


class InstanceView:
    """The instances of hosts, as the computes reported them.

    Nova: scheduler/host_manager.py, update_instance_info and its siblings. Where
    nova re-reads a host's instances from the database on a message, this view
    only stops believing what it has.
    """

    def __init__(self, tracked: bool = True) -> None:
        self._tracked = tracked
        self._asked = self._doubted = False
        self._hosts: dict[str, _HostInstances] = {}
        self._lock = threading.Lock()

    def update(self, host: str, instances: Mapping[str, Any]) -> None:
        """Add or overwrite instances; more than one from an unknown host are all."""
        with self._lock:
            known = self._hosts.get(host)
            if known is not None:
                instances = {**known.instances, **instances}
            if known is not None or len(instances) > 1:
                self._hosts[host] = _HostInstances(dict(instances), True)

    def delete(self, host: str, uuid: str) -> None:
        """Take out one instance of a known host."""
        with self._lock:
            known = self._hosts.get(host)
            if known is not None:
                left = {u: i for u, i in known.instances.items() if u != uuid}
                self._hosts[host] = _HostInstances(left, True)

    def sync(self, host: str, uuids: Iterable[str]) -> None:
        """Compare with the host's full list; believe it when both agree."""
        wanted = set(uuids)
        with self._lock:
            known = self._hosts.get(host)
            if known is not None and known.instances.keys() == wanted:
                self._hosts[host] = _HostInstances(known.instances, True)
                return
            rows = {uuid: InstanceRow(uuid, host) for uuid in wanted}
            self._hosts[host] = _HostInstances(rows, False)
        LOG.info(
            "Received a sync request from an unknown host '%s'. Re-created its "
            'InstanceList.'
            if known is None
            else "The instance sync for host '%s' did not match. Re-created its "
            'InstanceList.',
            host,
        )

    def reported(self, host: str) -> dict[str, Any] | None:
        """Return the instances of a host by uuid, if its own word is believed."""
        known = self._hosts.get(host)
        believes = self._tracked and not self._doubted
        if not believes or known is None or not known.complete:
            return None
        return dict(known.instances)

    def column(self, table: HostTable, read: Read) -> Objects:
        """Return the instances of the hosts of a table, by uuid.

        ``read`` is asked at most once, for the hosts, by cell uuid, whose own word
        is not believed. The dicts belong to the caller.
        """
        self._asked = True
        found: dict[HostKey, dict[str, Any]] = {}
        unknown: dict[str, list[str]] = {}
        for cell, host in dict.fromkeys(hosts_of(table)):
            reported = self.reported(host)
            found[cell, host] = {} if reported is None else reported
            if reported is None:
                unknown.setdefault(cell, []).append(host)
        _put_in(found, read(unknown) if unknown else {})
        return object_column(table, map(found.__getitem__, hosts_of(table)))

    def compare(self, hosts: Mapping[str, Set[str]], read: Read) -> None:
        """Read the instances of believed hosts; stop believing those that were wrong.

        ``hosts`` are the hosts of available cells. If no request has asked for
        instances since the last comparison, nothing is read, and no report counts until
        the next. Raises what ``read`` raises.
        """
        with self._lock:
            asked, self._asked, self._doubted = self._asked, False, True
            believed = {h: known for h, known in self._hosts.items() if known.complete}
        if not asked or not self._tracked:
            return
        found = _by_host(hosts, believed.keys(), read)
        wrong = self._corrected(believed, found)
        if wrong:
            LOG.info(
                'Instance lists of %d hosts (such as %s) differ from the database, '
                'which is used until their computes report again.',
                len(wrong),
                min(wrong),
            )

    def _corrected(
        self,
        believed: Mapping[str, _HostInstances],
        found: Mapping[str, Mapping[str, Any]],
    ) -> list[str]:
        """Take what was read of hosts whose word was wrong; return these hosts."""
        wrong = []
        with self._lock:
            for host, instances in found.items():
                known = believed[host]
                has_said_more = self._hosts.get(host) is not known
                if not has_said_more and known.instances.keys() != instances.keys():
                    self._hosts[host] = _HostInstances(instances, False)
                    wrong.append(host)
            self._doubted = False
        return wrong

    def keep(self, hosts: Container[str | None]) -> None:
        """Forget all other hosts."""
        with self._lock:
            self._hosts = {h: known for h, known in self._hosts.items() if h in hosts}


def _by_host(
    hosts: Mapping[str, Set[str]], wanted: Set[str], read: Read
) -> Mapping[str, Mapping[str, Any]]:
    """Return the instances of the wanted ones of some hosts, by host and uuid."""
    asked = {uuid: sorted(wanted & names) for uuid, names in hosts.items()}
    asked = {uuid: names for uuid, names in asked.items() if names}
    found = {host: dict[str, Any]() for names in asked.values() for host in names}
    for rows in (read(asked) if asked else {}).values():
        for row in rows:
            if row.host in found:
                found[row.host][row.uuid] = row
    return found


def _put_in(
    found: Mapping[HostKey, dict[str, Any]],
    read: Mapping[str, Iterable[Any]],
    value: Callable[[Any], Any] = lambda row: row,
) -> None:
    """Put what is read of instances, by cell, into the dicts of the hosts."""
    for cell, rows in read.items():
        for row in rows:
            # MySQL finds names in any case; only the very name is meant.
            if (cell, row.host) in found:
                found[cell, row.host][row.uuid] = value(row)


class InstanceReader:
    """Instance queries to the cells; their failure does not open the circuit breaker.

    No decision is made without them, so a request waits for a late cell as long as
    where no cell answers. ``timeout_s`` is for what no request waits for.
    """

    def __init__(self, cells: Cells, timeout_s: float | None = None) -> None:
        self._cells = cells
        self._timeout_s = cells.patience_s if timeout_s is None else timeout_s

    def instances(
        self, hosts: Mapping[str, list[str]]
    ) -> Mapping[str, list[InstanceRow]]:
        """Return the instances on hosts, both by cell uuid.

        Raises errors.StoreFailed if a cell does not answer.
        """
        return self._ask(
            hosts, lambda store, names: store.instances_on(names), 'instances'
        )

    def images(self, table: HostTable) -> Objects:
        """Return the image properties of the instances on each host of a table.

        Instances whose images have the same properties share them. Raises
        errors.StoreFailed if a cell does not answer.
        """
        asked: dict[str, list[str]] = {}
        for cell, host in dict.fromkeys(hosts_of(table)):
            asked.setdefault(cell, []).append(host)
        images: dict[frozenset[tuple[str, str]], Mapping[str, str]] = {}

        def image(row: ImageRow) -> Mapping[str, str]:
            key = frozenset(row.properties.items())
            return images.setdefault(key, row.properties)

        found = {key: dict[str, Any]() for key in hosts_of(table)}
        read = self._ask(
            asked, lambda store, names: store.images_on(names), 'images of instances'
        )
        _put_in(found, read, image)
        return object_column(table, map(found.__getitem__, hosts_of(table)))

    def is_source(self, table: HostTable, uuid: str | None) -> Mask:
        """Return the host that an instance is on, or was on until it was shelved.

        Raises errors.StoreFailed if a cell does not answer.
        """
        found: Mask = np.zeros(len(table.snapshot), bool)
        if uuid is not None:
            by_cell: dict[str, list[str]] = {}
            for cell, host in hosts_of(table):
                by_cell.setdefault(cell, []).append(host)
            read = self._ask(
                by_cell, lambda store, _: store.source_hosts(uuid), 'moved instance'
            )
            sources = {(cell, host) for cell, hosts in read.items() for host in hosts}
            found[table.rows] = [key in sources for key in hosts_of(table)]
        return found

    def _ask(
        self,
        hosts: Mapping[str, list[str]],
        question: Callable[[CellStore, Sequence[str]], list[RowT]],
        what: str,
    ) -> Mapping[str, list[RowT]]:
        answers = self._cells.ask(
            lambda cell, store: question(store, hosts[cell.uuid]),
            [cell for cell in self._cells.all() if cell.uuid in hosts],
            probe=True,
            timeout_s=self._timeout_s,
            what=what,
            judges=False,
        )
        missing = hosts.keys() - answers.keys()
        if missing:
            found = (self._cells.get(uuid) for uuid in sorted(missing))
            first = next((cell.name or cell.uuid for cell in found if cell), '')
            broken = {'', *self._cells.broken()}
            raise errors.StoreFailed(
                f'cell {", ".join(sorted(missing))}',
                f'no list of its {what}',
                unavailable=outages.cell(first) if first not in broken else '',
            )
        return answers
