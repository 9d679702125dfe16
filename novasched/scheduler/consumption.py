# SPDX-License-Identifier: Apache-2.0
"""What an instance takes from the host that was picked for it."""

from __future__ import annotations

from typing import Any

from novasched.objects.request_spec import RequestSpec
from novasched.scheduler.hosts import HostTable


def consume(hosts: HostTable, row: int, request: RequestSpec) -> HostTable:
    """Return the hosts after one of them took the instance of the request.

    ``row`` is a row of the snapshot. Swap is not subtracted, and members of a
    server group see the new member. Nova: scheduler/host_manager.py,
    consume_from_request.
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
    if request.instance_group is not None:
        before = snapshot.column('instances')[row]
        changes['instances'] = {request.instance_uuid: None, **before}
    return hosts.replace(row, **changes)
