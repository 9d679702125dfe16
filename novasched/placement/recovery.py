# SPDX-License-Identifier: Apache-2.0
"""Recovery of claims that killed workers left: undone exactly, or kept."""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from keystoneauth1.adapter import Adapter

from novasched import errors
from novasched.objects import context as contexts
from novasched.placement.allocations import (
    VERSION,
    Allocations,
    ConsumerAllocations,
    generation_after,
    held_by,
)
from novasched.placement.http import NoAnswer, ask
from novasched.ports import QueryFailed, UndoUnanswered

TIMEOUT_S = 10.0


@dataclass(frozen=True)
class ClaimRecovery:
    """Claims of killed workers, in placement. Satisfies journal.recovery.Claims."""

    adapter: Adapter

    def stands(
        self, consumer_uuid: str, holds: Allocations, generation: int | None
    ) -> bool:
        """Say whether a consumer holds exactly this, and was claimed for once since a
        generation. Raises as ``undo`` does."""
        found = _standing(self.adapter, consumer_uuid, holds, generation, TIMEOUT_S)
        return found is not None

    def undo(
        self,
        consumer_uuid: str,
        holds: Allocations,
        before: Mapping[str, Any] | None,
        generation: int | None,
        left_s: Callable[[], float],
    ) -> bool:
        """Bring a consumer that holds exactly this back to what it held before.

        ``generation`` is the consumer's before the claim; ``left_s`` returns how
        long the claim may still be undone. False: that is over, or the consumer holds
        something else, or did when placement heard of it, or was claimed for again.
        Raises errors.AllocationDeleteFailed where placement does neither, and
        UndoUnanswered where it says nothing.
        """
        if (seconds := left_s()) <= 0:
            return False
        timeout_s = min(TIMEOUT_S, seconds)
        held = _standing(self.adapter, consumer_uuid, holds, generation, timeout_s)
        # The answer may have taken all the time that was left.
        if held is None or (seconds := left_s()) <= 0:
            return False
        nothing: dict[str, Any] = {
            'allocations': {},
            'project_id': held.project_id,
            'user_id': held.user_id,
        }
        # The generation lets it through only if the consumer has not changed since.
        body = {**(before or nothing), 'consumer_generation': held.generation}
        url, timeout_s = f'/allocations/{consumer_uuid}', min(TIMEOUT_S, seconds)
        answer = ask(
            self.adapter, contexts.admin(), 'PUT', url, VERSION, body, timeout_s
        )
        if isinstance(answer, NoAnswer):
            raise _failure(consumer_uuid, 0, answer.text)
        if answer.status_code == 409:
            return False
        if answer.status_code != 204:
            raise _failure(consumer_uuid, answer.status_code, answer.text)
        return True


def claim_recovery(adapter: Adapter) -> ClaimRecovery:
    """Return recovery by an adapter that does not retry.

    Retries of keystoneauth1 would take longer than ``undo`` may.
    """
    once = copy.copy(adapter)
    once.connect_retries = once.status_code_retries = 0
    return ClaimRecovery(once)


def _standing(
    adapter: Adapter,
    consumer_uuid: str,
    holds: Allocations,
    generation: int | None,
    timeout_s: float,
) -> ConsumerAllocations | None:
    """Return what a consumer holds if it is this; None: it is something else."""
    held = held_by(adapter, contexts.admin(), consumer_uuid, timeout_s)
    if isinstance(held, QueryFailed):
        raise _failure(consumer_uuid, held.status, held.text)
    if not held.allocations or held.allocations != holds:
        return None
    # A later claim of the same amounts, as of the same move made again, is in use.
    if held.generation != generation_after(generation):
        return None
    return held


def _failure(
    consumer_uuid: str, status: int, text: str
) -> errors.AllocationDeleteFailed:
    kind = errors.AllocationDeleteFailed if status else UndoUnanswered
    return kind(consumer_uuid, text)
