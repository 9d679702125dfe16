# SPDX-License-Identifier: Apache-2.0
"""Undoing a claim of which only the journal knows: exactly that, or nothing."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from typing import Any

from keystoneauth1.adapter import Adapter

from novasched import errors
from novasched.objects import context as contexts
from novasched.placement.allocations import VERSION, Allocations, held_by
from novasched.placement.exchange import NoAnswer, ask
from novasched.ports import QueryFailed, UndoUnanswered

TIMEOUT_S = 10.0


def through(
    adapter: Adapter,
) -> Callable[[str, Allocations, Mapping[str, Any] | None, int | None], bool]:
    """Return ``undo`` through an adapter."""
    return functools.partial(undo, adapter)


def undo(
    adapter: Adapter,
    consumer_uuid: str,
    holds: Allocations,
    before: Mapping[str, Any] | None,
    generation: int | None,
) -> bool:
    """Bring a consumer that holds exactly this back to what it held before.

    ``generation`` is the consumer's before the claim. False: it holds something else,
    or did when placement heard of it, or was claimed for again. Raises
    errors.AllocationDeleteFailed where placement does neither, and UndoUnanswered where
    it says nothing.
    """
    context = contexts.admin()
    held = held_by(adapter, context, consumer_uuid, TIMEOUT_S)
    if isinstance(held, QueryFailed):
        raise _failure(consumer_uuid, held.status, held.text)
    if not held.allocations or held.allocations != holds:
        return False
    # Who claimed the same on top of it, as the same move made again does, uses it.
    if held.generation != (generation or 0) + 1:
        return False
    nothing: dict[str, Any] = {
        'allocations': {},
        'project_id': held.project_id,
        'user_id': held.user_id,
    }
    # The generation lets it through only if nobody changed the consumer since.
    body = {**(before or nothing), 'consumer_generation': held.generation}
    url = f'/allocations/{consumer_uuid}'
    answer = ask(adapter, context, 'PUT', url, VERSION, body, TIMEOUT_S)
    if isinstance(answer, NoAnswer):
        raise _failure(consumer_uuid, 0, answer.text)
    if answer.status_code == 409:
        return False
    if answer.status_code != 204:
        raise _failure(consumer_uuid, answer.status_code, answer.text)
    return True


def _failure(
    consumer_uuid: str, status: int, text: str
) -> errors.AllocationDeleteFailed:
    kind = errors.AllocationDeleteFailed if status else UndoUnanswered
    return kind(consumer_uuid, text)
