# SPDX-License-Identifier: Apache-2.0
"""The RPC server: topic ``scheduler``, interface 4.5, and the base interface."""

from __future__ import annotations

import functools
import logging
from collections.abc import Callable, Mapping
from typing import Any, NoReturn, TypeVar, cast

import oslo_messaging  # type: ignore[import-untyped]
from oslo_messaging.rpc import dispatcher  # type: ignore[import-untyped]

from novasched import errors
from novasched.clock import SYSTEM_CLOCK
from novasched.manager import SchedulerManager
from novasched.objects import legacy
from novasched.objects.context import RequestContext
from novasched.objects.instance import InstanceList
from novasched.objects.request_spec import RequestSpec
from novasched.ports import Caller, CallerGone, Requests
from novasched.rpc import caller, faults
from novasched.rpc.serializer import Backport, RequestSerializer, decode
from novasched.rpc.stopping import StoppableServer
from novasched.rpc.waiting import Unobserved, waited_s
from novasched.scheduler.aggregates import Aggregate

LOG = logging.getLogger(__name__)

TOPIC = 'scheduler'
LEVELS = {errors.NoValidHost: logging.INFO, CallerGone: logging.WARNING}
Method = TypeVar('Method', bound=Callable[..., Any])


def _answer(error: errors.RequestError, name: str) -> NoReturn:
    """Send an error to the caller as nova's, with one line in the log.

    What a filter or weigher raised is a defect: it keeps its traceback.
    """
    level = LEVELS.get(type(error), logging.ERROR)
    if isinstance(error, CallerGone) and error.logged:
        level = logging.DEBUG
    defect = error if isinstance(error, errors.ExtensionFailed) else None
    LOG.log(level, '%s failed: %s', name, error, exc_info=defect)
    wire = faults.to_wire(error)
    try:
        raise wire from error
    except type(wire):
        # The server sends what is being handled, without a traceback of its own
        # in the log.
        raise oslo_messaging.ExpectedException from None


def answered(method: Method) -> Method:
    """Send every errors.RequestError to the caller as nova's, with one log line."""

    @functools.wraps(method)
    def wrapper(self: Any, context: RequestContext, **arguments: Any) -> Any:
        try:
            return method(self, context, **arguments)
        except errors.RequestError as error:
            _answer(error, method.__name__)

    return cast(Method, wrapper)


class SchedulerEndpoint:
    """Decodes arguments and calls the manager.

    Arguments are decoded here, not by the serializer, so that a bad one becomes
    a typed error and one line in the log.
    """

    target = oslo_messaging.Target(version='4.5')

    def __init__(
        self,
        manager: SchedulerManager,
        backport: Backport | None,
        requests: Requests | None = None,
    ) -> None:
        self._manager = manager
        self._backport = backport
        self._requests = requests or Unobserved()

    @answered
    def select_destinations(self, context: RequestContext, **arguments: Any) -> Any:
        """Choose and claim hosts; see SchedulerManager.select_destinations."""
        with self._requests.attempt():
            waiting = caller.current()
            if waiting is not None:
                waiting.check_turn()
            answer = self._select(context, arguments, waiting)
            self._requests.placed(len(answer))
            return answer

    def _select(
        self,
        context: RequestContext,
        arguments: dict[str, Any],
        waiting: Caller | None,
    ) -> Any:
        known = _checked(
            arguments,
            'request_spec',
            'filter_properties',
            'spec_obj',
            'instance_uuids',
            'return_objects',
            'return_alternates',
        )
        return self._manager.select_destinations(
            context,
            self._request(context, known),
            _uuids(known.get('instance_uuids')),
            bool(known.get('return_objects')),
            bool(known.get('return_alternates')),
            waiting,
        )

    def _request(
        self, context: RequestContext, arguments: dict[str, Any]
    ) -> RequestSpec:
        if 'spec_obj' not in arguments:
            if arguments.get('request_spec') is None:
                raise errors.InvalidRequest('there is no spec_obj and no request_spec')
            return legacy.from_legacy(
                decode(arguments.get('request_spec'), context, self._backport),
                decode(arguments.get('filter_properties'), context, self._backport),
            )
        request = decode(arguments['spec_obj'], context, self._backport)
        if not isinstance(request, RequestSpec):
            raise errors.InvalidRequest('spec_obj is not a RequestSpec')
        return request

    @answered
    def update_aggregates(self, context: RequestContext, **arguments: Any) -> None:
        """Take in aggregates: a list of them, an AggregateList or just one."""
        known = _checked(arguments, 'aggregates')
        decoded = decode(known.get('aggregates'), context, self._backport)
        listed = getattr(decoded, 'objects', decoded)
        aggregates = listed if isinstance(listed, list) else [listed]
        self._manager.update_aggregates([_aggregate(each) for each in aggregates])

    @answered
    def delete_aggregate(self, context: RequestContext, **arguments: Any) -> None:
        """Forget an aggregate; only its id is looked at."""
        known = _checked(arguments, 'aggregate')
        aggregate = decode(known.get('aggregate'), context, self._backport)
        self._manager.delete_aggregate(_id_of(aggregate))

    @answered
    def update_instance_info(self, context: RequestContext, **arguments: Any) -> None:
        """Take in instances of a host."""
        known = _checked(arguments, 'host_name', 'instance_info')
        instances = decode(known.get('instance_info'), context, self._backport)
        if not isinstance(instances, InstanceList):
            raise errors.InvalidRequest('instance_info is not an InstanceList')
        self._manager.update_instance_info(
            _text(known, 'host_name'), {each.uuid: each for each in instances.objects}
        )

    @answered
    def delete_instance_info(self, context: RequestContext, **arguments: Any) -> None:
        """Forget an instance of a host."""
        known = _checked(arguments, 'host_name', 'instance_uuid')
        self._manager.delete_instance_info(
            _text(known, 'host_name'), _text(known, 'instance_uuid')
        )

    @answered
    def sync_instance_info(self, context: RequestContext, **arguments: Any) -> None:
        """Compare what is known of a host with the uuids of all its instances."""
        known = _checked(arguments, 'host_name', 'instance_uuids')
        self._manager.sync_instance_info(
            _text(known, 'host_name'), _uuids(known.get('instance_uuids')) or []
        )


class BaseEndpoint:
    """What every service of nova answers. Nova: baserpc.py."""

    target = oslo_messaging.Target(namespace='baseapi', version='1.1')

    def ping(self, context: RequestContext, arg: Any = None) -> dict[str, Any]:
        """Return the argument and the name of the service."""
        return {'service': TOPIC, 'arg': arg}

    def get_backdoor_port(self, context: RequestContext) -> int | None:
        """Return None: there is no backdoor."""
        return None


class Serializer(RequestSerializer):
    """Turns nonsense in a context into a typed error."""

    def deserialize_context(self, ctxt: Mapping[str, Any]) -> RequestContext:
        try:
            return super().deserialize_context(ctxt)
        except (ValueError, TypeError, AttributeError) as problem:
            raise errors.InvalidRequest(f'its context: {problem}') from problem


class Dispatcher(dispatcher.RPCDispatcher):  # type: ignore[misc]
    """Says in one line of the log what was wrong with a message."""

    def __init__(
        self, endpoints: list[Any], serializer: Any, requests: Requests | None = None
    ) -> None:
        super().__init__(endpoints, serializer)
        self._requests = requests or Unobserved()

    def dispatch(self, incoming: Any) -> Any:
        """Call the method that a message names."""
        waiting = caller.current()
        now_s = waiting.broker_clock if waiting else SYSTEM_CLOCK.time
        waited = waited_s(incoming, now_s)
        if waited is not None:
            self._requests.arrived(waited)
        try:
            _check_message(incoming.message)
            return super().dispatch(incoming)
        except errors.RequestError as error:
            _answer(error, 'A message')
        except (dispatcher.NoSuchMethod, dispatcher.UnsupportedVersion) as error:
            LOG.error('A message failed: %s', error)
            raise oslo_messaging.ExpectedException from None

    def _watchdog(self, event: Any, incoming: Any) -> None:
        if waiting := getattr(incoming, 'caller', None):
            waiting.reassure(event)
        else:
            super()._watchdog(event, incoming)


def _check_message(message: Any) -> None:
    if not isinstance(message, dict) or not isinstance(message.get('method'), str):
        raise errors.InvalidRequest('it names no method')
    if not isinstance(message.get('args', {}), dict):
        raise errors.InvalidRequest('its arguments have no names')
    if not isinstance(message.get('version', ''), str):
        raise errors.InvalidRequest('its version is not a text')


def server(
    transport: Any,
    host: str,
    manager: SchedulerManager,
    backport: Backport | None = None,
    requests: Requests | None = None,
) -> Any:
    """Return an oslo.messaging server, not started; ``host`` names it.

    It serves in threads, or in eventlet's where the standard library is patched.
    """
    requests = requests or Unobserved()
    endpoints = [SchedulerEndpoint(manager, backport, requests), BaseEndpoint()]
    target = oslo_messaging.Target(topic=TOPIC, server=host)
    made = StoppableServer(
        transport, target, Dispatcher(endpoints, Serializer(), requests)
    )
    made.requests = requests
    return made


def _checked(arguments: dict[str, Any], *known: str) -> dict[str, Any]:
    unknown = sorted(arguments.keys() - set(known))
    if unknown:
        raise errors.InvalidRequest(f'unknown argument {", ".join(unknown)}')
    return arguments


def _text(arguments: dict[str, Any], name: str) -> str:
    value = arguments.get(name)
    if not isinstance(value, str):
        raise errors.InvalidRequest(f'{name} is {value!r}, not text')
    return value


def _uuids(value: Any) -> list[str] | None:
    if value is None:
        return None
    if not isinstance(value, list) or not all(isinstance(u, str) for u in value):
        raise errors.InvalidRequest('the list of instance uuids is not one of texts')
    return value


def _id_of(aggregate: Any) -> int:
    try:
        return int(aggregate.id)
    except (AttributeError, TypeError, ValueError) as problem:
        raise errors.InvalidRequest(f'not an aggregate: {problem}') from problem


def _aggregate(aggregate: Any) -> Aggregate:
    id_ = _id_of(aggregate)
    return Aggregate(
        id=id_,
        uuid=aggregate.uuid if 'uuid' in aggregate else None,
        name=aggregate.name if 'name' in aggregate else None,
        hosts=frozenset(aggregate.hosts or ()) if 'hosts' in aggregate else frozenset(),
        metadata=dict(aggregate.metadata or {}) if 'metadata' in aggregate else {},
    )
