# SPDX-License-Identifier: Apache-2.0
"""Filters drop the hosts that must not be used for a request."""

from __future__ import annotations

import abc
import functools
from collections.abc import Collection, Iterable, Sequence
from typing import Any, ClassVar, Self

import numpy as np

from novasched.objects.request_spec import RequestSpec
from novasched.releases import Release
from novasched.scheduler.aggregates import Aggregates
from novasched.scheduler.columns import combined
from novasched.scheduler.hosts import Categories, HostState, HostTable, Mask, Rows
from novasched.scheduler.reasons import REJECTED, Code, Reason
from novasched.scheduler.warnings import PluginWarning


class BaseHostFilter(abc.ABC):  # noqa: B024
    """Decide whether a host may be used: nova's plugin contract.

    A filter defines host_passes(), or _filter_one() or filter_all() instead. These two
    are also called in a rebuild, and must find out by themselves whether it is one.
    Nova: scheduler/filters/__init__.py.
    """

    codes: ClassVar[tuple[Code, ...]] = (Code.REJECTED,)
    """The codes that why() may give."""
    explained_by: ClassVar[tuple[str, ...]] = ()
    """The columns from which the code follows; empty if unknown."""
    reads_aggregates: ClassVar[bool] = True
    """Whether it may depend on the aggregates of a host."""
    deprecated: ClassVar[str | None] = None
    """The warning for operators that enable the filter."""
    RUN_ON_REBUILD = False
    run_filter_once_per_request = False

    @classmethod
    def from_conf(cls, conf: Any) -> Self:
        """Make the filter from the options that it reads."""
        return cls()

    def of_release(self, release: Release) -> Self:
        """Return the filter as a release of nova has it; itself where all are alike."""
        return self

    @functools.cached_property  # which subclasses may overwrite, unlike a property
    def name(self) -> str:
        """The name of the class, as logs and metrics have it."""
        return type(self).__name__

    def run_filter_for_index(self, index: int) -> bool:
        """Return whether the filter runs for instance ``index`` of a request."""
        return not (self.run_filter_once_per_request and index > 0)

    def runs_on_rebuild(self) -> bool:
        """Return False if each host passes where the instance is rebuilt."""
        return bool(self.RUN_ON_REBUILD)

    def depends_on(self, request: RequestSpec) -> Collection[str] | None:
        """Return the columns from whose values of a host it follows whether it passes.

        None if something else counts: other hosts, the number of the instance in the
        request, or the hosts of the instances before it. With columns, the filter is
        not asked again while their values stay; it writes the same each time, if it
        writes.
        """
        return None

    def host_passes(self, host_state: HostState, spec_obj: RequestSpec) -> bool:
        """Return whether the host may be used."""
        raise TypeError(f'{type(self).__name__} does not define host_passes')

    def why(self, host: HostState, request: RequestSpec) -> Reason:
        """Say, in a few words, why host_passes() said no."""
        return REJECTED

    def reason_groups(self, hosts: HostTable, request: RequestSpec) -> Rows | None:
        """Return a number for each of some rejected hosts; None if none can be given.

        Hosts with the same number get the same code from why().
        """
        columns = []
        for name in self.explained_by:
            column = hosts.snapshot.column(name)
            values = column.codes if isinstance(column, Categories) else column
            if not isinstance(values, np.ndarray) or values.dtype == object:
                return None  # they need not be comparable
            columns.append(values[hosts.rows])
        return combined(columns) if columns else None

    def config_warnings(self, groups: Sequence[Aggregates]) -> Iterable[PluginWarning]:
        """Return warnings about the options and about groups of aggregates."""
        return ()

    def request_warnings(
        self, before: HostTable, after: HostTable, request: RequestSpec
    ) -> Iterable[PluginWarning]:
        """Return warnings about a request, of which the filter passed ``after``."""
        return ()

    def _filter_one(self, obj: HostState, spec_obj: RequestSpec) -> bool:
        """Return whether the host may be used, or need not be asked in a rebuild."""
        if not self.RUN_ON_REBUILD and spec_obj.is_rebuild:
            return True
        return self.host_passes(obj, spec_obj)

    def filter_all(
        self, filter_obj_list: Iterable[HostState], spec_obj: RequestSpec
    ) -> Iterable[HostState] | None:
        """Return the hosts that pass, or None for no host and an end of filtering.

        A rule about the whole set overrides it; it may change the order.
        """
        return (host for host in filter_obj_list if self._filter_one(host, spec_obj))

    def apply(self, hosts: HostTable, request: RequestSpec) -> HostTable | None:
        """Return the hosts that pass, in the order given; None to stop filtering."""
        passes = self.host_passes
        return hosts.keep(host for host in hosts.states() if passes(host, request))


class ColumnFilter(BaseHostFilter):
    """A filter whose rule is an expression over columns."""

    @abc.abstractmethod
    def mask(self, hosts: HostTable, request: RequestSpec) -> Mask:
        """Return the mask of the hosts that pass; shape (len(hosts),)."""

    def host_passes(self, host_state: HostState, spec_obj: RequestSpec) -> bool:
        return bool(self.mask(host_state.as_table(), spec_obj)[0])

    def apply(self, hosts: HostTable, request: RequestSpec) -> HostTable | None:
        mask = self.mask(hosts, request)
        return hosts if mask.all() else hosts[mask]


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


class CandidateFilter(BaseHostFilter):
    """A filter on allocation candidates; a host with none left is dropped."""

    @abc.abstractmethod
    def candidate_passes(
        self, candidate: Any, host: HostState, request: RequestSpec
    ) -> bool:
        """Return whether the request may use this candidate of the host."""

    def host_passes(self, host_state: HostState, spec_obj: RequestSpec) -> bool:
        candidates = host_state.allocation_candidates
        left = [c for c in candidates if self.candidate_passes(c, host_state, spec_obj)]
        if len(left) < len(candidates):
            host_state.allocation_candidates = left
        return bool(left)
