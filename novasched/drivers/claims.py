# SPDX-License-Identifier: Apache-2.0
"""The claims of one request: kept together, or undone together."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from types import TracebackType
from typing import NoReturn, Self

from novasched import errors
from novasched.drivers.room import Room
from novasched.objects.context import RequestContext
from novasched.objects.request_spec import RequestSpec
from novasched.ports import Candidate, Claimed, Placement, Refused, Unknown, Wanted

LOG = logging.getLogger(__name__)

ATTEMPTING = 'Attempting to claim resources in the placement API for instance %s'


class Claims:
    """Claims made within a ``with`` block; leaving it by an error undoes them.

    All are tried to be undone, in the order in which they were made, even if
    undoing one fails. The error that ended the block is the one that goes on.
    ``room`` knows what was claimed, and what was refused for want of room.
    """

    def __init__(
        self,
        placement: Placement,
        context: RequestContext,
        version: str,
        room: Room | None = None,
    ) -> None:
        self._placement = placement
        self._context = context.elevated()
        self._user_id = context.user_id
        self._version = version
        self._made: list[Claimed | Unknown] = []
        self.room = room or Room({})

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if error is None or not self._made:
            return
        uuids = [claim.consumer_uuid for claim in self._made]
        LOG.debug('Cleaning up allocations for %s', uuids)
        interrupted: BaseException | None = None
        for claim in self._made:
            try:
                self._undo(claim)
            except BaseException as problem:  # noqa: BLE001 the others come first
                interrupted = problem
        if interrupted is not None:
            raise interrupted

    def make(self, request: RequestSpec, candidate: Candidate) -> bool:
        """Claim a candidate for the instance of the request; False: refused.

        Raises errors.AllocationUpdateFailed when the consumer changed meanwhile, or
        when nobody can tell what became of the claim: it is undone, but a late one
        must not be added to that for another host. Raises
        errors.AllocationDeleteFailed when it cannot be undone.
        """
        LOG.debug(ATTEMPTING, request.instance_uuid)
        outcome = self._placement.claim(
            self._context,
            request.instance_uuid,
            candidate,
            self._version,
            request.project_id,
            self._user_of(request),
        )
        match outcome:
            case Claimed():
                self._made.append(outcome)
                self.room.take(candidate)
            case Unknown():
                self._give_up(outcome)
            case Refused():
                self.room.refuse(candidate, outcome.exhausted)
                LOG.debug(
                    'Claim for %s refused: %s', request.instance_uuid, outcome.text
                )
        return isinstance(outcome, Claimed)

    def make_all(self, request: RequestSpec, wanted: Sequence[Wanted]) -> bool:
        """Claim for several instances, which hold nothing, all or none; False: none.

        Raises errors.AllocationUpdateFailed when nobody can tell what became of the
        claims; they are undone when the block is left.
        """
        for one in wanted:
            LOG.debug(ATTEMPTING, one.consumer_uuid)
        outcome = self._placement.claim_all(
            self._context,
            wanted,
            self._version,
            request.project_id,
            self._user_of(request),
        )
        if isinstance(outcome, Refused):
            LOG.debug('Claims for %d instances refused: %s', len(wanted), outcome.text)
            return False
        self._made += outcome
        for claim in outcome:
            if isinstance(claim, Unknown):
                raise self._unanswered(claim)
        for one in wanted:
            self.room.take(one.candidate)
        return True

    def _user_of(self, request: RequestSpec) -> str | None:
        user_id = request.user_id if 'user_id' in request else None
        return user_id or self._user_id

    def _give_up(self, claim: Unknown) -> NoReturn:
        problem = self._unanswered(claim)
        self._made.append(claim)
        self._placement.undo(self._context, claim)
        self._made.remove(claim)
        raise problem

    def _unanswered(self, claim: Unknown) -> errors.AllocationUpdateFailed:
        LOG.warning(
            'No answer to the claim for %s: %s', claim.consumer_uuid, claim.text
        )
        return errors.AllocationUpdateFailed(
            claim.consumer_uuid,
            'placement did not answer, and the claim was undone; try again',
        )

    def _undo(self, claim: Claimed | Unknown) -> None:
        try:
            self._placement.undo(self._context, claim)
        except errors.AllocationDeleteFailed as problem:
            LOG.error(
                'Allocations of %s may be left behind: %s. When placement answers '
                'again, remove them with: openstack resource provider allocation '
                'delete %s',
                claim.consumer_uuid,
                problem,
                claim.consumer_uuid,
            )
