# SPDX-License-Identifier: Apache-2.0
"""A filter that filters nothing."""

from __future__ import annotations

import numpy as np

from novasched.objects.request_spec import RequestSpec
from novasched.scheduler.filters import ColumnFilter
from novasched.scheduler.hosts import HostTable, Mask


class AllHostsFilter(ColumnFilter):
    """Pass every host.

    Nova: scheduler/filters/all_hosts_filter.py.
    """

    codes = ()
    run_filter_once_per_request = True

    def mask(self, hosts: HostTable, request: RequestSpec) -> Mask:
        return np.ones(len(hosts), bool)
