# SPDX-License-Identifier: Apache-2.0
"""Consumption of a host's resources by an instance placed on it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

from novasched.objects.request_spec import RequestSpec
from novasched.scheduler.columns import Instances, Objects

if TYPE_CHECKING:
    from novasched.scheduler.hosts import HostTable


class Member(NamedTuple):
    """A member of a server group that was placed a moment ago, as an instance."""

    uuid: str
    host: str


def taken(request: RequestSpec) -> dict[str, int]:
    """Return by how much the columns of the host of an instance change.

    Swap is not subtracted, and ``updated`` stays: this is no report of the compute.
    Nova: scheduler/host_manager.py, consume_from_request.
    """
    return {
        'free_ram_mb': -request.memory_mb,
        'free_disk_mb': -(request.root_gb + request.ephemeral_gb) * 1024,
        'vcpus_used': request.vcpus,
        'num_instances': 1,
        'num_io_ops': 1,
    }


def added_member(instances: Mapping[str, Any], uuid: str, host: str) -> dict[str, Any]:
    """Return the instances of a host with one more, unless it is there already."""
    return {uuid: Member(uuid, host), **instances}


def consume(hosts: HostTable, row: int, request: RequestSpec) -> HostTable:
    """Return the hosts after one of them took the instance of the request.

    ``row`` is a row of the snapshot. Members of a server group see the new member.
    """
    changes: dict[str, Any] = {
        name: hosts.snapshot.column(name)[row] + more
        for name, more in taken(request).items()
    }
    consumed = hosts.replace(row, **changes)
    if request.instance_group is None:
        return consumed
    return _with_member(consumed, row, request.instance_uuid)


def _with_member(hosts: HostTable, row: int, uuid: str) -> HostTable:
    """Add an instance to a host, without reading the instances before need be."""
    host = hosts.snapshot.column('host')[row]

    def with_member(column: Objects | Instances) -> Instances:
        new = column.copy() if isinstance(column, Instances) else Instances(column)
        new[row] = added_member(new.item(row), uuid, host)
        return new

    instances = hosts.snapshot.lazy('instances').then(with_member)
    return hosts.with_columns(instances=instances)
