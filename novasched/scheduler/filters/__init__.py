# SPDX-License-Identifier: Apache-2.0
"""Filters drop the hosts that must not be used for a request."""

from __future__ import annotations

import abc
from collections.abc import Iterable
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
    ) -> Iterable[HostState] | None:
        """Return the hosts that pass, or None: no host.

        A rule about the whole set overrides it.
        """
        return (host for host in hosts if self.host_passes(host, spec_obj))

    def apply(self, hosts: HostTable, request: RequestSpec) -> HostTable:
        """Return the hosts that pass, in the order given."""
        passed = self.filter_all(hosts.states(), request)
        return hosts.keep(passed if passed is not None else ())


class ColumnFilter(BaseHostFilter):
    """A filter whose rule is an expression over columns."""

    @abc.abstractmethod
    def mask(self, hosts: HostTable, request: RequestSpec) -> Mask:
        """Return True for each host that passes; shape (len(hosts),)."""

    def host_passes(self, host_state: HostState, spec_obj: RequestSpec) -> bool:
        return bool(self.mask(host_state.as_table(), spec_obj)[0])

    def apply(self, hosts: HostTable, request: RequestSpec) -> HostTable:
        if self._goes_host_by_host():
            return super().apply(hosts, request)
        mask = self.mask(hosts, request)
        return hosts if mask.all() else hosts[mask]

    def _goes_host_by_host(self) -> bool:
        """Return True for a plugin's subclass that overrides a hook of nova's."""
        cls = type(self)
        return (cls.host_passes, cls.filter_all) != (
            ColumnFilter.host_passes,
            ColumnFilter.filter_all,
        )


class CandidateFilter(BaseHostFilter):
    """A filter on allocation candidates; a host with none left is dropped."""

    @abc.abstractmethod
    def candidate_passes(
        self, candidate: Any, host: HostState, request: RequestSpec
    ) -> bool:
        """Return True if the request may use this candidate of the host."""

    def host_passes(self, host_state: HostState, spec_obj: RequestSpec) -> bool:
        candidates = host_state.allocation_candidates
        left = [c for c in candidates if self.candidate_passes(c, host_state, spec_obj)]
        if len(left) < len(candidates):
            host_state.allocation_candidates = left
        return bool(left)
