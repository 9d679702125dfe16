# SPDX-License-Identifier: Apache-2.0
"""Request specs of servers that are new, or move.

Nova: objects/request_spec.py, from_components.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from novasched.inspection.session.guest_topology import numa_topology_of
from novasched.inspection.session.pci_aliases import PciAliases
from novasched.objects.flavor import Flavor
from novasched.objects.image_meta import ImageMeta
from novasched.objects.instance_group import InstanceGroup
from novasched.objects.network import NetworkRequestList
from novasched.objects.request_spec import (
    CellMapping,
    Destination,
    RequestLevelParams,
    RequestSpec,
    SchedulerLimits,
    SecurityGroupList,
)

NO_ALIASES = PciAliases()


def request_spec(
    uuid: str,
    flavor: Flavor,
    image: Mapping[str, Any] | None,
    *,
    project_id: str | None,
    user_id: str | None,
    num_instances: int = 1,
    availability_zone: str | None = None,
    hints: Mapping[str, Sequence[str]] | None = None,
    group: InstanceGroup | None = None,
    aliases: PciAliases = NO_ALIASES,
) -> RequestSpec:
    """Return the request to place an instance; every field is set.

    ``image`` has an id and properties, or is None if it boots from a volume. A zone may
    be ``zone:host`` or ``zone:host:node``, which forces it there. Raises
    errors.InvalidDemand.
    """
    zone, _, place = (availability_zone or '').partition(':')
    host, _, node = place.partition(':')
    made = RequestSpec(
        flavor=flavor,
        image=ImageMeta.from_dict(dict(image or {})),
        is_bfv=image is None,
        instance_uuid=uuid,
        project_id=project_id,
        user_id=user_id,
        num_instances=num_instances,
        availability_zone=zone or None,
        force_hosts=[host] if host else None,
        force_nodes=[node] if node else None,
        instance_group=group,
        scheduler_hints={name: list(values) for name, values in (hints or {}).items()},
        security_groups=SecurityGroupList(objects=[]),
        requested_networks=NetworkRequestList(objects=[]),
        request_level_params=RequestLevelParams(),
        limits=SchedulerLimits(),
        **dict.fromkeys(('ignore_hosts', 'requested_destination', 'retry')),
    )
    devices = aliases.requests_of(made)
    made.assign(
        numa_topology=numa_topology_of(made),
        pci_requests=devices,
        requested_resources=aliases.groups_of(devices),
    )
    made.obj_reset_changes(recursive=True)
    return made


def destined(request: RequestSpec, host: str) -> RequestSpec:
    """Return a request that must end on a host, after its filters have agreed."""
    to = Destination(host=host, node=None)
    to.obj_reset_changes()
    return request.replaced(requested_destination=to)


def moved(
    request: RequestSpec,
    *,
    flavor: Flavor,
    project_id: str | None,
    user_id: str | None,
    cell: tuple[str, str | None],
    leaves: Sequence[str],
    host: str | None = None,
) -> RequestSpec:
    """Return the request to move the instance that a request was kept for.

    It stays in its ``cell``, a uuid and a name. It leaves the hosts ``leaves``, and
    must go to ``host``, if one is given. Nova: conductor/tasks/migrate.py.
    """
    uuid, name = cell
    to = {'host': host, 'node': None} if host is not None else {}
    return request.replaced(
        flavor=flavor,
        project_id=project_id,
        user_id=user_id,
        num_instances=1,
        force_hosts=None,
        force_nodes=None,
        retry=None,
        ignore_hosts=list(leaves),
        requested_destination=Destination(
            cell=CellMapping(uuid=uuid, name=name), allow_cross_cell_move=False, **to
        ),
    )


def grouped(
    request: RequestSpec, group: InstanceGroup, hosts: Iterable[str]
) -> RequestSpec:
    """Return the request with its server group, whose members are on these hosts.

    Nova: scheduler/utils.py, setup_instance_group.
    """
    policies = [group.policy] if group.policy else []
    made = group.replaced(policies=policies, hosts=sorted(hosts))
    return request.replaced(instance_group=made)
