# SPDX-License-Identifier: Apache-2.0
"""Questions about the decisions of a scheduler, over its RPC server.

The interface is ``novasched`` 1.0, beside nova's on the queue ``scheduler.<host>``;
docs/reference/inspection-rpc.md describes it. Answers are primitives, and name the
log that they are from.
"""

from __future__ import annotations

import functools
import threading
from collections.abc import Callable
from dataclasses import asdict
from typing import Any, TypeVar, cast

import oslo_messaging  # type: ignore[import-untyped]

from novasched import errors
from novasched.decisions import overview
from novasched.decisions.counting import GROUPINGS, Tally
from novasched.decisions.primitives import criteria_of, packed
from novasched.decisions.reading import DecisionReader, whole_id
from novasched.decisions.record import Servers
from novasched.objects.context import RequestContext
from novasched.rpc import caller
from novasched.rpc.server import TOPIC, answered
from novasched.runtime.typed_json import to_json

TARGET = oslo_messaging.Target(topic=TOPIC, namespace='novasched', version='1.0')
AT_ONCE = 2
"""Questions that one worker answers at a time: more would keep requests waiting."""
MOST_FOUND = 500
MOST_WINDOW_S = 3600.0
Method = TypeVar('Method', bound=Callable[..., Any])


def _bounded(method: Method) -> Method:
    """Answer as many at a time as there are turns for, with the origin."""

    @functools.wraps(method)
    def wrapper(self: Any, context: RequestContext, **arguments: Any) -> Any:
        if waiting := caller.current():
            waiting.check_turn()
        if not self._turns.acquire(blocking=False):
            raise errors.Busy(AT_ONCE)
        try:
            answer = method(self, context, **arguments)
        finally:
            self._turns.release()
        return {'origin': self._origin, 'answer': answer}

    return cast(Method, wrapper)


class InspectionEndpoint:
    """Answers what commands on other machines ask.

    ``origin`` tells the log from others: where two schedulers of one machine write one
    log, their answers are the same.
    """

    target = oslo_messaging.Target(namespace=TARGET.namespace, version=TARGET.version)

    def __init__(self, reader: DecisionReader, origin: str) -> None:
        self._origin = origin
        self._turns = threading.BoundedSemaphore(AT_ONCE)
        self._reader = reader

    @answered
    @_bounded
    def find(
        self,
        context: RequestContext,
        criteria: Any = None,
        limit: Any = MOST_FOUND,
        before: Any = None,
    ) -> list[Any]:
        """Return heads, with the uuids of their servers, and the hosts that were
        picked, newest first."""
        wanted = min(int(_number('limit', limit, 1e9)), MOST_FOUND)
        end = None if before is None else _id('before', before)
        try:
            heads = self._reader.find(criteria_of(criteria), wanted, end)
        except errors.AmbiguousDecision as problem:
            raise errors.InvalidRequest(str(problem)) from problem
        servers = self._reader.servers_of([head.id for head in heads])
        found = [(head, servers.get(head.id, Servers())) for head in heads]
        return [
            [{**asdict(head), 'server_uuids': of_it.uuids}, of_it.hosts]
            for head, of_it in found
        ]

    @answered
    @_bounded
    def read(self, context: RequestContext, id: Any = None) -> dict[str, Any]:
        """Return the record whose id begins so; or ``ids``, where several do."""
        try:
            record = self._reader.read(_id('id', id))
        except errors.AmbiguousDecision as problem:
            return {'ids': list(problem.found), 'record': None}
        if record is None:
            return {'ids': [], 'record': None}
        return {'ids': [record.head.id], 'record': packed(record)}

    @answered
    @_bounded
    def count(
        self, context: RequestContext, by: Any = None, criteria: Any = None
    ) -> Tally:
        """Return the number of decisions by value and reason."""
        if _word('by', by) not in GROUPINGS:
            raise errors.InvalidRequest(f'nothing is counted by {by}')
        return self._reader.tally(by, criteria_of(criteria))

    @answered
    @_bounded
    def oldest_at(self, context: RequestContext) -> int | None:
        """Return the time of the oldest decision, in microseconds since 1970."""
        return self._reader.oldest_at()

    @answered
    @_bounded
    def overview(self, context: RequestContext, window_s: Any = 60) -> dict[str, Any]:
        """Return the picture of the last seconds."""
        seconds = _number('window_s', window_s, MOST_WINDOW_S)
        made: dict[str, Any] = to_json(overview.summarize(self._reader, seconds))
        return made


def _word(name: str, value: Any) -> str:
    if not isinstance(value, str):
        raise errors.InvalidRequest(f'{name} is {value!r}, not text')
    return value


def _id(name: str, value: Any) -> str:
    try:
        return whole_id(_word(name, value))
    except errors.DecisionNotFound as problem:
        raise errors.InvalidRequest(f'{name} {value!r} is no id') from problem


def _number(name: str, value: Any, most: float) -> float:
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    if is_number and 0 < value <= most:
        return float(value)
    problem = f'{name} is {value!r}, not a positive number up to {most:g}'
    raise errors.InvalidRequest(problem)
