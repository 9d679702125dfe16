# SPDX-License-Identifier: Apache-2.0
"""Allocations of a consumer, as placement has them."""

from __future__ import annotations

import operator
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

import requests
from keystoneauth1.adapter import Adapter

from novasched import http
from novasched.objects.context import RequestContext
from novasched.parsing import parse_json
from novasched.placement.session import NoAnswer, ask, failed
from novasched.ports import QueryFailed
from novasched.runtime.clock import SYSTEM_CLOCK, Clock

T = TypeVar('T')

VERSION = '1.28'
LOOKUP_TIMEOUT_S, LOOKUPS_TIMEOUT_S = 10.0, 30.0
"""How long one look may take, and how long all looks of a question."""
TOO_SLOW = f'its answers took longer than {LOOKUPS_TIMEOUT_S:g} s'
MOST_ASKED = 200
"""Consumers of which it is asked one by one what they hold."""
AGE_PRECISION_S = 2.0
"""Placement tells whole seconds, of two clocks that may differ by one more."""

Allocations = Mapping[str, Mapping[str, int]]
"""Amounts by resource class by provider."""


@dataclass(frozen=True)
class ConsumerAllocations:
    """All that a consumer holds."""

    allocations: Allocations
    generation: int | None  # None if it holds nothing
    project_id: str | None
    user_id: str | None
    # seconds since it was written, within AGE_PRECISION_S; None if the answer does not
    # say
    age_s: float | None = field(default=None, compare=False)

    def is_exactly(self, allocations: Allocations, generation: int) -> bool:
        """Return whether a consumer of this generation holds this, and no more."""
        return self.generation == generation and self.allocations == allocations

    def body(self) -> dict[str, Any] | None:
        """Return the body that restores this, without generation; None for nothing."""
        if not self.allocations:
            return None
        return {
            'allocations': {
                provider: {'resources': dict(held)}
                for provider, held in self.allocations.items()
            },
            'project_id': self.project_id,
            'user_id': self.user_id,
        }


NOTHING = ConsumerAllocations({}, None, None, None)


def held_by(
    adapter: Adapter,
    context: RequestContext,
    consumer_uuid: str,
    timeout_s: float | None = None,
) -> ConsumerAllocations | QueryFailed:
    """Read what a consumer holds."""
    url = f'/allocations/{consumer_uuid}'
    answer = ask(adapter, context, 'GET', url, VERSION, timeout_s=timeout_s)
    if isinstance(answer, NoAnswer) or answer.status_code != 200:
        return failed(answer)
    try:
        found = parse_json(answer.content)
        if not found['allocations']:
            return NOTHING
        return ConsumerAllocations(
            amounts(found['allocations']),
            operator.index(found['consumer_generation']),
            found['project_id'],
            found['user_id'],
            _age_s(answer.headers),
        )
    except (ValueError, KeyError, TypeError, AttributeError):
        return failed(answer)


def holders(
    adapter: Adapter,
    context: RequestContext,
    consumers: Sequence[str],
    among: Collection[str] | None,
    clock: Clock = SYSTEM_CLOCK,
) -> Mapping[str, Collection[str]] | QueryFailed:
    """Return the providers that consumers take from.

    One request is sent for each consumer. If fewer providers matter, or consumers are
    too many, one is sent for each provider instead.
    """
    if among is None or len(consumers) < min(len(among), MOST_ASKED + 1):
        held = _look_at_all(
            consumers[:MOST_ASKED],
            lambda consumer, timeout_s: held_by(adapter, context, consumer, timeout_s),
            clock,
        )
        if isinstance(held, QueryFailed):
            return held
        return {
            consumer: {*has.allocations}
            for consumer, has in held.items()
            if has.allocations
        }
    there = _look_at_all(
        among,
        lambda provider, timeout_s: _of_provider(
            adapter, context, provider, 'allocations', timeout_s, lambda s: s.keys()
        ),
        clock,
    )
    if isinstance(there, QueryFailed):
        return there
    found: dict[str, set[str]] = {}
    for provider, holding in there.items():
        for consumer in holding & {*consumers}:
            found.setdefault(consumer, set()).add(provider)
    return found


def usages(
    adapter: Adapter,
    context: RequestContext,
    providers: Iterable[str],
    clock: Clock = SYSTEM_CLOCK,
) -> Mapping[str, Mapping[str, int]] | QueryFailed:
    """Return the usages of providers, by one request for each."""
    return _look_at_all(
        providers,
        lambda provider, timeout_s: _of_provider(
            adapter, context, provider, 'usages', timeout_s, _amounts
        ),
        clock,
    )


def _look_at_all(
    uuids: Iterable[str],
    look: Callable[[str, float], T | QueryFailed],
    clock: Clock,
) -> dict[str, T] | QueryFailed:
    """Look at uuids in turn, and return the answers by uuid.

    A look that fails ends it, and so does LOOKUPS_TIMEOUT_S.
    """
    until_s = clock.monotonic() + LOOKUPS_TIMEOUT_S
    found: dict[str, T] = {}
    for uuid in uuids:
        left_s = until_s - clock.monotonic()
        if left_s <= 0:
            return QueryFailed(0, TOO_SLOW, is_unavailable=True)
        seen = look(uuid, min(LOOKUP_TIMEOUT_S, left_s))
        if isinstance(seen, QueryFailed):
            return seen
        found[uuid] = seen
    return found


def _of_provider(
    adapter: Adapter,
    context: RequestContext,
    provider: str,
    what: str,
    timeout_s: float,
    read: Callable[[Mapping[str, Any]], T],
) -> T | QueryFailed:
    """Ask what there is of a provider; return what is read of it."""
    url = f'/resource_providers/{provider}/{what}'
    answer = ask(adapter, context, 'GET', url, VERSION, timeout_s=timeout_s)
    if isinstance(answer, NoAnswer) or answer.status_code != 200:
        return failed(answer)
    try:
        return read(parse_json(answer.content)[what])
    except (ValueError, KeyError, TypeError, AttributeError):
        return failed(answer)


def _amounts(said: Mapping[str, Any]) -> dict[str, int]:
    return {name: operator.index(amount) for name, amount in said.items()}


def _age_s(headers: Mapping[str, str]) -> float | None:
    """Return the age of what an answer shows, by the clock of who answers."""
    modified = http.seconds(headers.get('Last-Modified'))
    if modified is None:
        return None
    now = http.seconds(headers.get('Date'))
    return (SYSTEM_CLOCK.time() if now is None else now) - modified


def amounts(allocations: Mapping[str, Any]) -> dict[str, dict[str, int]]:
    """Reduce allocations in placement's form to what they amount to."""
    return {
        provider: dict(allocation['resources'])
        for provider, allocation in allocations.items()
    }


def generation_after(before: int | None) -> int:
    """Return the generation that a 204 to one claim implies.

    ``before`` is the consumer's until then, or None before its first claim.
    """
    return (before or 0) + 1


def what_changed(answer: requests.Response) -> str | None:
    """Name what changed meanwhile, consumer or provider; None for other errors."""
    try:
        error = parse_json(answer.content)['errors'][0]
        if error['code'] != 'placement.concurrent_update':
            return None
        if 'consumer generation conflict' in error['detail']:
            return 'consumer'
    except (ValueError, KeyError, IndexError, TypeError):
        return None
    return 'provider'
