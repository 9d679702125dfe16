# SPDX-License-Identifier: Apache-2.0
"""The RPC server: topic ``scheduler``, interface 4.5, and the base interface.

It stops gracefully: no request that the broker has sent is lost.
"""

from __future__ import annotations

import contextlib
import functools
import inspect
import logging
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from typing import Any, NoReturn, TypeVar, cast

import oslo_messaging  # type: ignore[import-untyped]
from oslo_config import cfg
from oslo_messaging.rpc import dispatcher  # type: ignore[import-untyped]
from oslo_messaging.rpc.server import RPCServer  # type: ignore[import-untyped]

from novasched import errors
from novasched.manager.manager import SchedulerManager
from novasched.objects import legacy
from novasched.objects.context import RequestContext
from novasched.objects.instance import InstanceList
from novasched.objects.request_spec import RequestSpec
from novasched.ports import CallerGone, Requests
from novasched.rpc import caller, faults, oslo_internals
from novasched.rpc.answers import Answers, Incoming
from novasched.rpc.broker import Broker, BrokerClock, waited_s
from novasched.rpc.oslo_internals import RunningServer
from novasched.rpc.reply_queues import ReplyQueues
from novasched.rpc.serializer import Backport, RequestSerializer, decode
from novasched.rpc.tap import Tap
from novasched.rpc.transport import CONNECTION_ERRORS, is_rabbit
from novasched.runtime.clock import SYSTEM_CLOCK
from novasched.runtime.executor import BulkheadExecutor, ResultT
from novasched.scheduler.aggregates import Aggregate

LOG = logging.getLogger(__name__)

OPTS: dict[str, list[cfg.Opt]] = {
    'DEFAULT': [
        cfg.IntOpt(
            'long_rpc_timeout',
            default=1800,
            help='Seconds that a caller waits for hosts to be chosen. Meanwhile the '
            'scheduler must be heard from every rpc_response_timeout seconds.',
        )
    ]
}

TOPIC = 'scheduler'
MARK = '{}.{}.novasched'
"""The queue, by topic and host, that shows that novasched serves the host's own queue.

nova-scheduler reads none of this name, and is not asked what only novasched answers.
"""
LAST_PART = 0.8
"""The rest of a server's time to stop is for undoing claims of unread answers."""
GONE: tuple[type[BaseException], ...] = (OSError, *CONNECTION_ERRORS)
LEVELS = {
    errors.NoValidHost: logging.INFO,
    errors.Busy: logging.INFO,
    CallerGone: logging.WARNING,
}
Method = TypeVar('Method', bound=Callable[..., Any])
ABSENT = object()


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


def checked(method: Method) -> Method:
    """Raise errors.InvalidRequest for an argument that there is no parameter for."""
    known = inspect.signature(method).parameters
    takes_all = any(each.kind is each.VAR_KEYWORD for each in known.values())

    @functools.wraps(method)
    def wrapper(self: Any, context: RequestContext, **arguments: Any) -> Any:
        unknown = sorted(arguments.keys() - known.keys())
        if unknown and not takes_all:
            raise errors.InvalidRequest(f'unknown argument {", ".join(unknown)}')
        return method(self, context, **arguments)

    return cast(Method, wrapper)


def answered(method: Method) -> Method:
    """Send every errors.RequestError to the caller as nova's, with one log line."""
    call = checked(method)

    @functools.wraps(method)
    def wrapper(self: Any, context: RequestContext, **arguments: Any) -> Any:
        try:
            return call(self, context, **arguments)
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
        self._requests = requests

    @answered
    def select_destinations(self, context: RequestContext, **arguments: Any) -> Any:
        """Choose and claim hosts; see SchedulerManager.select_destinations."""
        with self._requests.attempt() if self._requests else contextlib.nullcontext():
            if waiting := caller.current():
                waiting.check_turn()
            answer = self._select(context, **arguments)
            if self._requests:
                self._requests.placed(len(answer))
            return answer

    @checked
    def _select(
        self,
        context: RequestContext,
        request_spec: Any = None,
        filter_properties: Any = None,
        spec_obj: Any = ABSENT,
        instance_uuids: Any = None,
        return_objects: Any = False,
        return_alternates: Any = False,
    ) -> Any:
        if spec_obj is not ABSENT:
            request = decode(spec_obj, context, self._backport)
        elif request_spec is not None:
            request = legacy.from_legacy(
                decode(request_spec, context, self._backport),
                decode(filter_properties, context, self._backport),
            )
        else:
            raise errors.InvalidRequest('there is no spec_obj and no request_spec')
        if not isinstance(request, RequestSpec):
            raise errors.InvalidRequest('spec_obj is not a RequestSpec')
        return self._manager.select_destinations(
            context,
            request,
            _uuids(instance_uuids),
            bool(return_objects),
            bool(return_alternates),
            caller.current(),
        )

    @answered
    def update_aggregates(
        self, context: RequestContext, aggregates: Any = None
    ) -> None:
        """Take in aggregates: a list of them, an AggregateList or just one."""
        decoded = decode(aggregates, context, self._backport)
        listed = getattr(decoded, 'objects', decoded)
        each_one = listed if isinstance(listed, list) else [listed]
        self._manager.update_aggregates([_aggregate(each) for each in each_one])

    @answered
    def delete_aggregate(self, context: RequestContext, aggregate: Any = None) -> None:
        """Forget an aggregate; only its id is looked at."""
        decoded = decode(aggregate, context, self._backport)
        self._manager.delete_aggregate(_id_of(decoded))

    @answered
    def update_instance_info(
        self, context: RequestContext, host_name: Any = None, instance_info: Any = None
    ) -> None:
        """Take in instances of a host."""
        instances = decode(instance_info, context, self._backport)
        if not isinstance(instances, InstanceList):
            raise errors.InvalidRequest('instance_info is not an InstanceList')
        self._manager.update_instance_info(
            _text('host_name', host_name),
            {each.uuid: each for each in instances.objects},
        )

    @answered
    def delete_instance_info(
        self, context: RequestContext, host_name: Any = None, instance_uuid: Any = None
    ) -> None:
        """Forget an instance of a host."""
        self._manager.delete_instance_info(
            _text('host_name', host_name), _text('instance_uuid', instance_uuid)
        )

    @answered
    def sync_instance_info(
        self, context: RequestContext, host_name: Any = None, instance_uuids: Any = None
    ) -> None:
        """Compare what is known of a host with the uuids of all its instances."""
        self._manager.sync_instance_info(
            _text('host_name', host_name), _uuids(instance_uuids) or []
        )


class BaseEndpoint:
    """What every service of nova answers. Nova: baserpc.py."""

    target = oslo_messaging.Target(namespace='baseapi', version='1.1')

    def ping(self, context: RequestContext, arg: Any = None) -> dict[str, Any]:
        """Return the argument and the name of the service."""
        return {'service': TOPIC, 'arg': arg}

    def get_backdoor_port(self, context: RequestContext) -> int | None:
        """Return None, as there is no backdoor."""
        return None


class PublicMethods(dispatcher.DefaultRPCAccessPolicy):  # type: ignore[misc]
    """Lets callers name public methods, but no other attribute of an endpoint."""

    def is_allowed(self, endpoint: Any, method: str) -> bool:
        """Return whether a caller may name it; oslo.messaging refuses all others."""
        is_public: bool = super().is_allowed(endpoint, method)
        return is_public and inspect.ismethod(getattr(endpoint, method))


class Dispatcher(dispatcher.RPCDispatcher):  # type: ignore[misc]
    """Says in one line of the log what was wrong with a message."""

    def __init__(self, endpoints: list[Any], requests: Requests | None = None) -> None:
        super().__init__(endpoints, RequestSerializer(), PublicMethods)
        self._requests = requests

    def dispatch(self, incoming: Any) -> Any:
        """Call the method that a message names."""
        waiting = caller.current()
        now_s = waiting.broker_clock if waiting else SYSTEM_CLOCK.time
        waited = waited_s(incoming, now_s)
        if self._requests and waited is not None:
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


class RequestExecutor(BulkheadExecutor):
    """Executor of requests as oslo.messaging calls it. Its idle threads sleep;
    futurist's wake up every second."""

    def __init__(self, max_workers: int) -> None:
        super().__init__('requests', max_workers)
        self._is_shut_down = False

    def submit(self, make: Callable[..., ResultT], *args: Any) -> Future[ResultT]:
        """Raises RuntimeError after the shutdown, when no thread is left to run it."""
        if self._is_shut_down:
            raise RuntimeError('the server has stopped')
        return super().submit(functools.partial(make, *args))

    def shutdown(self, wait: bool = True) -> None:
        """Let the threads end; wait until those that serve requests have."""
        self._is_shut_down = True
        self.close()
        if wait:
            self.join(threading.TIMEOUT_MAX)


class StoppableServer(RPCServer):  # type: ignore[misc]
    """Knows the callers of what it serves, and stops without losing requests.

    oslo.messaging stops reading, but never cancels its consumer. What the broker sends
    until the connection closes is acknowledged while it closes, and forgotten.
    Parked answers wait for their callers, but not for longer than ``drain_s`` once the
    server stops. ``clock`` is the broker's.
    """

    drain_s: float = float('inf')

    def __init__(
        self,
        transport: Any,
        target: Any,
        dispatcher: Any,
        requests: Requests | None = None,
    ) -> None:
        super().__init__(transport, target, dispatcher)
        oslo_internals.use_threads(self, RequestExecutor)
        self.requests = requests
        driver = oslo_internals.driver_of(transport)
        broker = Broker(driver)
        retry_s = getattr(driver, 'missing_destination_retry_timeout', None) or 0
        self.clock = BrokerClock(broker.clock_behind_s)
        self._queues = ReplyQueues(broker.consumers, retry_s)
        self._answers = Answers(self._queues)

    @functools.wraps(RPCServer.stop)  # with the mark of what is done in order
    def stop(self) -> None:
        """Take no more requests; those that came already are still served."""
        self._answers.end_by(SYSTEM_CLOCK.monotonic() + self.drain_s * LAST_PART)
        inside = RunningServer.of(self) if is_rabbit(self.transport.conf) else None
        super().stop()
        if inside is None:
            return
        try:
            with inside.lock:
                for consumer, tag in inside.consumers.items():
                    consumer.cancel(tag)
        except GONE as problem:
            LOG.warning('The broker cannot be asked to send no more: %s', problem)
        while incoming := inside.poll():
            inside.serve(incoming)

    @functools.wraps(RPCServer.wait)
    def wait(self) -> None:
        """Wait for requests under way, and for their answers."""
        super().wait()
        self._answers.drain()
        self._queues.stop()
        self._answers.close()
        self.clock.close()

    def _create_listener(self) -> Any:
        """Listen, and show at the broker that it is novasched that does."""
        adapter = super()._create_listener()
        if self._target.topic == TOPIC and is_rabbit(self.transport.conf):
            mark = MARK.format(self._target.topic, self._target.server)
            oslo_internals.declare_topic_queue(
                self.transport, adapter, self._target, mark
            )
        return adapter

    def _on_incoming(self, incoming: Any) -> None:
        if self.requests:
            self.requests.queued(id(incoming), waited_s(incoming[0]) or 0.0)
        super()._on_incoming(incoming)

    def _process_incoming(self, incoming: Any) -> None:
        if self.requests:
            self.requests.taken(id(incoming))
        waiting = caller.RpcCaller(
            incoming[0],
            self._queues,
            self._answers.has_room,
            self.clock,
            resting=getattr(self._work_executor, 'resting', contextlib.nullcontext),
        )
        with caller.calling(waiting):
            answering = Incoming(incoming[0], waiting, self._answers)
            super()._process_incoming([answering])


def server(
    transport: Any,
    host: str,
    manager: SchedulerManager,
    backport: Backport | None,
    requests: Requests,
    more: Sequence[Any] = (),
) -> StoppableServer:
    """Return an RPC server, not started; ``host`` names it.

    It serves in threads, or in eventlet's where the standard library is patched.
    ``more`` are endpoints that nova has not.
    """
    endpoints = [SchedulerEndpoint(manager, backport, requests), BaseEndpoint(), *more]
    target = oslo_messaging.Target(topic=TOPIC, server=host)
    return StoppableServer(transport, target, Dispatcher(endpoints, requests), requests)


def problem_of(server: Any) -> str | None:
    """Return why a server that runs over RabbitMQ gets no messages now, or None."""
    if isinstance(server, Tap):
        return server.problem
    try:
        connected = oslo_internals.is_connected(server)
    except AttributeError:
        return 'the server does not listen'
    return None if connected else 'the connection to the broker is lost'


def _text(name: str, value: Any) -> str:
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
    id_, names = _id_of(aggregate), ('uuid', 'name', 'hosts', 'metadata')
    said = {each: getattr(aggregate, each) for each in names if each in aggregate}
    hosts, metadata = said.get('hosts') or (), said.get('metadata') or {}
    uuid, name = said.get('uuid'), said.get('name')
    return Aggregate(id_, uuid, name, frozenset(hosts), dict(metadata))
