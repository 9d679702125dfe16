# SPDX-License-Identifier: Apache-2.0
"""The RPC interface of computes; see wire.ComputeClient for what is sent.

Unknown arguments are passed over: a conductor sends more than matters here.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from typing import Any

from novasched import errors
from novasched.objects.context import RequestContext
from novasched.objects.flavor import Flavor
from novasched.objects.instance import Instance
from novasched.objects.numa import NUMATopologyLimits
from novasched.objects.request_spec import RequestSpec, SchedulerLimits
from novasched.rpc.serializer import decode
from novasched.rpc.server import answered
from novasched_lab.compute.audit import Audit
from novasched_lab.compute.builds import Build, Builds
from novasched_lab.compute.deletes import Deletes
from novasched_lab.compute.moves import Move, Moves
from novasched_lab.compute.station import Parts, Station
from novasched_lab.wire import COMPUTE_TARGET

LOG = logging.getLogger(__name__)


class ComputeEndpoint:
    """Decodes arguments and has them acted upon by the host that a message is for."""

    target = COMPUTE_TARGET

    def __init__(
        self,
        parts: Parts,
        stations: Mapping[str, Station],
        builds: Builds,
        moves: Moves,
        deletes: Deletes,
        audit: Audit,
    ) -> None:
        self._parts = parts
        self._stations = stations
        self._builds = builds
        self._moves = moves
        self._deletes = deletes
        self._audit = audit

    @answered
    def build_and_run_instance(
        self,
        context: RequestContext,
        host: str,
        instance: Any,
        request_spec: Any,
        filter_properties: Any = None,
        limits: Any = None,
        host_list: Any = None,
        image: Any = None,
        **unknown: Any,
    ) -> None:
        """Build an instance; see Builds.run."""
        uuid = _instance(instance, context).uuid
        build = Build(
            uuid=uuid,
            request=_request(request_spec, context).for_instance(uuid),
            properties=decode(filter_properties or {}, context),
            limits=_numa_limits(decode(limits, context)),
            host_list=decode(host_list or [], context),
            image=image,
        )
        self._do(host, lambda station: self._builds.run(context, station, build))

    @answered
    def terminate_instance(
        self, context: RequestContext, host: str, instance: Any, **unknown: Any
    ) -> None:
        """Delete an instance; see Deletes.run."""
        uuid = _instance(instance, context).uuid
        self._do(host, lambda station: self._deletes.run(context, station, uuid))

    @answered
    def prep_resize(
        self,
        context: RequestContext,
        host: str,
        instance: Any,
        flavor: Any,
        request_spec: Any,
        migration: Any,
        filter_properties: Any = None,
        host_list: Any = None,
        **unknown: Any,
    ) -> None:
        """Take an instance over; see Moves.run."""
        size = decode(flavor, context)
        if not isinstance(size, Flavor):
            raise errors.InvalidRequest('flavor is not a Flavor')
        uuid = _instance(instance, context).uuid
        properties = decode(filter_properties or {}, context)
        move = Move(
            uuid=uuid,
            migration_uuid=_uuid_of(migration),
            flavor=size,
            request=_request(request_spec, context).for_instance(uuid),
            properties=properties,
            host_list=None if host_list is None else decode(host_list, context),
            limits=_numa_limits(properties.get('limits')),
        )
        self._do(host, lambda station: self._moves.run(context, station, move))

    @answered
    def confirm_resize(
        self,
        context: RequestContext,
        host: str,
        instance: Any,
        migration: Any,
        **unknown: Any,
    ) -> None:
        """Let go of an instance that was moved; see Moves.confirm."""
        uuid, moved = _instance(instance, context).uuid, _uuid_of(migration)
        self._do(
            host, lambda station: self._moves.confirm(context, station, uuid, moved)
        )

    @answered
    def set_host_enabled(
        self, context: RequestContext, host: str, enabled: bool, **unknown: Any
    ) -> str:
        """Let schedulers use the host, or not; say which, in nova's words."""
        self._do(host, lambda station: self._set_disabled(station, not enabled))
        return 'enabled' if enabled else 'disabled'

    @answered
    def crash(self, context: RequestContext, host: str, **unknown: Any) -> None:
        """Let the host fall silent and forget everything, until ``recover``."""
        self._do(host, _crash)

    @answered
    def recover(self, context: RequestContext, host: str, **unknown: Any) -> None:
        """Let the host do what one does whose process was started again."""
        station = self._station(host)
        if station.alive:
            return
        station.alive = True
        self._audit.load([station])
        self._audit.run([station])

    def _set_disabled(self, station: Station, disabled: bool) -> None:
        station.rows.set_disabled(station.name, disabled)
        self._parts.inventories.set_disabled(station.providers[0], disabled)
        station.disabled = disabled

    def _do(self, host: str, work: Callable[[Station], None]) -> None:
        station = self._station(host)
        if station.alive:
            work(station)
        else:
            LOG.warning('%s has crashed, and hears nothing', host)

    def _station(self, host: str) -> Station:
        station = self._stations.get(host)
        if station is None:
            raise errors.InvalidRequest(f'there is no host {host} here')
        return station


def _crash(station: Station) -> None:
    station.alive = False
    with station.lock:
        station.book.clear()
    LOG.warning('%s crashes', station.name)


def _instance(value: Any, context: RequestContext) -> Instance:
    instance = decode(value, context)
    if not isinstance(instance, Instance):
        raise errors.InvalidRequest('instance is not an Instance')
    return instance


def _request(value: Any, context: RequestContext) -> RequestSpec:
    request = decode(value, context)
    if not isinstance(request, RequestSpec) or 'flavor' not in request:
        raise errors.InvalidRequest('request_spec is not a RequestSpec with a flavor')
    return request


def _uuid_of(migration: Any) -> str:
    uuid = migration.get('uuid') if isinstance(migration, dict) else None
    if not isinstance(uuid, str):
        raise errors.InvalidRequest('migration has no uuid')
    return uuid


def _numa_limits(limits: Any) -> NUMATopologyLimits | None:
    if isinstance(limits, SchedulerLimits):
        return limits.numa_topology
    found = limits.get('numa_topology') if isinstance(limits, dict) else None
    return found if isinstance(found, NUMATopologyLimits) else None
