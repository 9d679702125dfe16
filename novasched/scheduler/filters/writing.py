# SPDX-License-Identifier: Apache-2.0
"""Filters that say something on the hosts besides dropping some of them."""

from __future__ import annotations

import abc
from typing import ClassVar

from novasched.objects.request_spec import RequestSpec
from novasched.scheduler.filters import ColumnFilter
from novasched.scheduler.hosts import HostState, HostTable, Mask


class WritingFilter(ColumnFilter):
    """A filter over columns that writes some: ``limits``, ``allocation_candidates``.

    A host is a table of one row here, too: host_passes() sets on the host what
    fit() writes.
    """

    writes: ClassVar[tuple[str, ...]]

    @abc.abstractmethod
    def fit(self, hosts: HostTable, request: RequestSpec) -> tuple[Mask, HostTable]:
        """Return which hosts pass, and all of them with what is written."""

    def mask(self, hosts: HostTable, request: RequestSpec) -> Mask:
        return self.fit(hosts, request)[0]

    def host_passes(self, host_state: HostState, spec_obj: RequestSpec) -> bool:
        hosts = host_state.as_table().keep([host_state])
        passes, written = self.fit(hosts, spec_obj)
        if written.snapshot is not hosts.snapshot:
            for name in self.writes:
                setattr(host_state, name, getattr(written.state(0), name))
        return bool(passes[0])

    def apply(self, hosts: HostTable, request: RequestSpec) -> HostTable | None:
        passes, written = self.fit(hosts, request)
        return written if passes.all() else written[passes]
