# SPDX-License-Identifier: Apache-2.0
"""The instance object of a new server."""

from __future__ import annotations

from novasched.objects.instance import Instance, InstanceInfoCache
from novasched.objects.request_spec import RequestSpec

NO_NETWORKS = '[]'
"""The networks of a new instance, as nova caches them; its computes read no null."""


def instance_of(request: RequestSpec, name: str, number: int = 0) -> Instance:
    """Return the new instance that a request is for, as the API first has it.

    Host and node are left unset, as nova's API leaves them: a conductor of nova refuses
    an instance whose node is None.
    """
    flavor, image = request.flavor, request.image
    properties = image.properties if image and 'properties' in image else None
    found = {} if properties is None else properties.obj_to_primitive()
    metadata = found.get('nova_object.data', {}).items()
    made = Instance(
        uuid=request.instance_uuid,
        project_id=request.project_id,
        user_id=request.user_id,
        display_name=name,
        hostname=name,
        launch_index=number,
        image_ref=image.id if image and 'id' in image else '',
        vm_state='building',
        task_state='scheduling',
        power_state=0,
        vcpus=flavor.vcpus,
        memory_mb=flavor.memory_mb,
        root_gb=flavor.root_gb,
        ephemeral_gb=flavor.ephemeral_gb,
        instance_type_id=flavor.id if 'id' in flavor else None,
        availability_zone=request.availability_zone,
        flavor=flavor,
        numa_topology=request.numa_topology,
        pci_requests=request.pci_requests,
        system_metadata={
            f'image_{key}': str(value)
            for key, value in metadata
            if isinstance(value, str | int | float)
        },
        info_cache=InstanceInfoCache(
            instance_uuid=request.instance_uuid, network_info=NO_NETWORKS
        ),
        hidden=False,
        locked=False,
    )
    made.obj_reset_changes(recursive=True)
    return made
