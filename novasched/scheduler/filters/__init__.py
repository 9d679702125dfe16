# SPDX-License-Identifier: Apache-2.0
"""Filters drop the hosts that must not be used for a request."""

from __future__ import annotations

import abc
from collections.abc import Iterable, Iterator
from typing import Any, Self

from novasched.objects.request_spec import RequestSpec
from novasched.scheduler.hosts import HostState, HostTable, Mask


class BaseHostFilter(abc.ABC):
    """Decide whether a host may be used: nova's plugin contract.

    Nova: scheduler/filters/__init__.py.
    """

    RUN_ON_REBUILD = False
    run_filter_once_per_request = False

    @classmethod
    def from_conf(cls, conf: Any) -> Self:
        """Make the filter from the options that it reads."""
        return cls()

    def run_filter_for_index(self, index: int) -> bool:
        """Return True if the filter runs for instance ``index`` of a request."""
        return not (self.run_filter_once_per_request and index > 0)

    @abc.abstractmethod
    def host_passes(self, host_state: HostState, spec_obj: RequestSpec) -> bool:
        """Return True if the host may be used."""

    def why(self, host: HostState, request: RequestSpec) -> str:
        """Say, in a few words, why host_passes() said no."""
        return 'rejected'

    def filter_all(
        self, hosts: Iterable[HostState], spec_obj: RequestSpec
    ) -> Iterator[HostState]:
        """Yield the hosts that pass; a rule about the whole set overrides it."""
        return (host for host in hosts if self.host_passes(host, spec_obj))

    def apply(self, hosts: HostTable, request: RequestSpec) -> HostTable:
        """Return the hosts that pass, in the order given."""
        return hosts.keep(self.filter_all(hosts.states(), request))


class ColumnFilter(BaseHostFilter):
    """A filter whose rule is an expression over columns."""

    @abc.abstractmethod
    def mask(self, hosts: HostTable, request: RequestSpec) -> Mask:
        """Return True for each host that passes; shape (len(hosts),)."""

    def host_passes(self, host_state: HostState, spec_obj: RequestSpec) -> bool:
        return bool(self.mask(host_state.as_table(), spec_obj)[0])

    def apply(self, hosts: HostTable, request: RequestSpec) -> HostTable:
        if type(self).host_passes is not ColumnFilter.host_passes:
            return super().apply(hosts, request)  # a plugin's subclass overrides it
        return hosts[self.mask(hosts, request)]


class CandidateFilter(BaseHostFilter):
    """A filter on allocation candidates; a host with none left is dropped."""

    @abc.abstractmethod
    def candidate_passes(
        self, candidate: Any, host: HostState, request: RequestSpec
    ) -> bool:
        """Return True if the request may use this candidate of the host."""

    def host_passes(self, host_state: HostState, spec_obj: RequestSpec) -> bool:
        host_state.allocation_candidates = [
            candidate
            for candidate in host_state.allocation_candidates
            if self.candidate_passes(candidate, host_state, spec_obj)
        ]
        return bool(host_state.allocation_candidates)
