# SPDX-License-Identifier: Apache-2.0
"""Allocation candidates: who could hold what a request asks for."""

from __future__ import annotations

import functools
import json
import logging
import re
from collections.abc import Iterator, Mapping
from typing import Any

from keystoneauth1.adapter import Adapter

from novasched.objects.context import RequestContext
from novasched.placement.exchange import NoAnswer, ask
from novasched.ports import Candidates, QueryFailed

LOG = logging.getLogger(__name__)

VERSION = '1.36'

_DECODER = json.JSONDecoder()
_REQUESTS = re.compile(r'\s*\{\s*"allocation_requests"\s*:\s*')
_SUMMARIES = re.compile(r'\s*,\s*"provider_summaries"\s*:\s*(?=.*\}\s*\Z)', re.DOTALL)


def candidates(
    adapter: Adapter, context: RequestContext, query: str
) -> Candidates | QueryFailed:
    """Ask GET /allocation_candidates; no candidates is an answer, too."""
    answer = ask(adapter, context, 'GET', f'/allocation_candidates?{query}', VERSION)
    if isinstance(answer, NoAnswer):
        return QueryFailed(0, answer.text)
    if answer.status_code == 200:
        try:
            return read(answer.content)
        except (ValueError, KeyError, TypeError):
            LOG.debug('Placement answered 200 with something else than candidates')
    LOG.error(
        'Failed to retrieve allocation candidates from placement API for filters: '
        '%s\nGot %d: %s.',
        query,
        answer.status_code,
        answer.text,
    )
    return QueryFailed(answer.status_code, answer.text)


def read(content: bytes) -> Candidates:
    """Parse the candidates, and leave the rest of the answer for later.

    Nine tenths of the answer are summaries, most of that traits, and few requests
    need any of it.
    """
    text = content.decode()
    if start := _REQUESTS.match(text):
        requests, end = _DECODER.raw_decode(text, start.end())
        if rest := _SUMMARIES.match(text, end):
            return Candidates(requests, VERSION, Summaries(text, rest.end()))
    found = json.loads(text)
    requests = found['allocation_requests']
    return Candidates(requests, VERSION, found['provider_summaries'])


class Summaries(Mapping[str, Any]):
    """The provider summaries of an answer: parsed when somebody looks at them."""

    def __init__(self, text: str, start: int) -> None:
        self._text = text
        self._start = start

    @functools.cached_property
    def _parsed(self) -> dict[str, Any]:
        try:
            found: dict[str, Any] = _DECODER.raw_decode(self._text, self._start)[0]
        except ValueError as problem:
            LOG.warning('The provider summaries of placement are no JSON: %s', problem)
            found = {}
        self._text = ''
        return found

    def __getitem__(self, uuid: str) -> Any:
        return self._parsed[uuid]

    def __iter__(self) -> Iterator[str]:
        return iter(self._parsed)

    def __len__(self) -> int:
        return len(self._parsed)
