# SPDX-License-Identifier: Apache-2.0
"""RPC of simulated hosts: their methods, and servers that share a connection.

Every method gets ``host``, the name of the host that a message is for.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import oslo_messaging  # type: ignore[import-untyped]

from novasched import errors
from novasched.objects.context import RequestContext
from novasched.objects.flavor import Flavor
from novasched.objects.instance import Instance
from novasched.objects.numa import NUMATopologyLimits
from novasched.objects.request_spec import RequestSpec, SchedulerLimits
from novasched.rpc.serializer import decode
from novasched.rpc.server import BaseEndpoint, Dispatcher, StoppableServer, answered
from novasched.rpc.transport import is_rabbit
from novasched_lab.compute.host import Build, FakeComputeHost, IncomingMove
from novasched_lab.rpc_api import COMPUTE, COMPUTE_TARGET, decoded

HOST = 'host'
"""The argument that says which host a message is for."""


class ComputeEndpoint:
    """Decodes arguments and tells the host."""

    target = COMPUTE_TARGET

    def __init__(self, hosts: Mapping[str, FakeComputeHost]) -> None:
        self._hosts = hosts

    @answered
    def build_and_run_instance(
        self, context: RequestContext, host: str, **arguments: Any
    ) -> None:
        uuid, request = _instance_and_request(context, arguments)
        build = Build(
            uuid=uuid,
            request=request,
            properties=decode(arguments.get('filter_properties') or {}, context),
            limits=_numa_limits(decode(arguments.get('limits'), context)),
            host_list=decode(arguments.get('host_list') or [], context),
            image=arguments.get('image'),
        )
        self._host(host).build(context, build)

    @answered
    def terminate_instance(
        self, context: RequestContext, host: str, instance: Any, **unknown: Any
    ) -> None:
        uuid = decoded(instance, Instance, context).uuid
        self._host(host).terminate(context, uuid)

    @answered
    def prep_resize(self, context: RequestContext, host: str, **arguments: Any) -> None:
        uuid, request = _instance_and_request(context, arguments)
        properties = decode(arguments.get('filter_properties') or {}, context)
        move = IncomingMove(
            uuid=uuid,
            migration_uuid=_uuid_of(arguments.get('migration')),
            flavor=decoded(arguments.get('flavor'), Flavor, context),
            request=request,
            limits=_numa_limits(properties.get('limits')),
        )
        self._host(host).take(context, move)

    @answered
    def confirm_resize(
        self, context: RequestContext, host: str, **arguments: Any
    ) -> None:
        uuid = decoded(arguments.get('instance'), Instance, context).uuid
        migration_uuid = _uuid_of(arguments.get('migration'))
        self._host(host).confirm(context, uuid, migration_uuid)

    def _host(self, name: str) -> FakeComputeHost:
        host = self._hosts.get(name)
        if host is None:
            raise errors.InvalidRequest(f'there is no host {name} here')
        return host


def _instance_and_request(
    context: RequestContext, arguments: Mapping[str, Any]
) -> tuple[str, RequestSpec]:
    uuid = decoded(arguments.get('instance'), Instance, context).uuid
    request = decoded(arguments.get('request_spec'), RequestSpec, context)
    return uuid, request.for_instance(uuid)


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


class HostDispatcher(Dispatcher):
    """Adds the host that a message is for to its arguments.

    The queue that it came through says so; without one, it is for ``default``.
    """

    def __init__(self, endpoints: list[Any], default: str) -> None:
        super().__init__(endpoints)
        self._default = default

    def dispatch(self, incoming: Any) -> Any:
        message = incoming.message
        if isinstance(message, dict) and 'namespace' not in message:
            arguments = message.setdefault('args', {})
            if isinstance(arguments, dict):
                arguments[HOST] = host_of(message) or self._default
        return super().dispatch(incoming)


def host_of(message: Any) -> str | None:
    """Return the host whose queue a message of RabbitMQ came through."""
    raw = getattr(message, '_raw_message', None)
    key = (getattr(raw, 'delivery_info', None) or {}).get('routing_key') or ''
    topic, _, host = key.partition('.')
    return host if topic == COMPUTE and host else None


class ManyHosts(StoppableServer):
    """Listens for several hosts over one connection to RabbitMQ."""

    def __init__(self, transport: Any, hosts: Sequence[str], dispatcher: Any) -> None:
        target = oslo_messaging.Target(topic=COMPUTE, server=hosts[0])
        super().__init__(transport, target, dispatcher)
        self._others = hosts[1:]

    def _create_listener(self) -> Any:
        """Listen for the other hosts, too."""
        listener = super()._create_listener()
        if not self._others:
            return listener
        inside = listener._poll_style_listener
        exchange = self.transport._driver._get_exchange(self._target)
        for host in self._others:
            inside.conn.declare_topic_consumer(
                exchange_name=exchange, topic=f'{COMPUTE}.{host}', callback=inside
            )
        return listener


def servers(transport: Any, hosts: Sequence[str], endpoint: Any) -> list[Any]:
    """Return RPC servers, not started, for hosts that share a broker.

    It is one for all; one each where messages stay in this process and name no queue.
    """
    groups = [hosts] if is_rabbit(transport.conf) else [[host] for host in hosts]
    endpoints = [endpoint, BaseEndpoint()]
    return [
        ManyHosts(transport, names, HostDispatcher(endpoints, names[0]))
        for names in groups
    ]
