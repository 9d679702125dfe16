# SPDX-License-Identifier: Apache-2.0
"""Histories that a policy can be tried on: imported traces, and recorded ones."""

from __future__ import annotations

import functools
import hashlib
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from novasched import errors
from novasched.history.reading import files_of
from novasched.policy_lab import recorded, trace
from novasched.policy_lab.cloud import plain_cloud
from novasched.policy_lab.policy import Policy, policy_of
from novasched.policy_lab.results import FleetGroup, PolicyText
from novasched.policy_lab.simulation import Workload


def is_trace(history: Path) -> bool:
    """Return whether a history was imported; its hosts are plain then."""
    return (history / trace.HEADER).exists()


def parts_of(history: Path) -> Sequence[int]:
    """Return the parts of a history. Raises errors.OptionError."""
    return trace.read(history).parts if is_trace(history) else (1,)


def digest(history: Path) -> str:
    """Return a hash of a history. Raises errors.OptionError."""
    if is_trace(history):
        return trace.digest(history)
    found = hashlib.sha256()
    try:
        for path in files_of(history):
            found.update(path.name.encode() + b'\0' + path.read_bytes())
    except OSError as problem:
        raise errors.OptionError(
            str(history), str(problem), 'Give a directory that can be read'
        ) from problem
    return found.hexdigest()[:16]


@functools.lru_cache(maxsize=1)
def workload(history: Path, part: int, hosts: Sequence[FleetGroup] = ()) -> Workload:
    """Read a part of a history, with other hosts if there are any; the last one is
    kept. Raises errors.OptionError."""
    if not is_trace(history):
        return recorded.workload(history)
    found = trace.read(history)
    if hosts:
        found = found.with_hosts(hosts)
    batches = trace.read_part(history, part)
    return Workload(found, part, batches, plain_cloud(found.hosts))


def policy_for(load: Workload, text: PolicyText) -> Policy:
    """Make a policy for a workload: it begins with the options of the recording.

    If no public flavors were recorded, those asked for are taken as these. Raises
    errors.SetupError.
    """
    shares, public = flavor_shares(load), list[str]()
    if not any(load.cloud.snapshot().column('public_flavors').values):
        public = [share.partition('=')[0] for share in shares]
    return policy_of(text, shares, load.profile.get('options', {}), public)


def flavor_shares(load: Workload) -> list[str]:
    """Return the flavors asked for, most asked first, as keep_room_flavors has them:
    ``vcpus:ram_mb=share``."""
    asked: Counter[tuple[int, int]] = Counter()
    for batch in load.batches:
        if batch.at_s >= 0:
            flavor = load.trace.flavors[batch.flavor]
            asked[flavor.vcpus, flavor.ram_mb] += len(batch.lifetimes_s)
    return [
        f'{vcpus}:{ram_mb}={count / asked.total():.6f}'
        for (vcpus, ram_mb), count in asked.most_common()
    ]
