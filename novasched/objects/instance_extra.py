# SPDX-License-Identifier: Apache-2.0
"""Objects that an instance may carry along, without a part in scheduling.

The items of some lists are of classes that we do not define; such lists can be
read only when they are empty.
"""

from __future__ import annotations

from typing import Any

from novasched.objects import fields, machine
from novasched.objects.base import (
    NovaObject,
    NovaObjectList,
    NovaObjectRegistry,
    NovaPersistentObject,
)
from novasched.objects.numa import InstanceNUMATopology, VirtCPUTopology
from novasched.objects.pci import InstancePCIRequests, PciDeviceList


@NovaObjectRegistry.register
class InstanceInfoCache(NovaPersistentObject):
    VERSION = '1.5'

    instance_uuid: str = fields.uuid()
    network_info: Any = fields.anything(nullable=True)


@NovaObjectRegistry.register
class InstanceFault(NovaPersistentObject):
    VERSION = '1.2'

    id: int = fields.integer()
    instance_uuid: str = fields.uuid()
    code: int = fields.integer()
    message: str | None = fields.string(nullable=True)
    details: str | None = fields.string(nullable=True)
    host: str | None = fields.string(nullable=True)


@NovaObjectRegistry.register
class Resource(NovaObject):
    VERSION = '1.0'

    provider_uuid: str = fields.uuid()
    resource_class: str = fields.string()
    identifier: str = fields.string()
    metadata: Any = fields.object_of('ResourceMetadata')


@NovaObjectRegistry.register
class ResourceList(NovaObjectList[Resource]):
    VERSION = '1.0'

    objects: list[Resource] = fields.objects_of('Resource')


@NovaObjectRegistry.register
class MigrationContext(NovaPersistentObject):
    VERSION = '1.2'

    instance_uuid: str = fields.uuid()
    migration_id: int = fields.integer()
    new_numa_topology: InstanceNUMATopology | None = fields.object_of(
        'InstanceNUMATopology', nullable=True
    )
    old_numa_topology: InstanceNUMATopology | None = fields.object_of(
        'InstanceNUMATopology', nullable=True
    )
    new_pci_devices: PciDeviceList | None = fields.object_of(
        'PciDeviceList', nullable=True
    )
    old_pci_devices: PciDeviceList | None = fields.object_of(
        'PciDeviceList', nullable=True
    )
    new_pci_requests: InstancePCIRequests | None = fields.object_of(
        'InstancePCIRequests', nullable=True
    )
    old_pci_requests: InstancePCIRequests | None = fields.object_of(
        'InstancePCIRequests', nullable=True
    )
    new_resources: ResourceList | None = fields.object_of('ResourceList', nullable=True)
    old_resources: ResourceList | None = fields.object_of('ResourceList', nullable=True)


@NovaObjectRegistry.register
class KeyPairList(NovaObjectList[Any]):
    VERSION = '1.3'

    objects: list[Any] = fields.objects_of('KeyPair')


@NovaObjectRegistry.register
class TagList(NovaObjectList[Any]):
    VERSION = '1.1'

    objects: list[Any] = fields.objects_of('Tag')


@NovaObjectRegistry.register
class TrustedCerts(NovaObject):
    VERSION = '1.0'

    ids: list[str] = fields.strings()


@NovaObjectRegistry.register
class InstanceDeviceMetadata(NovaObject):
    VERSION = '1.0'

    devices: list[Any] = fields.objects_of('DeviceMetadata')


@NovaObjectRegistry.register
class VirtCPUModel(NovaObject):
    VERSION = '1.0'

    arch: str | None = machine.architecture(nullable=True)
    vendor: str | None = fields.string(nullable=True)
    topology: VirtCPUTopology | None = fields.object_of(
        'VirtCPUTopology', nullable=True
    )
    features: list[Any] = fields.objects_of('VirtCPUFeature', default=[])
    mode: str | None = fields.enum(
        'custom', 'host-model', 'host-passthrough', nullable=True
    )
    model: str | None = fields.string(nullable=True)
    match: str | None = fields.enum('minimum', 'exact', 'strict', nullable=True)


@NovaObjectRegistry.register
class EC2Ids(NovaObject):
    VERSION = '1.0'

    instance_id: str = fields.string(read_only=True)
    ami_id: str | None = fields.string(nullable=True, read_only=True)
    kernel_id: str | None = fields.string(nullable=True, read_only=True)
    ramdisk_id: str | None = fields.string(nullable=True, read_only=True)
