# SPDX-License-Identifier: Apache-2.0
"""Filters drop the hosts that must not be used for a request."""

from __future__ import annotations

import abc
from collections.abc import Iterable
from typing import Any, ClassVar, Self

from novasched.objects.request_spec import RequestSpec
from novasched.scheduler.hosts import HostState, HostTable, Mask
from novasched.scheduler.reasons import REJECTED, Code, Reason


class BaseHostFilter(abc.ABC):
    """Decide whether a host may be used: nova's plugin contract.

    ``codes`` lists what why() may answer; ``deprecated`` is what operators who
    enable the filter are warned of. Nova: scheduler/filters/__init__.py.
    """

    codes: ClassVar[tuple[Code, ...]] = (Code.REJECTED,)
    deprecated: ClassVar[str | None] = None
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

    def why(self, host: HostState, request: RequestSpec) -> Reason:
        """Say, in a few words, why host_passes() said no."""
        return REJECTED

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

    def _overrides(self, hook: str, rule: str) -> bool:
        """Return True if a subclass of whoever wrote a rule has a hook of its own."""
        line = [vars(cls) for cls in type(self).__mro__]
        return [hook in cls for cls in line].index(True) < (
            [rule in cls for cls in line].index(True)
        )

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
