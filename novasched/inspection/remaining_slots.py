# SPDX-License-Identifier: Apache-2.0
"""Slots that hosts have left for a request after a dry run, each host alone."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from typing import Any

import numpy as np

from novasched.claiming.host_candidates import by_provider
from novasched.decision_log.recording import RequestRecorder
from novasched.inspection import changes
from novasched.inspection.dry import DryRun
from novasched.objects import context
from novasched.ports import Candidate, Candidates, QueryFailed
from novasched.scheduler.capacity import Counting


def of_hosts(
    run: DryRun, recorder: RequestRecorder, placed: Counter[str]
) -> dict[str, int]:
    """Return the remaining slots of hosts on which a request has placed servers.

    Hosts with several candidates are left out; so are all if a server group counts.
    """
    answer = recorder.queries[-1].answer if recorder.queries else None
    if not isinstance(answer, Candidates):
        return {}
    return _counted(run, recorder, answer, placed, set(placed))


def in_all(run: DryRun, recorder: RequestRecorder) -> int | None:
    """Return how many more servers of a request all hosts take now.

    None if they cannot be counted simply. Placement is asked once more.
    """
    query = recorder.queries[-1].query if recorder.queries else None
    if query is None or recorder.request.if_set('instance_group') is not None:
        return None
    answer = run.placement.candidates(context.admin(), query.encode())
    if isinstance(answer, QueryFailed):
        return None
    return sum(_counted(run, recorder, answer, Counter(), None).values())


def _counted(
    run: DryRun,
    recorder: RequestRecorder,
    answer: Candidates,
    placed: Counter[str],
    names: Collection[str] | None,
) -> dict[str, int]:
    """Return the slots of the hosts of these names, or of all that are offered."""
    request = changes.decided_request(recorder)
    if request.if_set('instance_group') is not None:
        return {}
    listed: Mapping[str, Sequence[Candidate]] = by_provider(answer) or {}
    hosts = changes.all_hosts(run, recorder, request.target_cell_uuid)
    pairs = zip(hosts.uuid.tolist(), hosts.host.tolist(), strict=True)
    remaining = np.array(
        [
            _room(listed[uuid], answer.summaries) - placed[host]
            if uuid in listed and (names is None or host in names)
            else -1
            for uuid, host in pairs
        ],
        np.int64,
    )
    kept = np.flatnonzero(remaining >= 0)
    profile = run.reader.profile
    slots = Counting(profile, request, check=run.check).slots(
        hosts[kept], remaining[kept]
    )
    found = dict(zip(hosts[kept].host.tolist(), slots.tolist(), strict=True))
    return {host: number for host, number in found.items() if number >= 0}


def _room(candidates: Sequence[Candidate], summaries: Mapping[str, Any]) -> int:
    """Return how often the only candidate of a host can be taken; -1: there are
    several, or placement does not say."""
    if len(candidates) != 1:
        return -1
    found = []
    for uuid, allocation in candidates[0]['allocations'].items():
        resources = summaries.get(uuid, {}).get('resources', {})
        for name, amount in allocation['resources'].items():
            if name not in resources:
                return -1
            said = resources[name]
            found.append((said['capacity'] - said['used']) // amount)
    return min(found, default=-1)
