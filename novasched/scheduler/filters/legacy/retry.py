# SPDX-License-Identifier: Apache-2.0
"""Filter by the hosts on which the request failed before."""

from __future__ import annotations

import logging
from collections.abc import Iterator

import numpy as np

from novasched.objects.request_spec import RequestSpec
from novasched.scheduler.filters import ColumnFilter
from novasched.scheduler.hosts import HostState, HostTable, Mask
from novasched.scheduler.reasons import Code, Reason
from novasched.scheduler.warnings import PluginWarning


def tried(request: RequestSpec) -> list[tuple[str | None, str | None]]:
    """Return host and node of each attempt that failed."""
    retry = request.retry
    if retry is None:
        return []
    return [(one.host, one.hypervisor_hostname) for one in retry.hosts]


class RetryFilter(ColumnFilter):
    """Pass hosts that were not tried for this request before.

    Nova 21: scheduler/filters/retry_filter.py.
    """

    codes = (Code.TRIED_BEFORE,)
    deprecated = (
        'The RetryFilter is deprecated since the 20.0.0 Train release. A request '
        'that failed goes to its alternates and does not come back.'
    )

    def mask(self, hosts: HostTable, request: RequestSpec) -> Mask:
        passes = np.ones(len(hosts), bool)
        before = tried(request)
        if before:
            names, nodes = hosts.host, hosts.nodename
            for host, node in before:
                passes &= ~((names == host) & (nodes == node))
        return passes

    def request_warnings(
        self, before: HostTable, after: HostTable, request: RequestSpec
    ) -> Iterator[PluginWarning]:
        """Name each host that was tried before, in nova's words."""
        hosts = [list(pair) for pair in tried(request)]
        for host in before.without(after).states():
            name = [host.host, host.nodename]
            text = f'Host {name} fails.  Previously tried hosts: {hosts}'
            yield PluginWarning(text, logging.INFO)

    def why(self, host: HostState, request: RequestSpec) -> Reason:
        before = [list(pair) for pair in tried(request)]
        return Reason(Code.TRIED_BEFORE, f'Previously tried hosts: {before}')
