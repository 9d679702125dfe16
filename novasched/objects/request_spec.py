# SPDX-License-Identifier: Apache-2.0
"""RequestSpec: the request for hosts, and the objects in it."""

from __future__ import annotations

import operator
from collections.abc import Mapping
from typing import Any, ClassVar

from novasched.objects import fields
from novasched.objects.base import (
    FilledObject,
    NovaObject,
    NovaObjectList,
    NovaObjectRegistry,
    NovaPersistentObject,
    NovaTimestampObject,
)
from novasched.objects.compute_node import ComputeNodeList
from novasched.objects.filter_properties import (
    AnswersAsDict,
    filter_properties_dict,
    request_spec_dict,
)
from novasched.objects.flavor import Flavor
from novasched.objects.image_meta import ImageMeta, ImageMetaProps
from novasched.objects.instance_group import InstanceGroup
from novasched.objects.network import NetworkMetadata, NetworkRequestList
from novasched.objects.numa import InstanceNUMATopology, NUMATopologyLimits
from novasched.objects.pci import InstancePCIRequests


@NovaObjectRegistry.register
class CellMapping(NovaTimestampObject):
    """A cell. The templates in its URLs are filled in already."""

    VERSION = '1.1'

    id: int = fields.integer(read_only=True)
    uuid: str = fields.uuid()
    name: str | None = fields.string(nullable=True)
    transport_url: str = fields.string()
    database_connection: str = fields.string()
    disabled: bool = fields.boolean(default=False)


@NovaObjectRegistry.register
class Destination(NovaObject):
    """Where the request must go.

    Each item of ``aggregates`` is a comma-joined list of aggregate uuids of
    which one must hold; all items must hold. ``host``, ``node`` and ``cell``
    may be unset.
    """

    VERSION = '1.4'

    host: str = fields.string()
    node: str | None = fields.string(nullable=True)
    cell: CellMapping | None = fields.object_of('CellMapping', nullable=True)
    aggregates: list[str] | None = fields.strings(nullable=True, default=None)
    allow_cross_cell_move: bool = fields.boolean(default=False)
    forbidden_aggregates: set[str] | None = fields.string_set(
        nullable=True, default=None
    )


@NovaObjectRegistry.register
class SchedulerRetries(NovaObject):
    """What was tried before; hosts carry host and hypervisor_hostname only."""

    VERSION = '1.1'

    num_attempts: int = fields.integer()
    hosts: ComputeNodeList = fields.object_of('ComputeNodeList')


@NovaObjectRegistry.register
class SchedulerLimits(FilledObject):
    """How far a host may be filled; None means no limit."""

    VERSION = '1.0'

    numa_topology: NUMATopologyLimits | None = fields.object_of(
        'NUMATopologyLimits', nullable=True, default=None
    )
    vcpu: int | None = fields.integer(nullable=True, default=None)
    disk_gb: int | None = fields.integer(nullable=True, default=None)
    memory_mb: int | None = fields.integer(nullable=True, default=None)

    def to_dict(self) -> dict[str, Any]:
        """Return the members that are not None; objects stay objects."""
        values = self.set_fields()
        return {name: value for name, value in values.items() if value is not None}


@NovaObjectRegistry.register
class RequestGroup(FilledObject):
    """Resources that must come from one provider, or may come from several."""

    VERSION = '1.3'

    use_same_provider: bool = fields.boolean(default=True)
    resources: dict[str, int] = fields.integer_dict(default={})
    required_traits: set[str] = fields.string_set(default=set())
    forbidden_traits: set[str] = fields.string_set(default=set())
    aggregates: list[list[str]] = fields.string_lists(default=[])
    forbidden_aggregates: set[str] = fields.string_set(default=set())
    requester_id: str | None = fields.string(nullable=True, default=None)
    provider_uuids: list[str] = fields.uuid_list(default=[])
    in_tree: str | None = fields.uuid(nullable=True, default=None)


@NovaObjectRegistry.register
class RequestLevelParams(NovaObject):
    """What holds for the request as a whole, not for one group.

    ``same_subtree`` lists groups, by their suffixes, that share a provider tree.
    """

    VERSION = '1.1'

    root_required: set[str] = fields.string_set(default=set())
    root_forbidden: set[str] = fields.string_set(default=set())
    same_subtree: list[list[str]] = fields.string_lists(default=[])


@NovaObjectRegistry.register
class SecurityGroup(NovaPersistentObject):
    """A security group, passed on; usually only its uuid is set, or only its name."""

    VERSION = '1.2'

    id: int = fields.integer()
    name: str = fields.string()
    description: str = fields.string()
    user_id: str = fields.string()
    project_id: str = fields.string()
    uuid: str = fields.uuid()


@NovaObjectRegistry.register
class SecurityGroupList(NovaObjectList[SecurityGroup]):
    VERSION = '1.1'

    objects: list[SecurityGroup] = fields.objects_of('SecurityGroup')


def _through(path: str) -> Any:
    """Return a property that reads an attribute of an object inside."""
    return property(operator.attrgetter(path))


@NovaObjectRegistry.register
class RequestSpec(AnswersAsDict, NovaObject):
    """A request to place one or more instances of the same shape.

    To plugins of the time before it, it is also the dict that they were given.
    """

    VERSION = '1.15'
    UNSET_DEFAULTS: ClassVar = {
        'security_groups': SecurityGroupList,
        'network_metadata': lambda: NetworkMetadata(physnets=set(), tunneled=False),
        'request_level_params': RequestLevelParams,
        'requested_networks': NetworkRequestList,
    }

    id: int = fields.integer()
    image: ImageMeta | None = fields.object_of('ImageMeta', nullable=True)
    numa_topology: InstanceNUMATopology | None = fields.object_of(
        'InstanceNUMATopology', nullable=True
    )
    pci_requests: InstancePCIRequests | None = fields.object_of(
        'InstancePCIRequests', nullable=True
    )
    project_id: str | None = fields.string(nullable=True)
    user_id: str | None = fields.string(nullable=True)
    availability_zone: str | None = fields.string(nullable=True)
    flavor: Flavor = fields.object_of('Flavor')
    num_instances: int = fields.integer(default=1)
    ignore_hosts: list[str] | None = fields.strings(nullable=True)
    force_hosts: list[str] | None = fields.strings(nullable=True)
    force_nodes: list[str] | None = fields.strings(nullable=True)
    requested_destination: Destination | None = fields.object_of(
        'Destination', nullable=True, default=None
    )
    retry: SchedulerRetries | None = fields.object_of('SchedulerRetries', nullable=True)
    limits: SchedulerLimits | None = fields.object_of('SchedulerLimits', nullable=True)
    instance_group: InstanceGroup | None = fields.object_of(
        'InstanceGroup', nullable=True
    )
    scheduler_hints: dict[str, list[str]] | None = fields.string_list_dict(
        nullable=True
    )
    instance_uuid: str = fields.uuid()
    security_groups: SecurityGroupList = fields.object_of('SecurityGroupList')
    network_metadata: NetworkMetadata = fields.object_of('NetworkMetadata')
    is_bfv: bool = fields.boolean()
    requested_resources: list[RequestGroup] | None = fields.objects_of(
        'RequestGroup', nullable=True, default=None
    )
    request_level_params: RequestLevelParams = fields.object_of('RequestLevelParams')
    requested_networks: NetworkRequestList = fields.object_of('NetworkRequestList')

    def __contains__(self, name: object) -> bool:
        """Return whether a field is set; of other names, whether the dict has it."""
        if not isinstance(name, str) or name in self.fields:
            return super().__contains__(name)
        return name in self.filter_properties()

    vcpus: int = _through('flavor.vcpus')
    memory_mb: int = _through('flavor.memory_mb')
    root_gb: int = _through('flavor.root_gb')
    ephemeral_gb: int = _through('flavor.ephemeral_gb')
    swap: int = _through('flavor.swap')  # in MiB
    root_required: set[str] = _through('request_level_params.root_required')
    root_forbidden: set[str] = _through('request_level_params.root_forbidden')
    same_subtree: list[list[str]] = _through('request_level_params.same_subtree')

    @property
    def extra_specs(self) -> Mapping[str, str]:
        """The extra specs of the flavor; empty when it has none."""
        found: Mapping[str, str] = self.flavor.if_set('extra_specs', {})
        return found

    @property
    def image_properties(self) -> ImageMetaProps:
        """The properties of the image; empty when there is no image."""
        image = self.if_set('image')
        found = None if image is None else image.if_set('properties')
        return found or ImageMetaProps()

    def of_image(self, name: str) -> str | None:
        """Return the ``name`` or the ``id`` of the image; None if a volume has none."""
        image = self.if_set('image')
        return None if image is None else image.if_set(name)

    @property
    def is_rebuild(self) -> bool:
        """The instance stays on its host and holds its resources already."""
        hints = self._hints()
        return hints.get('_nova_check_type') == ['rebuild']

    @property
    def is_move(self) -> bool:
        """The instance exists already, so that it may hold allocations elsewhere.

        A conductor names its cell, and the host that it leaves, if it is not to return.
        """
        if self.if_set('ignore_hosts'):
            return True
        destination = self.requested_destination
        return bool(destination and destination.if_set('cell'))

    @property
    def target_cell_uuid(self) -> str | None:
        """The cell that the hosts must be of; None for any enabled cell."""
        destination = self.requested_destination
        if destination is None or destination.allow_cross_cell_move:
            return None
        cell = destination.if_set('cell')
        return None if cell is None else cell.uuid

    @property
    def checks_type(self) -> bool:
        """Filters run even where the request forces a host."""
        return bool(self.hint('_nova_check_type'))

    def hint(self, name: str, default: Any = None) -> Any:
        """Return a scheduler hint: its text if it has one, else the list of them."""
        values = self._hints().get(name)
        if values is None:
            return default
        return values[0] if len(values) == 1 else values

    def get_scheduler_hint(self, hint_name: str, default: Any = None) -> Any:
        """Return a hint; the name that plugins written for nova call."""
        return self.hint(hint_name, default)

    def to_legacy_request_spec_dict(self) -> dict[str, Any]:
        """Return the ``request_spec`` of the time before this object."""
        return request_spec_dict(self)

    def to_legacy_filter_properties_dict(self) -> dict[str, Any]:
        """Return the ``filter_properties`` of the time before this object."""
        return filter_properties_dict(self)

    def _hints(self) -> Mapping[str, list[str]]:
        return self.if_set('scheduler_hints') or {}

    def with_group_on(self, host: str) -> RequestSpec:
        """Return the request with one more host of its server group, if it has one."""
        group = self.if_set('instance_group')
        if group is None:
            return self
        hosts = group.if_set('hosts') or ()
        return self.replaced(instance_group=group.replaced(hosts=[*hosts, host]))

    def with_providers(self, candidate: Mapping[str, Any] | None) -> RequestSpec:
        """Return the request with the providers that a candidate of placement gives to
        each requested group."""
        groups = self.requested_resources if 'requested_resources' in self else None
        if not groups or candidate is None:
            return self
        mappings = candidate.get('mappings', {})
        filled = [
            group.replaced(provider_uuids=mappings.get(group.requester_id, []))
            for group in groups
        ]
        return self.replaced(requested_resources=filled)

    def for_instance(self, uuid: str) -> RequestSpec:
        """Return the request of one instance of several; the original stays."""
        return self.replaced(instance_uuid=uuid)
