# SPDX-License-Identifier: Apache-2.0
"""Histories that a policy can be tried on: imported traces."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from novasched import errors
from novasched.policy_lab import trace
from novasched.policy_lab.cloud import plain_cloud
from novasched.policy_lab.results import HostGroup
from novasched.policy_lab.simulation import Workload
from novasched.policy_lab.trace import Trace


def header(history: Path) -> Trace:
    """Return what a history is. Raises errors.OptionError."""
    return trace.read(history)


def digest(history: Path) -> str:
    """Return a hash of a history."""
    return trace.digest(history)


def workload(history: Path, part: int, hosts: Sequence[HostGroup] = ()) -> Workload:
    """Read a part of a history, with other hosts if there are any. Raises
    errors.OptionError."""
    found = header(history)
    if hosts:
        found = found.with_hosts(hosts)
    if any(group.numa_nodes > 1 for group in found.hosts):
        raise errors.OptionError(
            '--hosts',
            'hosts of several NUMA nodes are not modelled',
            'Give hosts of one node',
        )
    return Workload(
        found, part, trace.read_part(history, part), plain_cloud(found.hosts)
    )


def flavor_shares(workload: Workload) -> list[str]:
    """Return the flavors asked for, most asked first, as keep_room_flavors has them:
    ``vcpus:ram_mb=share``."""
    asked: Counter[int] = Counter()
    for batch in workload.batches:
        if batch.at_s >= 0:
            asked[batch.flavor] += len(batch.lifetimes_s)
    return [
        f'{flavor.vcpus}:{flavor.ram_mb}={count / asked.total():.6f}'
        for at, count in asked.most_common()
        if (flavor := workload.trace.flavors[at])
    ]
