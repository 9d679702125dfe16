# SPDX-License-Identifier: Apache-2.0
"""Leave the hosts that the request names, before any filter runs."""

from __future__ import annotations

import collections
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from novasched.objects.request_spec import RequestSpec
from novasched.scheduler.hosts import HostTable


@dataclass(frozen=True)
class Narrowed:
    """The hosts left; ``notes`` say in nova's words what was done.

    ``filters_run`` is False when the caller forced a host or node, or nothing is
    left after the ignored hosts: then the hosts are the result.
    """

    hosts: HostTable
    notes: tuple[str, ...]
    filters_run: bool


def narrow(hosts: HostTable, request: RequestSpec) -> Narrowed:
    """Apply the requested destination, ignored hosts and forced hosts.

    Host names compare without case where nova does. Nova:
    scheduler/host_manager.py, get_filtered_hosts.
    """
    notes: list[str] = []
    hosts = _destination(hosts, request, notes)
    ignored = request.ignore_hosts or ()
    forced_hosts, forced_nodes = request.force_hosts or (), request.force_nodes or ()
    if ignored:
        hosts = _ignore(hosts, list(ignored), notes)
        if not len(hosts):
            return Narrowed(hosts, tuple(notes), False)
    if forced_hosts:
        hosts = _force(hosts, 'force_hosts', list(forced_hosts), notes)
    if forced_nodes:
        hosts = _force(hosts, 'force_nodes', list(forced_nodes), notes)
    forced = bool(forced_hosts or forced_nodes)
    return Narrowed(hosts, tuple(notes), not forced or request.checks_type)


def _keep(hosts: HostTable, passes: Callable[[str, str], bool]) -> HostTable:
    pairs = zip(hosts.host.tolist(), hosts.nodename.tolist(), strict=True)
    return hosts[np.array([passes(host, node) for host, node in pairs], bool)]


def _destination(hosts: HostTable, request: RequestSpec, notes: list[str]) -> HostTable:
    destination = request.requested_destination
    if destination is None or not destination.obj_attr_is_set('host'):
        return hosts
    wanted, wanted_node = destination.host, destination.node
    kept = _keep(
        hosts, lambda h, n: h == wanted and (not wanted_node or n == wanted_node)
    )
    if len(kept):
        notes.append(f'Host filter only checking host {wanted} and node {wanted_node}')
    else:
        notes.append(
            'No hosts matched due to not matching requested destination '
            f'({wanted}, {wanted_node})'
        )
    return kept


def _ignore(hosts: HostTable, ignored: list[str], notes: list[str]) -> HostTable:
    left = collections.Counter(host.lower() for host in hosts.host.tolist())
    dropped = [name for name in ignored for _ in range(left.pop(name.lower(), 0))]
    notes.append(f'Host filter ignoring hosts: {", ".join(dropped)}')
    return _keep(hosts, lambda host, node: host.lower() in left)


def _force(
    hosts: HostTable, option: str, forced: list[str], notes: list[str]
) -> HostTable:
    """Keep the hosts or nodes that ``force_hosts`` or ``force_nodes`` names."""
    what = option.removeprefix('force_')
    if what == 'hosts':
        lowered = {name.lower() for name in forced}
        kept = _keep(hosts, lambda host, node: host.lower() in lowered)
        names = kept.host.tolist()
    else:
        kept = _keep(hosts, lambda host, node: node in forced)
        names = kept.nodename.tolist()
    if names:
        notes.append(f'Host filter forcing available {what} to {", ".join(names)}')
    else:
        notes.append(
            f"No {what} matched due to not matching '{option}' value of "
            f"'{', '.join(forced)}'"
        )
    return kept
