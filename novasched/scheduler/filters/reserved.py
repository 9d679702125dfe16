# SPDX-License-Identifier: Apache-2.0
"""Filter hosts by whom their aggregates are reserved for."""

from __future__ import annotations

import abc
from typing import ClassVar

from novasched.objects.request_spec import RequestSpec
from novasched.scheduler.aggregates import Aggregates
from novasched.scheduler.filters import ColumnFilter
from novasched.scheduler.hosts import HostState, HostTable, Mask
from novasched.scheduler.reasons import Reason


class ReservedHosts(ColumnFilter):
    """Pass hosts whose aggregates name what the request has, or name nothing.

    ``named`` is the word for what they name.
    """

    named: ClassVar[str]

    @abc.abstractmethod
    def reserved_for(self, host_aggregates: Aggregates) -> set[str]:
        """Return what the aggregates of a host are for; empty: for all."""

    @abc.abstractmethod
    def wanted(self, request: RequestSpec) -> str | None:
        """Return what must be among it."""

    def mask(self, hosts: HostTable, request: RequestSpec) -> Mask:
        wanted = self.wanted(request)

        def welcome(host_aggregates: Aggregates) -> bool:
            found = self.reserved_for(host_aggregates)
            return not found or wanted in found

        return hosts.aggregates.map(welcome)

    def why(self, host: HostState, request: RequestSpec) -> Reason:
        found = ', '.join(sorted(self.reserved_for(host.aggregates)))
        text = f'for {self.named} {found}, not {self.wanted(request)}'
        return Reason(self.codes[0], text)
