# SPDX-License-Identifier: Apache-2.0
"""What a process knows that outlives its scheduler: a reload makes another one."""

from __future__ import annotations

from dataclasses import dataclass, field

from novasched.cluster.assumed import AssumedInstances
from novasched.cluster.release import KnownRelease
from novasched.mirror.assumed import AssumedClaims


@dataclass
class Kept:
    """``release`` is what requests and conductors show, ``claims`` what the copy of
    placement may not show yet, ``picks`` what the hosts may not, and ``origin`` that of
    what was sent of these."""

    release: KnownRelease = field(default_factory=KnownRelease)
    claims: AssumedClaims = field(default_factory=AssumedClaims)
    picks: AssumedInstances | None = None
    origin: str = ''
