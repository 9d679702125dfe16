# SPDX-License-Identifier: Apache-2.0
"""Allocation candidates: who could hold what a request asks for."""

from __future__ import annotations

import json
import logging

from keystoneauth1.adapter import Adapter

from novasched.objects.context import RequestContext
from novasched.placement.exchange import NoAnswer, ask
from novasched.ports import Candidates, QueryFailed

LOG = logging.getLogger(__name__)

VERSION = '1.36'


def candidates(
    adapter: Adapter, context: RequestContext, query: str
) -> Candidates | QueryFailed:
    """Ask GET /allocation_candidates; no candidates is an answer, too."""
    answer = ask(adapter, context, 'GET', f'/allocation_candidates?{query}', VERSION)
    if isinstance(answer, NoAnswer):
        return QueryFailed(0, answer.text)
    if answer.status_code == 200:
        try:
            found = json.loads(answer.content)
            return Candidates(found['allocation_requests'], VERSION)
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
