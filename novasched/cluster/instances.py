# SPDX-License-Identifier: Apache-2.0
"""Which instances run on which host: told by the computes, else read at need.

A host's own word is believed once it is known to be complete; until then a
request that asks for instances reads them, all such hosts in one query.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from oslo_config import cfg

from novasched.ports import InstanceRow

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


@dataclass
class _Host:
    """``complete`` is nova's ``updated``: the uuids are all there are."""

    instances: dict[str, Any] = field(default_factory=dict)
    complete: bool = False


class InstanceView:
    """The instances of hosts, as the computes told them.

    Nova: scheduler/host_manager.py, update_instance_info and its siblings. Where
    nova re-reads a host's instances from the database on a message, this view
    only stops believing what it has.
    """

    def __init__(self, tracked: bool = True) -> None:
        self._tracked = tracked
        self._hosts: dict[str, _Host] = {}
        self._lock = threading.Lock()

    def update(self, host: str, instances: Mapping[str, Any]) -> None:
        """Add or overwrite instances; more than one from an unknown host are all."""
        with self._lock:
            known = self._hosts.get(host)
            if known is not None:
                known.instances = {**known.instances, **instances}
                known.complete = True
            elif len(instances) > 1:
                self._hosts[host] = _Host(dict(instances), True)

    def delete(self, host: str, uuid: str) -> None:
        """Take out one instance of a known host."""
        with self._lock:
            known = self._hosts.get(host)
            if known is not None:
                known.instances = {
                    k: v for k, v in known.instances.items() if k != uuid
                }
                known.complete = True

    def sync(self, host: str, uuids: Iterable[str]) -> None:
        """Compare with the host's full list; believe it when both agree."""
        wanted = set(uuids)
        with self._lock:
            known = self._hosts.get(host)
            if known is not None and known.instances.keys() == wanted:
                known.complete = True
            else:
                rows = {uuid: InstanceRow(uuid, host) for uuid in wanted}
                self._hosts[host] = _Host(rows, False)

    def of_hosts(
        self,
        hosts: Iterable[str],
        read: Callable[[list[str]], Iterable[InstanceRow]],
    ) -> dict[str, dict[str, Any]]:
        """Return the instances by host and uuid; ``read`` is asked at most once,
        for the hosts whose own word is not believed."""
        with self._lock:
            found = {
                host: known.instances
                for host in hosts
                if self._tracked
                and (known := self._hosts.get(host)) is not None
                and known.complete
            }
        missing = [host for host in dict.fromkeys(hosts) if host not in found]
        if missing:
            found.update((host, {}) for host in missing)
            for row in read(missing):
                found[row.host][row.uuid] = row
        return found
