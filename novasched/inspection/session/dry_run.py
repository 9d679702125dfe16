# SPDX-License-Identifier: Apache-2.0
"""Dry runs: the manager of a scheduler, which claims, writes and sends nothing.

Placement and the databases are read as for a real request. What is picked is
remembered for the requests that follow in the same dry run.
"""

from __future__ import annotations

import contextlib
import logging
import math
import random
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any
from urllib import parse

from oslo_config import cfg

from novasched import app
from novasched.claiming.verification import ProviderClass, amounts_of
from novasched.cluster.assumed import AssumedInstances
from novasched.cluster.view import ClusterView
from novasched.decisions.log import CollectedRecords
from novasched.decisions.record_builder import Diagnose, RecordBuilder
from novasched.decisions.request import summary
from novasched.external.silent import SilentNotifier
from novasched.inspection.questions import unchecked
from novasched.objects.context import RequestContext
from novasched.objects.request_spec import RequestSpec
from novasched.placement.claimless import ClaimlessPlacement
from novasched.placement_copy import PlacementCopy
from novasched.ports import (
    Candidate,
    Candidates,
    Claimed,
    ClaimRequest,
    ClaimUnknown,
    Placement,
    QueryFailed,
    UndoLeft,
)
from novasched.providers.by_root import CandidatesByRoot
from novasched.runtime.clock import SYSTEM_CLOCK
from novasched.runtime.deadline import Check, never
from novasched.scheduler.pipeline import Profile

LOG = logging.getLogger(__name__)

LIMIT = 'limit'


class DryPlacement(ClaimlessPlacement):
    """Asks placement, and claims of it in memory only.

    Answers contain what placement would answer if these claims were real. Under a limit
    it might choose others.
    """

    def __init__(self, inner: Placement) -> None:
        super().__init__(inner)
        self._taken: Counter[ProviderClass] = Counter()
        self.held: dict[str, list[Candidate]] = {}  # what each consumer was granted

    def candidates(
        self, context: RequestContext, query: str
    ) -> Candidates | QueryFailed:
        answer = self._inner.candidates(context, query)
        if isinstance(answer, QueryFailed) or not self._taken:
            return answer
        left = self._left(answer)
        limit = _limit(query)
        if limit is None or len(answer.requests) < limit:
            return replace(answer, requests=left, summaries=self._used(answer))
        # Those behind the limit are to take the places of those that are gone.
        more = self._inner.candidates(context, _without_limit(query))
        if isinstance(more, QueryFailed):
            return more
        left = self._left(more)[:limit]
        return replace(more, requests=left, summaries=self._used(more))

    def undo(
        self,
        context: RequestContext,
        claims: Sequence[Claimed | ClaimUnknown],
        within_s: float,
        keeps_unknown: bool = False,
    ) -> UndoLeft:
        for claim in claims:
            if held := self.held.get(claim.consumer_uuid):
                self._taken.subtract(dict(amounts_of(held.pop())))
        return UndoLeft()

    @property
    def taken(self) -> Mapping[ProviderClass, int]:
        """The amounts that were claimed here."""
        return {key: amount for key, amount in self._taken.items() if amount}

    def forget(self) -> None:
        """Give back everything, as for another dry run."""
        self._taken.clear()
        self.held.clear()

    def grant(self, wanted: ClaimRequest) -> Claimed:
        self._taken.update(dict(amounts_of(wanted.candidate)))
        self.held.setdefault(wanted.consumer_uuid, []).append(wanted.candidate)
        return super().grant(wanted)

    def _left(self, answer: Candidates) -> Sequence[Candidate]:
        """Return the candidates that there is still room for."""
        assert not isinstance(answer.requests, CandidatesByRoot)  # no copy is asked
        free = {
            (uuid, name): amounts['capacity']
            - amounts['used']
            - self._taken[uuid, name]
            for uuid, name in self._taken
            if (amounts := _resources(answer.summaries, uuid).get(name)) is not None
        }
        return [
            each
            for each in answer.requests
            if all(
                amount <= free.get(key, math.inf) for key, amount in amounts_of(each)
            )
        ]

    def _used(self, answer: Candidates) -> Mapping[str, Any]:
        """Return the summaries with what was taken here added to what is used."""
        summaries = dict(answer.summaries)
        for (uuid, name), amount in self._taken.items():
            resources = _resources(summaries, uuid)
            if amount and name in resources:
                used = {**resources[name], 'used': resources[name]['used'] + amount}
                changed = {**resources, name: used}
                summaries[uuid] = {**summaries[uuid], 'resources': changed}
        return summaries


def _resources(summaries: Mapping[str, Any], uuid: str) -> Mapping[str, Any]:
    found: Mapping[str, Any] = summaries.get(uuid, {}).get('resources', {})
    return found


def _limit(query: str) -> int | None:
    values = parse.parse_qs(query).get(LIMIT)
    return int(values[0]) if values else None


def _without_limit(query: str) -> str:
    pairs = parse.parse_qsl(query, keep_blank_values=True)
    return parse.urlencode([(name, value) for name, value in pairs if name != LIMIT])


@dataclass(frozen=True)
class DryRun:
    """A reader whose requests claim nothing, and the records of these."""

    reader: app.Reader
    placement: DryPlacement
    log: CollectedRecords
    seed: int
    rng: random.Random
    # returns the copy that candidates come from, or None if placement is asked
    offered_by: Callable[[], PlacementCopy | None] = lambda: None
    check: Check = never  # ends work that takes too long
    # None if more than filters may decide
    enabled_checks: unchecked.EnabledChecks | None = None

    def unchecked_demands(self, request: RequestSpec) -> list[unchecked.Demand]:
        """Return the demands of a request that nothing checks."""
        aggregates = self.reader.view.aggregates.all()
        keys = {key for each in aggregates for key in each.metadata}
        return unchecked.unchecked_demands(self.enabled_checks, summary(request), keys)

    def begin(self, seed: int | None) -> DryRun:
        """Forget all requests, and return another dry run; None is another seed."""
        self.forget()
        seed = random.SystemRandom().getrandbits(32) if seed is None else seed
        self.rng.seed(seed)
        return replace(self, seed=seed)

    def forget(self) -> None:
        """Forget all requests, as for another dry run."""
        self._forget_picks()
        self.log.clear()

    @contextlib.contextmanager
    def question(self) -> Iterator[None]:
        """Ask the requests of one question, each of which sees the picks of those
        before it. Nothing is picked when it begins, nor after it."""
        self._forget_picks()
        try:
            yield
        finally:
            self._forget_picks()
            self.log.recorders.clear()

    def _forget_picks(self) -> None:
        if (assumed := self.reader.driver.context.assumed) is not None:
            assumed.remove_instances(list(self.placement.held))
        self.placement.forget()


@contextlib.contextmanager
def opened(
    conf: cfg.ConfigOpts,
    sources: app.Sources,
    *,
    seed: int | None = None,
    wrappers: app.Wrappers | None = None,
    transport_url: str | None = None,
    diagnose: Diagnose | None = None,
    check: Check = never,
) -> Iterator[DryRun]:
    """Compose a dry run, and read everything that it decides by; close it in the end.

    ``seed`` is of all that is random. ``wrappers`` change what is read; the wrapper of
    placement gets the real one. ``diagnose`` says why placement held hosts back, and
    ``check`` ends what takes too long. Raises errors.SetupError, and errors.StoreFailed
    if the API database fails.
    """
    seed = random.SystemRandom().getrandbits(32) if seed is None else seed
    wrappers = wrappers or app.Wrappers()
    rng = random.Random(seed)
    made: list[DryPlacement] = []
    logs: list[CollectedRecords] = []

    def dry(inner: Placement) -> Placement:
        made.append(DryPlacement(wrappers.placement(inner)))
        return made[0]

    def log(view: ClusterView, profile: Profile, copy: object) -> CollectedRecords:
        builder = RecordBuilder(
            profile,
            known=lambda: len(view.node_uuids()),
            left_out=view.unavailable_cells,
            diagnose=diagnose,
        )
        logs.append(CollectedRecords(builder, SYSTEM_CLOCK))
        return logs[0]

    reader = app.compose_reader(
        conf,
        replace(
            sources,
            notifier=SilentNotifier(),
            rng=rng,
            keeps_copy=False,
        ),
        transport_url=transport_url,
        wrappers=replace(wrappers, placement=dry, assumed=_assumed),
        make_log=log,
    )
    try:
        reader.view.load()
        enabled = unchecked.EnabledChecks.from_conf(conf, reader.profile)
        yield DryRun(
            reader, made[0], logs[0], seed, rng, check=check, enabled_checks=enabled
        )
    finally:
        reader.view.close()


def _assumed(profile: Profile) -> AssumedInstances:
    """Return a memory of all picks for as long as the dry run lasts."""
    return AssumedInstances(profile.fitting, for_s=math.inf)
