# SPDX-License-Identifier: Apache-2.0
"""A host that was selected: what the scheduler answers with."""

from __future__ import annotations

from typing import Any

from novasched.objects import fields
from novasched.objects.base import NovaObject, NovaObjectRegistry
from novasched.objects.request_spec import SchedulerLimits


@NovaObjectRegistry.register
class Selection(NovaObject):
    """A host for one instance.

    ``allocation_request`` is JSON text of what was, or for an alternate would be,
    claimed for it; the text ``null`` where nothing needs to be.
    """

    VERSION = '1.1'

    compute_node_uuid: str = fields.uuid()
    service_host: str = fields.string()
    nodename: str = fields.string()
    cell_uuid: str = fields.uuid()
    limits: SchedulerLimits | None = fields.object_of('SchedulerLimits', nullable=True)
    allocation_request: str | None = fields.string(nullable=True)
    allocation_request_version: str | None = fields.string(nullable=True)
    availability_zone: str | None = fields.string(nullable=True)

    def to_dict(self) -> dict[str, Any]:
        """Return the answer to callers that do not read objects.

        ``limits`` has the members that are not None, numa_topology as a primitive.
        """
        given = self.if_set('limits')
        limits = given.to_dict() if given else {}
        if 'numa_topology' in limits:
            limits['numa_topology'] = limits['numa_topology'].obj_to_primitive()
        return {'host': self.service_host, 'nodename': self.nodename, 'limits': limits}
