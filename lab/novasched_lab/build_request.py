# SPDX-License-Identifier: Apache-2.0
"""A request to build an instance, as the API sends it to the conductor."""

from __future__ import annotations

from typing import Any

from novasched.objects import fields
from novasched.objects.base import NovaObjectRegistry, NovaTimestampObject
from novasched.objects.instance import Instance


@NovaObjectRegistry.register
class BuildRequest(NovaTimestampObject):
    """An instance that is asked for; disks and tags are passed on as they came."""

    VERSION = '1.3'

    id: int = fields.integer()
    instance_uuid: str = fields.uuid()
    project_id: str = fields.string()
    instance: Instance = fields.object_of('Instance')
    block_device_mappings: Any = fields.anything()
    tags: Any = fields.anything()


def of(instance: Instance) -> BuildRequest:
    """Return the request to build an instance."""
    made = BuildRequest(
        instance_uuid=instance.uuid,
        project_id=instance.project_id or '',
        instance=instance,
    )
    made.obj_reset_changes(recursive=True)
    return made
