# SPDX-License-Identifier: Apache-2.0
"""Allocation candidates: the query and its answer, parsed lazily."""

from __future__ import annotations

import functools
import json
import logging
import re
from collections.abc import Iterator, Mapping
from typing import Any

from keystoneauth1.adapter import Adapter

from novasched.objects.context import RequestContext
from novasched.parsing import bounded_depth, parse_json
from novasched.placement.session import NoAnswer, ask, failed
from novasched.ports import Candidate, Candidates, QueryFailed
from novasched.resources.query import VERSION

LOG = logging.getLogger(__name__)

_DECODER = json.JSONDecoder()
_REQUESTS = re.compile(r'\s*\{\s*"allocation_requests"\s*:\s*')
_SUMMARIES = re.compile(r'\s*,\s*"provider_summaries"\s*:\s*(?=.*\}\s*\Z)', re.DOTALL)


def candidates(
    adapter: Adapter, context: RequestContext, query: str, is_quiet: bool = False
) -> Candidates | QueryFailed:
    """Ask GET /allocation_candidates; no candidates is an answer, too. ``is_quiet``: it
    is known that there is no answer now."""
    url = f'/allocation_candidates?{query}'
    answer = ask(adapter, context, 'GET', url, VERSION, is_quiet=is_quiet)
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
