# SPDX-License-Identifier: Apache-2.0
"""Picks sent to all schedulers of the cloud, and those that come from others.

They go by a fanout exchange of their own, which nova-scheduler does not listen to. What
is lost costs a refusal by a compute.
"""

from __future__ import annotations

import datetime
import itertools
import json
import logging
import threading
import uuid as uuids
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import oslo_messaging  # type: ignore[import-untyped]

from novasched import errors
from novasched.cluster.assumed import FOR_S, AssumedInstances
from novasched.cluster.host_picks import (
    NOTHING,
    NUMBERS,
    AssumedPick,
    Pick,
    RowVersion,
    UsageRow,
    UsageTotals,
    consumed,
)
from novasched.objects import context as contexts
from novasched.objects.context import RequestContext
from novasched.objects.flavor import Flavor
from novasched.objects.request_spec import RequestGroup, RequestSpec
from novasched.rpc.oslo_internals import use_threads
from novasched.rpc.serializer import RequestSerializer, decode, encode
from novasched.rpc.server import TOPIC, RequestExecutor
from novasched.runtime.clock import SYSTEM_CLOCK, Clock
from novasched.runtime.log_once import LogOnce
from novasched.scheduler.fit.fitting import Fitting
from novasched.scheduler.fit.parse import NOWHERE, HostPools

LOG = logging.getLogger(__name__)

FANOUT = 'novasched-picks'
TARGET = oslo_messaging.Target(
    topic=FANOUT, namespace=FANOUT, version='1.0', fanout=True
)
VERSION = 1
"""Of what a message says; another one is not understood."""
MOST_AT_ONCE = 100
"""Changes in one message."""
MOST_WAITING = 10_000
"""Changes that wait to be sent; the oldest are lost first."""
LARGEST = 2**40
"""Of one instance: MiB, CPUs or devices."""
LONGEST = 2**16
"""Characters of one pick as it travels; the largest guests take a fifth of that."""
LONGEST_ORIGIN = 64
NO_HOST = UsageRow(None, (0,) * len(NUMBERS), (NOWHERE, HostPools.of(())))

Primitive = dict[str, Any]
Count = Callable[[str, int], None]
"""Counts picks, by what became of them: sent, lost, received or refused."""


def topics(conf: Any) -> list[str]:
    """Return all that a scheduler listens to."""
    return [TOPIC, FANOUT] if conf.novasched.assume_picks else [TOPIC]


class PickSender:
    """Sends what requests pick, or pick no more, in a thread of its own.

    Of one instance only the last change is sent; what waits is sent together. Nobody
    waits for the broker. ``cast`` sends a message.
    """

    def __init__(
        self, cast: Callable[..., None], count: Count, clock: Clock = SYSTEM_CLOCK
    ) -> None:
        self.origin = uuids.uuid4().hex
        self._cast = cast
        self._count = count
        self._clock = clock
        self._waiting: dict[str, _PickChange] = {}
        self._changed = threading.Condition()
        self._is_closed = False
        self._failing = LogOnce()

    @classmethod
    def over(cls, transport: Any, count: Count) -> PickSender:
        """Return one that sends by a transport."""
        client = oslo_messaging.get_rpc_client(
            transport, TARGET, retry=0, serializer=RequestSerializer()
        )
        context = contexts.admin()

        def cast(**arguments: Any) -> None:
            client.cast(context, 'take_in', **arguments)

        return cls(cast, count)

    def start(self) -> None:
        """Begin to send: first nothing, to connect."""
        threading.Thread(target=self._run, name='picks', daemon=True).start()

    def __call__(self, uuid: str, pick: AssumedPick | None, origin: str = '') -> None:
        """Send a change soon. ``origin`` is the scheduler whose pick is over, '' this
        one."""
        with self._changed:
            before = self._waiting.pop(uuid, None)
            ended = before.ended if before is not None else frozenset[str]()
            if pick is None:
                ended |= {origin or self.origin}
                if origin and before is not None:  # what this scheduler picked stays
                    pick = before.pick
            if len(self._waiting) >= MOST_WAITING:
                del self._waiting[next(iter(self._waiting))]
                self._count('lost', 1)
            self._waiting[uuid] = _PickChange(self._clock.monotonic(), pick, ended)
            self._changed.notify()

    def close(self) -> None:
        with self._changed:
            self._is_closed = True
            self._changed.notify()

    def _run(self) -> None:
        self.send({})
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._waiting or self._is_closed)
                if self._is_closed:
                    return
                now_s = self._clock.monotonic()
                taken = {
                    uuid: self._waiting.pop(uuid)
                    for uuid in [*itertools.islice(self._waiting, MOST_AT_ONCE)]
                }
            fresh = {u: one for u, one in taken.items() if one.at_s + FOR_S > now_s}
            if fresh:
                self.send(fresh)

    def send(self, changes: Mapping[str, _PickChange]) -> None:
        try:
            wire = {u: one.pick and _primitive(one.pick) for u, one in changes.items()}
            ended = {u: sorted(one.ended) for u, one in changes.items() if one.ended}
            self._cast(version=VERSION, origin=self.origin, changes=wire, ended=ended)
        except Exception as problem:  # noqa: BLE001 whatever keeps it from the broker
            self._count('lost', len(changes))
            if self._failing.begins():
                LOG.warning('Cannot publish picks to other schedulers: %s', problem)
            return
        if changes:
            self._count('sent', len(changes))
        if self._failing.ends():
            LOG.info('Picks are published to other schedulers again')


class _PickChange(NamedTuple):
    """What is picked for an instance, and whose picks for it are over."""

    at_s: float
    pick: AssumedPick | None
    ended: frozenset[str]


class PicksEndpoint:
    """Takes in what other schedulers pick; ``assumed`` returns where to, or None.

    ``origin`` marks what this process sends, which comes back.
    """

    target = oslo_messaging.Target(namespace=TARGET.namespace, version=TARGET.version)

    def __init__(
        self, assumed: Callable[[], AssumedInstances | None], origin: str, count: Count
    ) -> None:
        self._assumed = assumed
        self._origin = origin
        self._count = count
        self._refused = LogOnce()

    def take_in(
        self,
        context: RequestContext,
        version: Any = None,
        origin: Any = None,
        changes: Any = None,
        ended: Any = None,
        **_: Any,
    ) -> None:
        """Take in changes, by instance: a pick, or None once a pick is over.

        ``ended`` has the origins of such picks. An unreadable change is left out, with
        one log line for its kind.
        """
        assumed = self._assumed()
        if assumed is None:
            return
        is_known = version == VERSION and _is_origin(origin)
        is_whole = isinstance(changes, dict) and isinstance(ended, dict)
        if not (is_known and is_whole and len(changes) <= MOST_AT_ONCE):
            self._refuse('a message', errors.InvalidRequest(f'version {version!r}'))
        elif origin == self._origin:
            sent = {u: c['number'] for u, c in changes.items() if _is_numbered(c)}
            assumed.acknowledge(sent)
        else:
            self._take_in(assumed, origin, changes, ended)

    def _take_in(
        self, assumed: AssumedInstances, origin: str, changes: Any, ended: Any
    ) -> None:
        for uuid, primitive in changes.items():
            try:
                for one in _origins(ended.get(uuid, [])):
                    assumed.end_remote(uuid, '' if one == self._origin else one)
                if primitive is not None:
                    assumed.apply_remote(_pick(uuid, primitive, origin))
            except errors.RequestError as problem:
                self._refuse('one', problem)
            else:
                self._count('received', 1)

    def _refuse(self, what: str, problem: errors.RequestError) -> None:
        self._count('refused', 1)
        if self._refused.begins(type(problem).__name__):
            LOG.warning(
                'Picks of other schedulers are ignored, at least %s: %s', what, problem
            )


def server(transport: Any, host: str, endpoint: PicksEndpoint) -> Any:
    """Return the server of an endpoint. With a pool of one thread, messages are taken
    in in the order in which they come."""
    target = oslo_messaging.Target(topic=FANOUT, server=host)
    made = oslo_messaging.get_rpc_server(
        transport,
        target,
        [endpoint],
        serializer=RequestSerializer(),
        access_policy=oslo_messaging.DefaultRPCAccessPolicy,
    )
    use_threads(made, RequestExecutor)
    return made


def _primitive(one: AssumedPick) -> Primitive:
    """Return a pick as it travels: of its request only what its host has to know."""
    pick = one.pick
    request = pick.request
    flavor = {
        name: getattr(request, name)
        for name in ('memory_mb', 'vcpus', 'root_gb', 'ephemeral_gb')
    }
    values = {
        name: getattr(request, name)
        for name in ('numa_topology', 'pci_requests', 'network_metadata')
        if name in request
    }
    groups = request.requested_resources if 'requested_resources' in request else None
    if groups is not None:
        groups = [
            RequestGroup.made_of(
                requester_id=each.requester_id, provider_uuids=each.provider_uuids
            )
            for each in groups
        ]
    small = RequestSpec.made_of(
        instance_uuid=request.instance_uuid,
        flavor=Flavor.made_of(**flavor),
        instance_group=None,
        requested_resources=groups,
        **values,
    )
    updated = pick.seen.updated
    return {
        'cell': pick.key[0],
        'node': pick.key[1],
        'host': pick.host,
        'request': encode(small),
        'limits': encode(pick.limits.get('numa_topology')),
        'updated': None if updated is None else updated.isoformat(),
        'used': list(pick.seen.used),
        'takes': list(pick.usage_delta),
        'group': pick.group,
        'number': one.number,
        'first': pick.first,
    }


def _pick(uuid: Any, primitive: Any, origin: str) -> Pick:
    """Read a pick. Raises errors.RequestError."""
    try:
        if len(json.dumps(primitive)) > LONGEST:
            raise ValueError(f'it is longer than {LONGEST} characters')
        request = decode(primitive['request'], None)
        limits = decode(primitive['limits'], None)
        updated, group = primitive['updated'], primitive['group']
        made = Pick(
            key=(str(primitive['cell']), str(primitive['node'])),
            host=str(primitive['host']),
            request=request,
            limits={} if limits is None else {'numa_topology': limits},
            seen=RowVersion(
                None if updated is None else _time(updated), _used(primitive['used'])
            ),
            usage_delta=_used(primitive['takes']),
            group=None if group is None else str(group),
            origin=origin,
            first=str(primitive.get('first', uuid)),
        )
        is_whole = isinstance(request, RequestSpec) and made.uuid == uuid
        if is_whole:
            values = consumed(NO_HOST, [made], Fitting())
            _bounded([values[name] for name in NUMBERS])
    except Exception as problem:  # another scheduler may have sent anything
        text = f'a pick: {type(problem).__name__}: {problem}'
        raise errors.InvalidRequest(text) from problem
    if not is_whole:
        raise errors.InvalidRequest(f'a pick of {uuid!r}: another request')
    return made


def _is_numbered(change: Any) -> bool:
    return isinstance(change, dict) and isinstance(change.get('number'), int)


def _is_origin(value: Any) -> bool:
    return isinstance(value, str) and 0 < len(value) <= LONGEST_ORIGIN


def _origins(value: Any) -> list[str]:
    if not isinstance(value, list) or not all(map(_is_origin, value)):
        raise errors.InvalidRequest(f'{value!r:.100} are no origins')
    return value


def _time(value: str) -> datetime.datetime:
    time = datetime.datetime.fromisoformat(value)
    if time.tzinfo is None:
        raise ValueError(f'{value!r:.100} has no time zone')
    return time


def _used(value: Any) -> UsageTotals:
    used = _bounded(value)
    if len(used) != len(NOTHING):
        raise ValueError(f'{value!r:.100} is no usage')
    return used


def _bounded(value: Any) -> tuple[int, ...]:
    for number in value:
        if not isinstance(number, int) or abs(number) > LARGEST:
            raise ValueError(f'{value!r:.100} is no usage')
    return tuple(value)
