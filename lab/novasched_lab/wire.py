# SPDX-License-Identifier: Apache-2.0
"""What conductor and computes say to each other, in nova's words.

Sending is given up after a few attempts; a call waits ``rpc_response_timeout``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import oslo_messaging  # type: ignore[import-untyped]

from novasched.objects.context import RequestContext
from novasched.objects.flavor import Flavor
from novasched.objects.instance import Instance, InstanceList
from novasched.objects.network import no_network
from novasched.objects.request_spec import RequestSpec, SchedulerLimits
from novasched.objects.selection import Selection
from novasched.ports import Requests
from novasched.rpc.server import BaseEndpoint, Dispatcher, Serializer
from novasched.rpc.stopping import Server
from novasched_lab.sending import client, sending

COMPUTE = 'compute'
CONDUCTOR = 'conductor'
SCHEDULER = 'scheduler'

COMPUTE_TARGET = oslo_messaging.Target(version='6.5')
TASK_TARGET = oslo_messaging.Target(namespace='compute_task', version='1.26')
OBJECT_TARGET = oslo_messaging.Target(version='3.0')

_DELIVERED = oslo_messaging.TransportOptions(at_least_once=True)


class ComputeClient:
    """Speaks to the computes of one broker, each by the name of its host.

    Raises oslo.messaging's MessagingException when the broker does not take a
    message, or knows no such host.
    """

    def __init__(self, transport: Any) -> None:
        self._client = client(
            transport, oslo_messaging.Target(topic=COMPUTE, version='6.0')
        )

    def build_and_run_instance(
        self,
        context: RequestContext,
        host: str,
        *,
        instance: Instance,
        request_spec: RequestSpec,
        filter_properties: Mapping[str, Any],
        node: str,
        limits: SchedulerLimits | None,
        host_list: Sequence[Selection],
        image: Any = None,
        **passed_on: Any,
    ) -> None:
        """Have an instance built; ``host_list`` is where to try it next.

        ``passed_on`` are the arguments of the API that scheduling does not look at.
        """
        self._cast(
            context,
            host,
            'build_and_run_instance',
            instance=instance,
            image=image,
            request_spec=request_spec,
            filter_properties=filter_properties,
            node=node,
            limits=limits,
            host_list=list(host_list),
            accel_uuids=[],
            **passed_on,
        )

    def terminate_instance(
        self, context: RequestContext, host: str, instance: Instance
    ) -> None:
        """Have an instance taken away, and its row and allocations with it."""
        self._cast(context, host, 'terminate_instance', instance=instance, bdms=[])

    def prep_resize(
        self,
        context: RequestContext,
        host: str,
        *,
        instance: Instance,
        flavor: Flavor,
        request_spec: RequestSpec,
        filter_properties: Mapping[str, Any],
        node: str,
        migration: Mapping[str, Any],
        host_list: Sequence[Selection],
        image: Any = None,
    ) -> None:
        """Have a host take an instance over; ``migration`` is a row as a dict."""
        self._cast(
            context,
            host,
            'prep_resize',
            instance=instance,
            image=image,
            flavor=flavor,
            request_spec=request_spec,
            filter_properties=filter_properties,
            node=node,
            clean_shutdown=True,
            migration=migration,
            host_list=list(host_list),
        )

    def confirm_resize(
        self,
        context: RequestContext,
        host: str,
        instance: Instance,
        migration: Mapping[str, Any],
    ) -> None:
        """Have the source of a move let go of what the move still holds there."""
        self._cast(
            context, host, 'confirm_resize', instance=instance, migration=migration
        )

    def set_host_enabled(
        self, context: RequestContext, host: str, enabled: bool
    ) -> Any:
        """Have a host say in placement whether it may be used; wait until it did."""
        with sending():
            return self._client.prepare(server=host).call(
                context, 'set_host_enabled', enabled=enabled
            )

    def _cast(
        self, context: RequestContext, host: str, method: str, **arguments: Any
    ) -> None:
        to = self._client.prepare(server=host, transport_options=_DELIVERED)
        with sending():
            to.cast(context, method, **arguments)


class ConductorClient:
    """Speaks to whatever conductor serves the broker. Raises as ComputeClient."""

    def __init__(self, transport: Any) -> None:
        self._client = client(
            transport,
            oslo_messaging.Target(
                topic=CONDUCTOR, namespace='compute_task', version='1.0'
            ),
        )

    def schedule_and_build_instances(
        self,
        context: RequestContext,
        build_requests: Sequence[Any],
        request_specs: Sequence[RequestSpec],
        image: Any = None,
    ) -> None:
        """Have new instances placed and built, without networks, each by its spec."""
        self._cast(
            context,
            'schedule_and_build_instances',
            build_requests=list(build_requests),
            request_specs=list(request_specs),
            image=image,
            admin_password=None,
            injected_files=[],
            requested_networks=no_network(),
            block_device_mapping=[],
            tags=[],
        )

    def build_instances(
        self,
        context: RequestContext,
        instance: Instance,
        filter_properties: Mapping[str, Any],
        request_spec: RequestSpec,
        host_list: Sequence[Selection],
        image: Any = None,
    ) -> None:
        """Have an instance tried on the next of its hosts, after one refused it."""
        self._cast(
            context,
            'build_instances',
            instances=[instance],
            image=image,
            filter_properties=filter_properties,
            admin_password=None,
            injected_files=[],
            requested_networks=None,
            security_groups=None,
            block_device_mapping=[],
            legacy_bdm=False,
            request_spec=request_spec,
            host_lists=[list(host_list)],
        )

    def migrate_server(
        self,
        context: RequestContext,
        instance: Instance,
        flavor: Flavor | None = None,
        request_spec: RequestSpec | None = None,
        filter_properties: Mapping[str, Any] | None = None,
        host_list: Sequence[Selection] | None = None,
        wait: bool = True,
    ) -> None:
        """Have an instance moved, with ``flavor`` resized; ``wait`` until it is begun.

        ``host_list`` is where to try it next, after a host refused it.
        """
        arguments = {
            'instance': instance,
            'scheduler_hint': {'filter_properties': dict(filter_properties or {})},
            'live': False,
            'rebuild': False,
            'flavor': flavor,
            'block_migration': None,
            'disk_over_commit': None,
            'reservations': [],
            'clean_shutdown': True,
            'request_spec': request_spec,
            'host_list': None if host_list is None else list(host_list),
        }
        if wait:
            with sending():
                self._client.call(context, 'migrate_server', **arguments)
        else:
            self._cast(context, 'migrate_server', **arguments)

    def _cast(self, context: RequestContext, method: str, **arguments: Any) -> None:
        to = self._client.prepare(transport_options=_DELIVERED)
        with sending():
            to.cast(context, method, **arguments)


class SchedulerNews:
    """Tells all schedulers what became of the instances of a host."""

    def __init__(self, transport: Any) -> None:
        self._client = client(
            transport,
            oslo_messaging.Target(topic=SCHEDULER, version='4.2', fanout=True),
        )

    def update_instance_info(
        self, context: RequestContext, host: str, instances: InstanceList
    ) -> None:
        self._cast(
            context,
            'update_instance_info',
            host_name=host,
            instance_info=instances,
        )

    def delete_instance_info(
        self, context: RequestContext, host: str, instance_uuid: str
    ) -> None:
        self._cast(
            context,
            'delete_instance_info',
            host_name=host,
            instance_uuid=instance_uuid,
        )

    def sync_instance_info(
        self, context: RequestContext, host: str, instance_uuids: Sequence[str]
    ) -> None:
        self._cast(
            context,
            'sync_instance_info',
            host_name=host,
            instance_uuids=list(instance_uuids),
        )

    def _cast(self, context: RequestContext, method: str, **arguments: Any) -> None:
        with sending():
            self._client.cast(context.elevated(), method, **arguments)


def server(
    transport: Any,
    topic: str,
    host: str,
    endpoints: Sequence[Any],
    requests: Requests | None = None,
) -> Any:
    """Return an RPC server, not started, of a topic and of a host within it.

    Endpoints get arguments as they came, and decode what they look at.
    """
    target = oslo_messaging.Target(topic=topic, server=host)
    dispatcher = Dispatcher([*endpoints, BaseEndpoint()], Serializer(), requests)
    return Server(transport, target, dispatcher)
