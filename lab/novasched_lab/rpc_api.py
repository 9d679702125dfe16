# SPDX-License-Identifier: Apache-2.0
"""RPC of conductors and computes: their clients, servers and messages.

Topics, methods and arguments are nova's.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, TypeVar

import oslo_messaging  # type: ignore[import-untyped]
from kombu.exceptions import KombuError

from novasched import errors
from novasched.objects import fields
from novasched.objects.base import NovaObjectRegistry, NovaTimestampObject
from novasched.objects.context import RequestContext
from novasched.objects.flavor import Flavor
from novasched.objects.instance import Instance
from novasched.objects.network import NetworkRequest, NetworkRequestList
from novasched.objects.request_spec import RequestSpec
from novasched.objects.selection import Selection
from novasched.rpc.serializer import RequestSerializer, decode
from novasched.rpc.server import (
    BaseEndpoint,
    Dispatcher,
    StoppableServer,
)
from novasched.rpc.transport import CONNECTION_ERRORS

COMPUTE = 'compute'
CONDUCTOR = 'conductor'
SCHEDULER = 'scheduler'

COMPUTE_TARGET = oslo_messaging.Target(version='6.5')
TASK_TARGET = oslo_messaging.Target(namespace='compute_task', version='1.26')

_DELIVERED = oslo_messaging.TransportOptions(at_least_once=True)

SEND_ATTEMPTS = 3

Kind = TypeVar('Kind')

UNREACHABLE: tuple[type[Exception], ...] = (
    oslo_messaging.MessagingException,
    oslo_messaging.MessageUndeliverable,
)
"""What the clients raise for a message that reaches no server."""

UNSENT: tuple[type[Exception], ...] = (
    OSError,
    KombuError,
    oslo_messaging.MessageUndeliverable,
    *CONNECTION_ERRORS,
)


@contextlib.contextmanager
def sending() -> Iterator[None]:
    """Raise MessageDeliveryFailure for any error that stops a message."""
    try:
        yield
    except UNSENT as problem:
        raise oslo_messaging.MessageDeliveryFailure(
            f'{type(problem).__name__}: {problem}'
        ) from problem


@NovaObjectRegistry.register
class BuildRequest(NovaTimestampObject):
    """An instance that is asked for; disks and tags are passed on as they came."""

    VERSION = '1.3'

    id: int = fields.integer()
    instance_uuid: str = fields.uuid()
    project_id: str = fields.string()
    instance: Instance = fields.object_of('Instance')
    block_device_mappings: Any = fields.anything()
    tags: Any = fields.anything()


def build_request_of(instance: Instance) -> BuildRequest:
    """Return the request to build an instance, as the API sends it to the conductor."""
    made = BuildRequest(
        instance_uuid=instance.uuid,
        project_id=instance.project_id or '',
        instance=instance,
    )
    made.obj_reset_changes(recursive=True)
    return made


class _Client:
    """Sends messages to one topic, which must find a queue.

    Raises oslo.messaging's MessagingException when the broker does not take a
    message, or knows no such host.
    """

    target: Any

    def __init__(self, transport: Any) -> None:
        self._client = oslo_messaging.get_rpc_client(
            transport, self.target, serializer=RequestSerializer(), retry=SEND_ATTEMPTS
        )

    def _cast(
        self, context: RequestContext, method: str, host: str | None = None, **args: Any
    ) -> None:
        where = {} if host is None else {'server': host}
        to = self._client.prepare(transport_options=_DELIVERED, **where)
        with sending():
            to.cast(context, method, **args)


class ComputeClient(_Client):
    target = oslo_messaging.Target(topic=COMPUTE, version='6.0')

    def build_and_run_instance(
        self, context: RequestContext, host: str, **arguments: Any
    ) -> None:
        """Have an instance built; ``host_list`` is where to try it next."""
        arguments = {'image': None, 'accel_uuids': [], **arguments}
        self._cast(context, 'build_and_run_instance', host, **arguments)

    def terminate_instance(
        self, context: RequestContext, host: str, instance: Instance
    ) -> None:
        """Have an instance taken away, and its row and allocations with it."""
        self._cast(context, 'terminate_instance', host, instance=instance, bdms=[])

    def prep_resize(self, context: RequestContext, host: str, **arguments: Any) -> None:
        """Have a host take an instance over; ``migration`` is a row as a dict."""
        arguments = {'image': None, 'clean_shutdown': True, **arguments}
        self._cast(context, 'prep_resize', host, **arguments)

    def confirm_resize(
        self,
        context: RequestContext,
        host: str,
        instance: Instance,
        migration: Mapping[str, Any],
    ) -> None:
        """Have the source of a move let go of what the move still holds there."""
        moved = {'instance': instance, 'migration': migration}
        self._cast(context, 'confirm_resize', host, **moved)


class ConductorClient(_Client):
    target = oslo_messaging.Target(
        topic=CONDUCTOR, namespace='compute_task', version='1.0'
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
            # Keeps a compute of nova from asking Neutron for a network.
            requested_networks=NetworkRequestList(
                objects=[NetworkRequest(network_id='none')]
            ),
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
    ) -> None:
        """Have an instance moved, with ``flavor`` resized; wait until it is begun."""
        with sending():
            self._client.call(
                context,
                'migrate_server',
                instance=instance,
                scheduler_hint={'filter_properties': {}},
                live=False,
                rebuild=False,
                flavor=flavor,
                block_migration=None,
                disk_over_commit=None,
                reservations=[],
                clean_shutdown=True,
                request_spec=request_spec,
                host_list=None,
            )


def server(transport: Any, topic: str, host: str, endpoints: Sequence[Any]) -> Any:
    """Return an RPC server, not started, of a topic and of a host within it.

    Endpoints get arguments as they came, and decode what they look at.
    """
    target = oslo_messaging.Target(topic=topic, server=host)
    dispatcher = Dispatcher([*endpoints, BaseEndpoint()])
    return StoppableServer(transport, target, dispatcher)


def decoded(value: Any, kind: type[Kind], context: RequestContext) -> Kind:
    """Return the object in an argument; raises errors.InvalidRequest for another."""
    found = decode(value, context)
    if not isinstance(found, kind):
        raise errors.InvalidRequest(f'{type(found).__name__} is not a {kind.__name__}')
    return found


def decoded_list(value: Any, kind: type[Kind], context: RequestContext) -> list[Kind]:
    """Return the objects in a list or a list object; raises errors.InvalidRequest."""
    found = decode(value, context)
    listed = getattr(found, 'objects', found)
    if not isinstance(listed, list):
        raise errors.InvalidRequest(f'it is no list of {kind.__name__} objects')
    return [decoded(each, kind, context) for each in listed]
