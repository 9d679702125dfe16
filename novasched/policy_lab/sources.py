# SPDX-License-Identifier: Apache-2.0
"""Histories that a policy can be tried on: imported traces, and recorded ones."""

from __future__ import annotations

import functools
import hashlib
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from novasched import errors
from novasched.history import reading
from novasched.history.reading import Extent
from novasched.policy_lab import recorded, trace
from novasched.policy_lab.policy import Policy, policy_of
from novasched.policy_lab.results import FleetGroup, PolicyText
from novasched.policy_lab.simulation import Workload


def is_trace(history: Path) -> bool:
    """Return whether a history was imported; its hosts are plain then."""
    return (history / trace.HEADER).exists()


def parts_of(history: Path) -> Sequence[int]:
    """Return the parts of a history. Raises errors.OptionError."""
    return trace.read(history).parts if is_trace(history) else (1,)


def extent(history: Path) -> Extent:
    """Return how far a history goes now: it may still be recorded. Raises
    errors.OptionError."""
    if is_trace(history):
        return ()
    try:
        return reading.extent(history)
    except OSError as problem:
        raise _unreadable(history, problem) from problem


def digest(history: Path, until: Extent) -> str:
    """Return a hash of a history of such an extent. Raises errors.OptionError."""
    if is_trace(history):
        return trace.digest(history)
    found = hashlib.sha256()
    try:
        for path, size in reading.sized_files(history, until):
            with path.open('rb') as file:
                found.update(path.name.encode() + b'\0' + file.read(size))
    except OSError as problem:
        raise _unreadable(history, problem) from problem
    return found.hexdigest()[:16]


def _unreadable(history: Path, problem: OSError) -> errors.OptionError:
    remedy = 'Give a directory that can be read'
    return errors.OptionError(str(history), str(problem), remedy)


@functools.lru_cache(maxsize=1)
def workload(
    history: Path,
    part: int,
    hosts: Sequence[FleetGroup] = (),
    until: Extent | None = None,
) -> Workload:
    """Read a part of a history, with other hosts if there are any; the last one is
    kept. A recorded history is read to an extent, by default as far as it goes now.
    Raises errors.OptionError."""
    if not is_trace(history):
        return recorded.workload(history, until)
    found = trace.read(history)
    if hosts:
        found = replace(found, hosts=hosts)
    return Workload.of_trace(found, part, trace.read_part(history, part))


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
