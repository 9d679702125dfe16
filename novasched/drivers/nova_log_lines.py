# SPDX-License-Identifier: Apache-2.0
"""A decision in the log lines of nova that operators look for."""

from __future__ import annotations

import collections
import logging
from typing import Any

from novasched.scheduler.trace import Decision, Weighing
from novasched.scheduler.warnings import PluginWarning

LOG = logging.getLogger(__name__)

Logged = set[PluginWarning]

REMOVED_ALL = (
    "Filtering removed all hosts for the request with instance ID '%s'. "
    'Filter results: %s'
)
NUMA_FILTER = 'NUMATopologyFilter'
FAILS_NUMA = '%s, %s fails NUMA topology requirements. %s'


def log_decision(decision: Decision, logged: Logged) -> None:
    """Write the lines of a decision.

    ``logged`` has the plugin warnings that the request had before: each is logged once.
    Nova: filters.py, weights.py and scheduler/host_manager.py.
    """
    for note in decision.notes:
        LOG.info(note)
    for warning in decision.plugin_warnings:
        if warning not in logged:
            logged.add(warning)
            LOG.log(warning.level, '%s', warning)
    if LOG.isEnabledFor(logging.DEBUG):
        _log_steps(decision)
    if not len(decision.ranked):
        _log_nothing_left(decision)
    elif LOG.isEnabledFor(logging.DEBUG):
        LOG.debug('Filtered %s', list(decision.weighed.hosts.states()))
        for weighing in decision.weighed.weighings:
            _log_weighing(decision, weighing)
        totals = decision.totals.tolist()
        weighed = [
            f'WeighedHost [host: {host!r}, weight: {total}]'
            for host, total in zip(decision.ranked.states(), totals, strict=True)
        ]
        LOG.debug('Weighed [%s]', ', '.join(weighed))


def _log_steps(decision: Decision) -> None:
    if decision.filters_ran:
        steps = decision.steps
        first = steps[0].before if steps else decision.weighed.hosts
        LOG.debug('Starting with %d host(s)', len(first))
    for step in decision.steps:
        if len(step.after):
            LOG.debug('Filter %s returned %d host(s)', step.name, len(step.after))


def _log_nothing_left(decision: Decision) -> None:
    """Name the filter that took the last host; past the filters, the notes say all."""
    if not decision.filters_ran:
        return
    if decision.stopped_by:
        LOG.debug('Filter %s says to stop filtering', decision.stopped_by)
        return
    uuid = decision.request.instance_uuid if 'instance_uuid' in decision.request else ''
    if decision.steps:
        LOG.info('Filter %s returned 0 hosts', decision.steps[-1].name)
    if LOG.isEnabledFor(logging.DEBUG):
        _log_reasons(decision)
        survivors = [(one.name, _names(one.after) or None) for one in decision.steps]
        LOG.debug(REMOVED_ALL, uuid, survivors)
    LOG.info(REMOVED_ALL, uuid, decision.funnel())


def _log_reasons(decision: Decision) -> None:
    """Tell how many hosts each filter rejected for which reason, the most first.

    Scripts look for the line on each host that lacks the NUMA nodes.
    """
    for step in decision.steps:
        try:
            reasons = list(step.reasons(decision.request))
        except Exception as problem:  # noqa: BLE001 a plugin may raise anything
            kind = type(problem).__name__
            LOG.debug('Filter %s cannot say why: %s: %s', step.name, kind, problem)
            continue
        if step.name == NUMA_FILTER:
            for host, why in reasons:
                LOG.debug(FAILS_NUMA, host.host, host.nodename, why)
        said = collections.Counter(why for _, why in reasons)
        for why, count in said.most_common():
            LOG.debug('Filter %s rejected %d host(s): %s', step.name, count, why)


def _names(hosts: Any) -> list[tuple[str, str]]:
    return list(zip(hosts.host.tolist(), hosts.nodename.tolist(), strict=True))


def _log_weighing(decision: Decision, weighing: Weighing) -> None:
    names = _names(decision.weighed.hosts)
    normalized = weighing.normalized.tolist()
    multipliers = weighing.multipliers.tolist()
    scores = [f'{m} * {n}' for m, n in zip(multipliers, normalized, strict=True)]
    for title, values in (
        ('raw weights', weighing.raw.tolist()),
        ('normalized weights', normalized),
        ('score (multiplier * weight)', scores),
    ):
        by_name = dict(zip(names, values, strict=True))
        LOG.debug('%s: %s %s', weighing.name, title, by_name)
