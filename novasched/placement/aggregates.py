# SPDX-License-Identifier: Apache-2.0
"""The aggregates of a provider."""

from __future__ import annotations

import logging

from keystoneauth1.adapter import Adapter

from novasched import http
from novasched.objects.context import RequestContext
from novasched.placement.exchange import NoAnswer, ask

LOG = logging.getLogger(__name__)

VERSION = '1.19'


def aggregates(
    adapter: Adapter, context: RequestContext, provider_uuid: str
) -> frozenset[str] | None:
    """Ask GET /resource_providers/{uuid}/aggregates; None: placement did not say."""
    url = f'/resource_providers/{provider_uuid}/aggregates'
    answer = ask(adapter, context, 'GET', url, VERSION)
    if isinstance(answer, NoAnswer):
        return None
    if answer.status_code == 200:
        try:
            return _uuids(http.parse_json(answer.content)['aggregates'])
        except (ValueError, KeyError, TypeError):
            LOG.debug('Placement answered 200 with something else than aggregates')
    LOG.error(
        'Failed to retrieve aggregates from placement API for resource provider with '
        'UUID %s. Got %d: %s.',
        provider_uuid,
        answer.status_code,
        http.excerpt(answer),
    )
    return None


def _uuids(found: object) -> frozenset[str]:
    if not isinstance(found, list):
        raise TypeError('the aggregates are no list')
    return frozenset(map(str, found))
