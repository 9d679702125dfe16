# SPDX-License-Identifier: Apache-2.0
"""Placement client: candidates, aggregates, claims and their rollback."""

from __future__ import annotations

import functools
import json
import logging
import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import Any

from keystoneauth1.adapter import Adapter

from novasched import http
from novasched.objects.context import RequestContext
from novasched.parsing import bounded_depth, parse_json
from novasched.placement import allocations
from novasched.placement.claims import ConsumerClaim, JointClaim, OnHeld
from novasched.placement.rollback import Rollback
from novasched.placement.session import NoAnswer, ask, failed
from novasched.placement.writes import AllocationWrites
from novasched.ports import (
    UNDO_WITHIN_S,
    Candidate,
    Candidates,
    Claimed,
    ClaimRefused,
    ClaimRequest,
    ClaimUnknown,
    QueryFailed,
    UndoLeft,
)
from novasched.resources.query import VERSION
from novasched.runtime.deadline import Check, never

LOG = logging.getLogger(__name__)

_DECODER = json.JSONDecoder()
_REQUESTS = re.compile(r'\s*\{\s*"allocation_requests"\s*:\s*')
_SUMMARIES = re.compile(r'\s*,\s*"provider_summaries"\s*:\s*(?=.*\}\s*\Z)', re.DOTALL)
AGGREGATES_VERSION = '1.19'
NO_PROVIDER = '00000000-0000-0000-0000-000000000000'


class PlacementClient:
    """Satisfies ports.Placement by HTTP; threads may share it. While it is known that
    placement ``is_unavailable``, the log has no line on each question."""

    def __init__(
        self,
        adapter: Adapter,
        on_held: OnHeld | None = None,
        is_unavailable: Callable[[], bool] = lambda: False,
        writes: AllocationWrites | None = None,
    ) -> None:
        self._adapter = adapter
        self._writes = writes or AllocationWrites(adapter)
        self._on_held = on_held
        self._is_unavailable = is_unavailable

    def answers(self) -> bool:
        url = f'/resource_providers?uuid={NO_PROVIDER}'
        context = RequestContext(overwrite=False)
        answer = ask(
            http.probing(self._adapter), context, 'GET', url, None, is_quiet=True
        )
        return not failed(answer).is_unavailable

    def candidates(
        self, context: RequestContext, query: str
    ) -> Candidates | QueryFailed:
        url, is_quiet = f'/allocation_candidates?{query}', self._is_unavailable()
        answer = ask(self._adapter, context, 'GET', url, VERSION, is_quiet=is_quiet)
        if isinstance(answer, NoAnswer):
            return failed(answer)
        if answer.status_code == 200:
            try:
                return read(answer.content)
            except (ValueError, KeyError, TypeError) as misfit:
                LOG.debug('Placement answered 200 without candidates: %r', misfit)
        problem = failed(answer)
        LOG.log(
            logging.DEBUG if is_quiet and problem.is_unavailable else logging.ERROR,
            'Failed to retrieve allocation candidates from placement API for filters: '
            '%s. Got %d: %s.',
            query,
            problem.status,
            problem.text,
        )
        return problem

    def aggregates(
        self, context: RequestContext, provider_uuid: str
    ) -> frozenset[str] | QueryFailed:
        url = f'/resource_providers/{provider_uuid}/aggregates'
        answer = ask(
            self._adapter,
            context,
            'GET',
            url,
            AGGREGATES_VERSION,
            is_quiet=self._is_unavailable(),
        )
        if isinstance(answer, NoAnswer):
            return failed(answer)
        if answer.status_code == 200:
            try:
                found = parse_json(answer.content)['aggregates']
            except (ValueError, KeyError, TypeError):
                found = None
            if isinstance(found, list):
                return frozenset(map(str, found))
            LOG.debug('Placement answered 200 with something else than aggregates')
        LOG.error(
            'Failed to retrieve aggregates from placement API for resource provider '
            'with UUID %s. Got %d: %s.',
            provider_uuid,
            answer.status_code,
            http.excerpt(answer),
        )
        return failed(answer)

    def claim(
        self,
        context: RequestContext,
        wanted: ClaimRequest,
        version: str,
        project_id: str | None,
        user_id: str | None,
        adds: bool = False,
        check: Check = never,
    ) -> Claimed | ClaimRefused | ClaimUnknown:
        owner = {'project_id': project_id, 'user_id': user_id}
        outcome = ConsumerClaim(
            self._adapter,
            self._writes,
            context,
            wanted,
            version,
            owner,
            self._on_held,
            adds,
            is_quiet=self._is_unavailable(),
            check=check,
        ).run()
        return outcome if isinstance(outcome, ClaimRefused) else outcome[0]

    def claim_all(
        self,
        context: RequestContext,
        wanted: Sequence[ClaimRequest],
        version: str,
        project_id: str | None,
        user_id: str | None,
    ) -> Sequence[Claimed | ClaimUnknown] | ClaimRefused:
        owner = {'project_id': project_id, 'user_id': user_id}
        return JointClaim(
            self._adapter,
            context,
            wanted,
            version,
            owner,
            is_quiet=self._is_unavailable(),
        ).run()

    def holders(
        self,
        context: RequestContext,
        consumers: Sequence[str],
        mine: Mapping[str, str],
        among: Collection[str] | None = None,
    ) -> Mapping[str, Collection[str]] | QueryFailed:
        return allocations.holders(self._adapter, context, consumers, among)

    def usages(
        self, context: RequestContext, mine: Mapping[str, str]
    ) -> Mapping[str, Mapping[str, int]] | QueryFailed:
        return allocations.usages(self._adapter, context, mine)

    def undo(
        self,
        context: RequestContext,
        claims: Sequence[Claimed | ClaimUnknown],
        within_s: float = UNDO_WITHIN_S,
        keeps_unknown: bool = False,
    ) -> UndoLeft:
        rollback = Rollback(
            self._adapter, context, within_s, keeps_unknown, writes=self._writes
        )
        rollback.undo(claims)
        return rollback.left


def read(content: bytes) -> Candidates:
    """Parse the candidates, and leave the rest of the answer for later.

    Raises ValueError, KeyError or TypeError where there are none.

    Nine tenths of the answer are summaries, most of that traits, and few requests
    need any of it.
    """
    text = content.decode()
    if start := _REQUESTS.match(text):
        requests, end = _first_in(text, start.end())
        if rest := _SUMMARIES.match(text, end):
            return Candidates(_whole(requests), VERSION, Summaries(text, rest.end()))
    found = parse_json(text)
    requests = _whole(found['allocation_requests'])
    return Candidates(requests, VERSION, _usable(found['provider_summaries']))


def _first_in(text: str, start: int) -> tuple[Any, int]:
    """Parse the JSON value that begins at ``start``; return it and where it ends."""
    with bounded_depth():
        return _DECODER.raw_decode(text, start)


def _whole(requests: Any) -> list[Candidate]:
    """Return the candidates of an answer; ValueError: one of them is none."""
    if not isinstance(requests, list) or not all(map(_is_candidate, requests)):
        raise ValueError('the allocation requests are not what they must be')
    return requests


def _is_candidate(thing: Any) -> bool:
    if not isinstance(thing, dict):
        return False
    allocations, mappings = thing.get('allocations'), thing.get('mappings', {})
    if not isinstance(allocations, dict) or not isinstance(mappings, dict):
        return False
    return all(map(_is_allocation, allocations.values())) and all(
        isinstance(uuids, list) for uuids in mappings.values()
    )


def _is_allocation(thing: Any) -> bool:
    resources = thing.get('resources') if isinstance(thing, dict) else None
    return isinstance(resources, dict) and all(
        isinstance(amount, int) for amount in resources.values()
    )


def _usable(summaries: Any) -> dict[str, Any]:
    """Return the well-formed provider summaries; they are a help only."""
    found = summaries if isinstance(summaries, dict) else {}
    usable = {uuid: each for uuid, each in found.items() if _is_summary(each)}
    if len(usable) < len(found) or found is not summaries:
        LOG.warning('Ignoring malformed provider_summaries from placement')
    return usable


def _is_summary(thing: Any) -> bool:
    return isinstance(thing, dict) and isinstance(
        thing.get('root_provider_uuid', ''), str
    )


class Summaries(Mapping[str, Any]):
    """The provider summaries of an answer: parsed at the first access."""

    def __init__(self, text: str, start: int) -> None:
        self._text = text
        self._start = start

    @functools.cached_property
    def _parsed(self) -> dict[str, Any]:
        try:
            found = _usable(_first_in(self._text, self._start)[0])
        except ValueError as problem:
            LOG.warning('The provider summaries of placement are no JSON: %s', problem)
            found = {}
        self._text = ''
        return found

    def __getitem__(self, uuid: str) -> Any:
        if self._text:  # one of a thousand is wanted, as a rule
            at = self._text.find(key := f'"{uuid}": {{', self._start)
            try:
                found = _first_in(self._text, at + len(key) - 1)[0] if at > 0 else {}
            except ValueError:
                found = {}
            if found and _is_summary(found):
                return found
        return self._parsed[uuid]

    def __iter__(self) -> Iterator[str]:
        return iter(self._parsed)

    def __len__(self) -> int:
        return len(self._parsed)
