# SPDX-License-Identifier: Apache-2.0
"""Slots that hosts have left for a request after a dry run, each host alone."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Mapping, Sequence
from typing import Any

import numpy as np

from novasched.decisions.recording import RequestRecorder
from novasched.inspection.session import changes
from novasched.inspection.session.dry_run import DryRun
from novasched.objects import context
from novasched.ports import Candidate, Candidates, QueryFailed
from novasched.scheduler.capacity import Counting

Node = tuple[str, str]
"""Names of a host and of a node of it."""
UNKNOWN = -1


def of_hosts(
    run: DryRun, recorder: RequestRecorder, placed: Counter[Node]
) -> dict[str, int]:
    """Return the remaining slots of hosts on which a request has placed servers.

    Hosts with several candidates are left out; so are all if a server group counts.
    """
    answer = recorder.queries[-1].answer if recorder.queries else None
    if not isinstance(answer, Candidates):
        return {}
    of_nodes: defaultdict[str, list[int]] = defaultdict(list)
    names = {host for host, _ in placed}
    for host, slots in _counted(run, recorder, answer, placed, names):
        of_nodes[host].append(slots)
    return {host: sum(n) for host, n in of_nodes.items() if UNKNOWN not in n}


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
    counted = _counted(run, recorder, answer, Counter(), None)
    return sum(slots for _, slots in counted if slots != UNKNOWN)


def _counted(
    run: DryRun,
    recorder: RequestRecorder,
    answer: Candidates,
    placed: Counter[Node],
    names: Collection[str] | None,
) -> list[tuple[str, int]]:
    """Return the slots of each node, with the name of its host; of the hosts of these
    names, or of all."""
    request = changes.decided_request(recorder)
    if request.if_set('instance_group') is not None:
        return []
    listed: Mapping[str, Sequence[Candidate]] = answer.by_provider() or {}
    hosts = changes.all_hosts(run, recorder, request.target_cell_uuid)
    if names is not None:
        hosts = hosts[np.array([n in names for n in hosts.host.tolist()], bool)]
    columns = (hosts.uuid, hosts.host, hosts.nodename)
    remaining = np.array(
        [
            _room(listed[uuid], answer.summaries) - placed[host, node]
            if uuid in listed
            else 0
            for uuid, host, node in zip(*(c.tolist() for c in columns), strict=True)
        ],
        np.int64,
    )
    counting = Counting(run.reader.profile, request, check=run.check)
    slots = counting.slots(hosts, remaining)
    slots[remaining < 0] = UNKNOWN
    return list(zip(hosts.host.tolist(), slots.tolist(), strict=True))


def _room(candidates: Sequence[Candidate], summaries: Mapping[str, Any]) -> int:
    """Return how often the only candidate of a host can be taken; UNKNOWN: there
    are several, or placement does not say."""
    if len(candidates) != 1:
        return UNKNOWN
    found = []
    for uuid, allocation in candidates[0]['allocations'].items():
        resources = summaries.get(uuid, {}).get('resources', {})
        for name, amount in allocation['resources'].items():
            if name not in resources:
                return UNKNOWN
            said = resources[name]
            found.append((said['capacity'] - said['used']) // amount)
    return min(found, default=UNKNOWN)
