# SPDX-License-Identifier: Apache-2.0
"""Filter by virtual GPUs: their number and type."""

from __future__ import annotations

import json
import re
from typing import Any

import numpy as np

from novasched.objects.request_spec import RequestSpec
from novasched.scheduler import aggregates
from novasched.scheduler.filters import WritingFilter
from novasched.scheduler.hosts import HostState, HostTable, Mask
from novasched.scheduler.reasons import Code, Reason

TYPE, TYPES = 'vgpu:type', 'vgpu_types'
_AMOUNT = re.compile(r'resources[a-zA-Z0-9_-]{0,64}:VGPU')


def wanted_vgpus(request: RequestSpec) -> int:
    """Return how many virtual GPUs all groups of the flavor ask for together.

    An amount that is no whole number does not count: placement is not asked for
    it, either.
    """
    specs = request.extra_specs.items()
    return sum(_amount(value) for key, value in specs if _AMOUNT.fullmatch(key))


def _amount(text: str) -> int:
    try:
        return max(int(text), 0)
    except ValueError:
        return 0


def wanted_types(request: RequestSpec) -> set[str] | None:
    """Return the types of which one must be there; None: any will do."""
    text = request.extra_specs.get(TYPE)
    return None if text is None else _words(text)


def vgpus(candidate: Any) -> int:
    """Return the virtual GPUs that an allocation candidate takes."""
    allocations = candidate['allocations'].values()
    return sum(one.get('resources', {}).get('VGPU', 0) for one in allocations)


def _words(text: str) -> set[str]:
    return {word.strip() for word in text.split(',')} - {''}


def reported_types(text: str | None) -> set[str]:
    """Read the types that a host reports: a JSON list, or separated by commas."""
    try:
        listed = json.loads(text or '')
    except (ValueError, RecursionError):
        listed = None
    if isinstance(listed, list):
        return {word for word in listed if isinstance(word, str)}
    return _words(text or '')


class VGPUFilter(WritingFilter):
    """Pass hosts with virtual GPUs of a type that ``vgpu:type`` lists.

    Types are those of ``vgpu_types`` in an aggregate of the host or in what the
    host reports. Where placement was asked, only the candidates are kept that
    have as many as the flavor asks for as ``resources:VGPU``.
    Nova has no such filter.
    """

    codes = (Code.VGPU_DIFFERS, Code.VGPU_MISSING)
    writes = ('allocation_candidates',)

    def fit(self, hosts: HostTable, request: RequestSpec) -> tuple[Mask, HostTable]:
        types, amount = wanted_types(request), wanted_vgpus(request)
        passes = np.ones(len(hosts), bool)
        if types is not None:
            passes = _has_type(hosts, types)
        return _with_enough(hosts, passes, amount) if amount else (passes, hosts)

    def why(self, host: HostState, request: RequestSpec) -> Reason:
        types = wanted_types(request)
        if types is not None and not _has_type(host.as_table(), types)[0]:
            found = _aggregate_types(host.aggregates)
            found |= reported_types(host.stats.get(TYPES))
            text = f'virtual GPUs are {_list(found)}, not {request.extra_specs[TYPE]}'
            return Reason(Code.VGPU_DIFFERS, text)
        most = max(map(vgpus, host.allocation_candidates), default=0)
        text = f'{wanted_vgpus(request)} virtual GPUs asked, candidates have {most}'
        return Reason(Code.VGPU_MISSING, text)


def _list(types: set[str]) -> str:
    return ', '.join(sorted(types)) or 'of no known type'


def _aggregate_types(host_aggregates: aggregates.Aggregates) -> set[str]:
    return aggregates.metadata(host_aggregates).get(TYPES, set())


def _has_type(hosts: HostTable, types: set[str]) -> Mask:
    """Ask the aggregates, then each distinct report of the hosts that are left."""
    passes: Mask = hosts.aggregates.map(
        lambda of_host: not types.isdisjoint(_aggregate_types(of_host))
    )
    left = np.flatnonzero(~passes)
    texts = [stats.get(TYPES) for stats in hosts.stats[left].tolist()]
    known = {text: not types.isdisjoint(reported_types(text)) for text in set(texts)}
    passes[left] = [known[text] for text in texts]
    return passes


def _with_enough(hosts: HostTable, passes: Mask, amount: int) -> tuple[Mask, HostTable]:
    """Drop the candidates with too few; a host that had some and has none fails."""
    passes, left = passes.copy(), {}
    listed = hosts.allocation_candidates.tolist()
    for position in np.flatnonzero(passes).tolist():
        candidates = listed[position]
        enough = [one for one in candidates if vgpus(one) >= amount]
        if len(enough) < len(candidates):
            left[position] = enough
            passes[position] = bool(enough)
    if not left:
        return passes, hosts
    rows = hosts.rows[list(left)]
    changes = {'allocation_candidates': list(left.values())}
    return passes, HostTable(hosts.snapshot.replace(changes, rows), hosts.rows)
