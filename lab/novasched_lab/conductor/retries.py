# SPDX-License-Identifier: Apache-2.0
"""The ``retry`` property of a request: attempts counted, hosts that were tried."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Any

from novasched.objects.filter_properties import filter_properties_dict
from novasched.objects.request_spec import RequestSpec
from novasched.objects.selection import Selection
from novasched_lab.failures import MaxRetriesExceeded

LOG = logging.getLogger(__name__)

Properties = dict[str, Any]


def properties_of(request: RequestSpec) -> Properties:
    """Return the properties of a request as dicts, lists and objects."""
    found = filter_properties_dict(request)
    return {
        name: sorted(value) if isinstance(value, set | frozenset) else value
        for name, value in found.items()
    }


def with_attempt(
    properties: Mapping[str, Any], uuid: str, max_attempts: int
) -> Properties:
    """Return the properties with one more attempt counted.

    Without ``retry`` where there must be no other attempt. Raises
    MaxRetriesExceeded. Nova: scheduler/utils.py, populate_retry.
    """
    hosts = list(properties.get('force_hosts') or ())
    nodes = list(properties.get('force_nodes') or ())
    if max_attempts == 1:
        LOG.debug('Re-scheduling is disabled due to "max_attempts" config')
        return dict(properties)
    if len(hosts) == 1 or len(nodes) == 1:
        LOG.debug(
            'Re-scheduling is disabled due to forcing a host (%s) and/or node (%s)',
            hosts,
            nodes,
        )
        return dict(properties)
    before = dict(properties.get('retry') or {'num_attempts': 0, 'hosts': []})
    _log_error(before, uuid)
    reason = before.pop('exc_reason', None)
    before.pop('exc', None)
    retry = {**before, 'num_attempts': before.get('num_attempts', 0) + 1}
    if retry['num_attempts'] > max_attempts:
        raise MaxRetriesExceeded(
            f'Exceeded max scheduling attempts {max_attempts} for instance {uuid}. '
            f'Last exception: {reason}'
        )
    return {**properties, 'retry': retry}


def _log_error(retry: Mapping[str, Any], uuid: str) -> None:
    problem = retry.get('exc') or retry.get('exc_reason')
    if problem and retry.get('hosts'):
        host, node = retry['hosts'][-1]
        LOG.error(
            'Instance %s: Error from last host: %s (node %s): %s',
            uuid,
            host,
            node,
            problem,
        )


def with_selection(properties: Mapping[str, Any], selection: Selection) -> Properties:
    """Return the properties for a host that was chosen.

    Nova: scheduler/utils.py, populate_filter_properties.
    """
    made = dict(properties)
    if made.get('retry'):
        tried = [selection.service_host, selection.nodename]
        hosts = [*made['retry'].get('hosts', ()), tried]
        made['retry'] = {**made['retry'], 'hosts': hosts}
    if not made.get('force_hosts'):
        limits = selection.limits if 'limits' in selection else None
        made['limits'] = limits.to_dict() if limits is not None else {}
    return made
