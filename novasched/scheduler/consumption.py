# SPDX-License-Identifier: Apache-2.0
"""What an instance takes from the host that was picked for it."""

from __future__ import annotations

from typing import Any, NamedTuple

from novasched.objects.request_spec import RequestSpec
from novasched.scheduler.columns import Instances, Objects
from novasched.scheduler.hosts import HostTable


class Member(NamedTuple):
    """A member of a server group that was placed a moment ago, as an instance."""

    uuid: str
    host: str


def consume(hosts: HostTable, row: int, request: RequestSpec) -> HostTable:
    """Return the hosts after one of them took the instance of the request.

    ``row`` is a row of the snapshot. Swap is not subtracted, and members of a
    server group see the new member. ``updated`` stays: this is no report of the
    compute. Nova: scheduler/host_manager.py, consume_from_request.
    """
    snapshot = hosts.snapshot
    disk_mb = (request.root_gb + request.ephemeral_gb) * 1024
    changes: dict[str, Any] = {
        'free_ram_mb': snapshot.column('free_ram_mb')[row] - request.memory_mb,
        'free_disk_mb': snapshot.column('free_disk_mb')[row] - disk_mb,
        'vcpus_used': snapshot.column('vcpus_used')[row] + request.vcpus,
        'num_instances': snapshot.column('num_instances')[row] + 1,
        'num_io_ops': snapshot.column('num_io_ops')[row] + 1,
    }
    consumed = hosts.replace(row, **changes)
    if request.instance_group is None:
        return consumed
    return _with_member(consumed, row, request.instance_uuid)


def _with_member(hosts: HostTable, row: int, uuid: str) -> HostTable:
    """Add an instance to a host, without reading the instances before need be."""
    member = Member(uuid, hosts.snapshot.column('host')[row])

    def with_member(column: Objects | Instances) -> Instances:
        new = column.copy() if isinstance(column, Instances) else Instances(column)
        new[row] = {uuid: member, **new.item(row)}
        return new

    instances = hosts.snapshot.lazy('instances').then(with_member)
    return hosts.with_columns(instances=instances)
