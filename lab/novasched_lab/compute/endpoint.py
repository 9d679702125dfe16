# SPDX-License-Identifier: Apache-2.0
"""RPC methods of simulated hosts; ``host`` is the one that a message is for."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from novasched import errors
from novasched.objects.context import RequestContext
from novasched.objects.flavor import Flavor
from novasched.objects.instance import Instance
from novasched.objects.numa import NUMATopologyLimits
from novasched.objects.request_spec import RequestSpec, SchedulerLimits
from novasched.rpc.serializer import decode
from novasched.rpc.server import answered
from novasched_lab.compute.build_manager import Build, BuildManager
from novasched_lab.compute.host import FakeComputeHost
from novasched_lab.compute.moves import IncomingMove, MoveManager
from novasched_lab.rpc_api import COMPUTE_TARGET, decoded


class ComputeEndpoint:
    """Decodes arguments and calls the managers of builds and moves."""

    target = COMPUTE_TARGET

    def __init__(
        self,
        hosts: Mapping[str, FakeComputeHost],
        builds: BuildManager,
        moves: MoveManager,
    ) -> None:
        self._hosts = hosts
        self._builds = builds
        self._moves = moves

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
        """Build an instance; see BuildManager.run."""
        uuid = decoded(instance, Instance, context).uuid
        build = Build(
            uuid=uuid,
            request=decoded(request_spec, RequestSpec, context).for_instance(uuid),
            properties=decode(filter_properties or {}, context),
            limits=_numa_limits(decode(limits, context)),
            host_list=decode(host_list or [], context),
            image=image,
        )
        self._builds.run(context, self._host(host), build)

    @answered
    def terminate_instance(
        self, context: RequestContext, host: str, instance: Any, **unknown: Any
    ) -> None:
        """Delete an instance; see BuildManager.terminate."""
        uuid = decoded(instance, Instance, context).uuid
        self._builds.terminate(context, self._host(host), uuid)

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
        """Take an instance over; see MoveManager.run."""
        uuid = decoded(instance, Instance, context).uuid
        properties = decode(filter_properties or {}, context)
        move = IncomingMove(
            uuid=uuid,
            migration_uuid=_uuid_of(migration),
            flavor=decoded(flavor, Flavor, context),
            request=decoded(request_spec, RequestSpec, context).for_instance(uuid),
            properties=properties,
            host_list=None if host_list is None else decode(host_list, context),
            limits=_numa_limits(properties.get('limits')),
        )
        self._moves.run(context, self._host(host), move)

    @answered
    def confirm_resize(
        self,
        context: RequestContext,
        host: str,
        instance: Any,
        migration: Any,
        **unknown: Any,
    ) -> None:
        """Free what a moved instance held here; see MoveManager.confirm."""
        uuid = decoded(instance, Instance, context).uuid
        self._moves.confirm(context, self._host(host), uuid, _uuid_of(migration))

    def _host(self, name: str) -> FakeComputeHost:
        host = self._hosts.get(name)
        if host is None:
            raise errors.InvalidRequest(f'there is no host {name} here')
        return host


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
