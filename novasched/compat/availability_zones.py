# SPDX-License-Identifier: Apache-2.0
"""Availability zones by host, for plugins: from the aggregates of the decision at hand.

Nova: availability_zones.py. Nova reads the database. Here the zones are known from the
start of the decision, for all hosts of the cloud, and nothing is queried.
"""

from __future__ import annotations

import contextlib
import contextvars
import functools
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from novasched.scheduler.aggregates import Aggregates
from novasched.scheduler.hosts import HostTable


class _Zones:
    """The zone of each host of a snapshot; worked out when first asked for."""

    def __init__(self, hosts: HostTable) -> None:
        self._snapshot = hosts.snapshot

    @functools.cached_property
    def by_host(self) -> Mapping[str, str | None]:
        names = self._snapshot.column('host').tolist()
        zones = self._snapshot.column('aggregates').map(_zone, object)
        return dict(zip(names, zones.tolist(), strict=True))


def _zone(aggregates: Aggregates) -> str | None:
    zones = (each.availability_zone for each in aggregates)
    return next((zone for zone in zones if zone), None)


_AT_HAND: contextvars.ContextVar[_Zones] = contextvars.ContextVar('zones')


@contextlib.contextmanager
def deciding(hosts: HostTable) -> Iterator[None]:
    """Let plugins ask for the zones of all hosts of the cloud, in this thread."""
    token = _AT_HAND.set(_Zones(hosts))
    try:
        yield
    finally:
        _AT_HAND.reset(token)


def functions(conf: Any) -> dict[str, Callable[..., Any]]:
    """Return by name the functions of the module that plugins import."""

    def get_host_availability_zone(context: Any, host: str, *_: Any) -> str:
        """Return the zone of a host; outside of a decision and of zones the default."""
        zones = _AT_HAND.get(None)
        found = zones.by_host.get(host) if zones else None
        return found or str(conf.default_availability_zone)

    def get_instance_availability_zone(context: Any, instance: Any) -> str | None:
        """Return the zone of the host of an instance, else the one asked for."""
        host = instance.get('host', None)
        if host:
            return get_host_availability_zone(context, host)
        zone: str | None = instance.get('availability_zone', None)
        return zone

    def nothing(*_: Any, **__: Any) -> None:
        """Nothing is kept here that could be old."""

    return {
        'get_host_availability_zone': get_host_availability_zone,
        'get_instance_availability_zone': get_instance_availability_zone,
        'update_host_availability_zone_cache': nothing,
        'reset_cache': nothing,
    }
