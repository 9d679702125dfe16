# SPDX-License-Identifier: Apache-2.0
"""Instances as nova-compute casts them; of most only the uuid is looked at."""

from __future__ import annotations

import datetime
from collections.abc import Callable
from typing import Any, ClassVar, NamedTuple, Self

from netaddr import IPAddress  # type: ignore[import-untyped]
from oslo_versionedobjects import base as ovo
from oslo_versionedobjects import exception as ovo_exception
from oslo_versionedobjects import fields as ovo_fields

from novasched import errors
from novasched.objects import fields
from novasched.objects.base import (
    NovaObjectList,
    NovaObjectRegistry,
    NovaPersistentObject,
)
from novasched.objects.flavor import Flavor
from novasched.objects.numa import InstanceNUMATopology
from novasched.objects.pci import InstancePCIRequests
from novasched.objects.request_spec import SecurityGroupList


@NovaObjectRegistry.register
class InstanceInfoCache(NovaPersistentObject):
    VERSION = '1.5'

    instance_uuid: str = fields.uuid()
    network_info: Any = fields.anything(nullable=True)


@NovaObjectRegistry.register
class Instance(ovo.VersionedObjectDictCompat, NovaPersistentObject):
    """An instance, read as far as we know how.

    Any version is read. A field that cannot be read, such as one with an object
    that is newer or unknown, is left unset; reading it raises why. Only the uuid
    must be there. Objects without a part in scheduling stay primitives.
    """

    VERSION = '2.8'

    id: int = fields.integer()
    user_id: str | None = fields.string(nullable=True)
    project_id: str | None = fields.string(nullable=True)
    image_ref: str | None = fields.string(nullable=True)
    kernel_id: str | None = fields.string(nullable=True)
    ramdisk_id: str | None = fields.string(nullable=True)
    hostname: str | None = fields.string(nullable=True)
    launch_index: int | None = fields.integer(nullable=True)
    key_name: str | None = fields.string(nullable=True)
    key_data: str | None = fields.string(nullable=True)
    power_state: int | None = fields.integer(nullable=True)
    vm_state: str | None = fields.string(nullable=True)
    task_state: str | None = fields.string(nullable=True)
    services: Any = fields.anything()
    memory_mb: int | None = fields.integer(nullable=True)
    vcpus: int | None = fields.integer(nullable=True)
    root_gb: int | None = fields.integer(nullable=True)
    ephemeral_gb: int | None = fields.integer(nullable=True)
    ephemeral_key_uuid: str | None = fields.uuid(nullable=True)
    host: str | None = fields.string(nullable=True)
    node: str | None = fields.string(nullable=True)
    compute_id: int | None = fields.integer(nullable=True)
    instance_type_id: int | None = fields.integer(nullable=True)
    user_data: str | None = fields.string(nullable=True)
    reservation_id: str | None = fields.string(nullable=True)
    launched_at: datetime.datetime | None = fields.timestamp(nullable=True)
    terminated_at: datetime.datetime | None = fields.timestamp(nullable=True)
    availability_zone: str | None = fields.string(nullable=True)
    display_name: str | None = fields.string(nullable=True)
    display_description: str | None = fields.string(nullable=True)
    launched_on: str | None = fields.string(nullable=True)
    locked: bool = fields.boolean(default=False)
    locked_by: str | None = fields.string(nullable=True)
    os_type: str | None = fields.string(nullable=True)
    architecture: str | None = fields.string(nullable=True)
    vm_mode: str | None = fields.string(nullable=True)
    uuid: str = fields.uuid()
    root_device_name: str | None = fields.string(nullable=True)
    default_ephemeral_device: str | None = fields.string(nullable=True)
    default_swap_device: str | None = fields.string(nullable=True)
    config_drive: str | None = fields.string(nullable=True)
    access_ip_v4: IPAddress | None = fields.ipv4(nullable=True)
    access_ip_v6: IPAddress | None = fields.ipv6(nullable=True)
    auto_disk_config: bool = fields.boolean(default=False)
    progress: int | None = fields.integer(nullable=True)
    shutdown_terminate: bool = fields.boolean(default=False)
    disable_terminate: bool = fields.boolean(default=False)
    cell_name: str | None = fields.string(nullable=True)
    metadata: dict[str, str] = fields.string_dict()
    system_metadata: dict[str, str | None] = fields.nullable_string_dict()
    info_cache: InstanceInfoCache | None = fields.object_of(
        'InstanceInfoCache', nullable=True
    )
    security_groups: SecurityGroupList = fields.object_of('SecurityGroupList')
    fault: Any = fields.anything(nullable=True)
    cleaned: bool = fields.boolean(default=False)
    pci_devices: Any = fields.anything(nullable=True)
    numa_topology: InstanceNUMATopology | None = fields.object_of(
        'InstanceNUMATopology', nullable=True
    )
    pci_requests: InstancePCIRequests | None = fields.object_of(
        'InstancePCIRequests', nullable=True
    )
    device_metadata: Any = fields.anything(nullable=True)
    tags: Any = fields.anything()
    flavor: Flavor = fields.object_of('Flavor')
    old_flavor: Flavor | None = fields.object_of('Flavor', nullable=True)
    new_flavor: Flavor | None = fields.object_of('Flavor', nullable=True)
    vcpu_model: Any = fields.anything(nullable=True)
    ec2_ids: Any = fields.anything()
    migration_context: Any = fields.anything(nullable=True)
    keypairs: Any = fields.anything()
    trusted_certs: Any = fields.anything(nullable=True)
    hidden: bool = fields.boolean(default=False)
    resources: Any = fields.anything(nullable=True)

    load: ClassVar[Callable[[str], Any] | None] = None
    """Returns the whole instance of a uuid, where something can read it."""

    def __init__(self, context: Any = None, **kwargs: Any) -> None:
        super().__init__(context, **kwargs)
        self.unreadable: dict[str, Exception] = {}

    @classmethod
    def reads(cls, version: str) -> bool:
        return True

    @classmethod
    def _obj_from_primitive(
        cls, context: Any, objver: str, primitive: dict[str, Any]
    ) -> Self:
        self = super()._obj_from_primitive(context, objver, primitive)
        if 'uuid' not in self:
            raise errors.InvalidRequest('Instance.uuid is missing')
        return self

    def _read(self, name: str, field: ovo_fields.Field[Any], value: Any) -> None:
        try:
            super()._read(name, field, value)
        except (errors.RequestError, ovo_exception.VersionedObjectsException) as error:
            if name == 'uuid':
                raise
            self.unreadable[name] = error

    def obj_load_attr(self, attrname: str) -> None:
        if attrname in self.unreadable:
            raise self.unreadable[attrname]
        super().obj_load_attr(attrname)


class KnownInstance(NamedTuple):
    """What the scheduler knows of an instance; all else is read from an Instance.

    ``host`` is the host of the service, not the node.
    """

    uuid: str
    host: str
    instance_type_id: int | None = None

    def __getattr__(self, name: str) -> Any:
        if name.startswith('_'):
            raise AttributeError(name)
        load = Instance.load
        whole = load(self.uuid) if load else Instance.made_of(**self._asdict())
        return getattr(whole, name)

    def __getitem__(self, name: Any) -> Any:
        """Return a field by its name, as nova does, or by its place."""
        if isinstance(name, str):
            return getattr(self, name)
        return tuple.__getitem__(self, name)

    def __contains__(self, name: object) -> bool:
        return name in self._fields


@NovaObjectRegistry.register
class InstanceList(NovaObjectList[Instance]):
    """Instances, of any version."""

    VERSION = '2.6'

    objects: list[Instance] = fields.objects_of('Instance')

    @classmethod
    def reads(cls, version: str) -> bool:
        return True
