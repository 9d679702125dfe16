# SPDX-License-Identifier: Apache-2.0
"""Filter by the trust level that an attestation server gives a host.

The rule is here; who asks the server is novasched.attestation.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol

import numpy as np

from novasched.objects.request_spec import RequestSpec
from novasched.scheduler.filters import ColumnFilter
from novasched.scheduler.hosts import HostState, HostTable, Mask
from novasched.scheduler.reasons import Code, Reason

SPEC = 'trust:trusted_host'


class Levels(Protocol):
    """The levels of trust of nodes; ``unknown`` where none is attested."""

    def look_up(self, nodes: Sequence[str], cloud: Sequence[str]) -> Mapping[str, str]:
        """Return the level of each of the nodes; ask for it if it is old.

        ``cloud`` are all nodes that there are.
        """

    def last(self, node: str) -> str:
        """Return the level that was last learned, without a poll."""


class TrustRule(ColumnFilter):
    """Pass hosts whose attested level of trust is what ``trust:trusted_host`` asks.

    Nova 16: scheduler/filters/trusted_filter.py.
    """

    codes = (Code.NOT_TRUSTED,)
    run_filter_once_per_request = True

    def __init__(self, levels: Levels) -> None:
        self.levels = levels

    def mask(self, hosts: HostTable, request: RequestSpec) -> Mask:
        asked = request.extra_specs.get(SPEC)
        if asked is None or not len(hosts):
            return np.ones(len(hosts), bool)
        nodes = hosts.nodename.tolist()
        cloud = hosts.snapshot.column('nodename').tolist()
        levels = self.levels.look_up(nodes, cloud)
        return np.array([levels[node] == asked for node in nodes], bool)

    def why(self, host: HostState, request: RequestSpec) -> Reason:
        level, asked = self.levels.last(host.nodename), request.extra_specs.get(SPEC)
        return Reason(Code.NOT_TRUSTED, f'trust level {level}, not {asked}')
