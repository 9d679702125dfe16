# SPDX-License-Identifier: Apache-2.0
"""The host manager of drivers written for nova.

Nova: scheduler/host_manager.py.
"""

from __future__ import annotations

import contextlib
import random
import threading
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

from novasched import errors
from novasched.drivers import DriverContext, ScheduleRequest
from novasched.drivers.nova_log_lines import Logged, log_decision
from novasched.drivers.plugin_timing import RequestTimer
from novasched.objects.filter_properties import HOST_LISTS, KEYS
from novasched.objects.request_spec import RequestSpec
from novasched.ports.decisions import NO_RECORDER, DecisionRecorder
from novasched.scheduler.filters import BaseHostFilter
from novasched.scheduler.hosts import HostState, HostTable
from novasched.scheduler.pipeline import Profile, decide, descending, weigh
from novasched.scheduler.weighers import WeighedHost

COMPUTE = 'compute'

Asked = RequestSpec | Mapping[str, Any]
"""A request, or the filter_properties that a driver was given for it."""


class Serving(NamedTuple):
    """The request that a driver works on, its timer and recorder, and the complaints
    logged."""

    request: RequestSpec | None
    timer: RequestTimer
    logged: Logged
    recorder: DecisionRecorder = NO_RECORDER


class HostManager:
    """Shows the hosts of the cluster view, filters and weighs them."""

    def __init__(self, context: DriverContext) -> None:
        self._context = context
        self._thread = threading.local()

    @contextlib.contextmanager
    def serving(self, request: ScheduleRequest, timer: RequestTimer) -> Iterator[None]:
        """Know what the driver works on, in this thread, for a while."""
        self._thread.serving = Serving(request.spec, timer, set(), request.recorder)
        try:
            yield
        finally:
            del self._thread.serving

    def _served(self) -> Serving:
        """Return the request of the driver; a thread of its own has none."""
        found: Serving | None = getattr(self._thread, 'serving', None)
        return found or Serving(None, self._context.watch.of(None), set())

    def get_all_host_states(self, context: Any) -> Iterator[HostState]:
        """Return all nodes of the enabled cells, as they are now."""
        return self._refreshed(None).states()

    def get_host_states_by_uuids(
        self, context: Any, compute_uuids: Iterable[str], spec_obj: RequestSpec
    ) -> Iterator[HostState]:
        """Return the nodes with these uuids, of the cell of the request if it has
        one, in the order of the uuids."""
        return self._refreshed(compute_uuids, spec_obj).states()

    def refresh_cells_caches(self) -> None:
        """Look at the cells again. Raises errors.StoreFailed."""
        self._context.view.check()

    def hosts_up(self, topic: str) -> list[str]:
        """Return the names of the hosts whose service is enabled and up.

        Only services of the topic ``compute`` are known.
        """
        if topic != COMPUTE:
            return []
        hosts = self._refreshed(None)
        usable = hosts[~hosts.service_disabled & hosts.service_up]
        return list(dict.fromkeys(usable.host.tolist()))

    def service_is_up(self, service: Mapping[str, Any]) -> bool:
        """Return whether a compute service, as hosts show it, was heard from in time.

        Nova: servicegroup/api.py.
        """
        hosts = self.get_all_host_states(None)
        return any(each.service_up for each in hosts if each.host == service['host'])

    def _refreshed(
        self, uuids: Iterable[str] | None, request: RequestSpec | None = None
    ) -> HostTable:
        view = self._context.view
        view.refresh()
        wanted = None if uuids is None else {uuid: list[Any]() for uuid in uuids}
        return view.hosts(wanted, request.target_cell_uuid if request else None)

    def get_filtered_hosts(
        self,
        hosts: Iterable[HostState],
        spec_obj: Asked,
        filter_class_names: Sequence[str] | int | None = None,
        index: int = 0,
    ) -> list[HostState]:
        """Return the hosts that the request allows and every filter passes.

        Only the filters of these classes run, in this order, and all that are
        enabled for None. Without that parameter, the index was the third.
        Raises errors.FilterNotFound for one that is not enabled.
        """
        states = list(hosts)
        if not states:
            return []
        if isinstance(filter_class_names, int):
            index = filter_class_names
            filter_class_names = None
        profile = Profile(self._filters(filter_class_names), weighers=())
        _, timer, logged, recorder = self._served()
        request = self._request(spec_obj)
        table = table_of(states)
        decision = decide(profile, table, request, random.Random(0), index, timer)
        decision = replace(decision, took_s=timer.took_s())
        log_decision(decision, logged)
        recorder.decided(decision)
        return list(decision.weighed.hosts.states())

    def _filters(self, names: Sequence[str] | None) -> Sequence[BaseHostFilter]:
        enabled = self._context.profile.filters
        if names is None:
            return enabled
        by_name = {each.name: each for each in enabled}
        if unknown := [name for name in names if name not in by_name]:
            raise errors.FilterNotFound(unknown)
        return [by_name[name] for name in names]

    def _request(self, asked: Asked) -> RequestSpec:
        """Return the request behind filter_properties, with what the driver put
        into them: hosts to ignore or to force, and keys of its own."""
        if not isinstance(asked, Mapping):
            return asked
        request = self._served().request
        if request is None:
            raise LookupError('a dict means no request but in the thread it came in')
        request.update({key: asked[key] for key in asked if key not in KEYS})
        lists = {name: list(asked[name]) for name in HOST_LISTS if asked.get(name)}
        return request.replaced(**lists)

    def get_weighed_hosts(
        self, hosts: Iterable[HostState], spec_obj: Asked
    ) -> list[WeighedHost]:
        """Return the hosts with their weights, the best one first."""
        states = list(hosts)
        if not states:
            return []
        weighers, request = self._context.profile.weighers, self._request(spec_obj)
        weighed = weigh(weighers, table_of(states), request, self._served().timer)
        totals = weighed.totals
        order = descending(totals).tolist()
        return [WeighedHost(states[place], float(totals[place])) for place in order]


def table_of(states: Sequence[HostState]) -> HostTable:
    """Return hosts as a table in their order, with what was set on them.

    Raises LookupError when they are not of one answer of the host manager.
    """
    snapshot = states[0]._snapshot
    if not all(state._snapshot.shares_columns(snapshot) for state in states):
        raise LookupError('hosts of several answers cannot be taken together')
    return HostTable(snapshot).keep(states)
