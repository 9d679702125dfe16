# SPDX-License-Identifier: Apache-2.0
"""What the API leaves behind of instances that are asked for, until they are built."""

from __future__ import annotations

import datetime
import json
from collections.abc import Sequence
from typing import NamedTuple

import sqlalchemy as sa

from novasched.db.tables import cell_mappings
from novasched.objects.base import parse
from novasched.objects.instance import Instance
from novasched.objects.request_spec import RequestSpec
from novasched_lab.db.server_tables import (
    build_requests,
    instance_mappings,
    request_specs,
)

NOT_KEPT = (
    'retry',
    'requested_destination',
    'requested_resources',
    'ignore_hosts',
    'network_metadata',
    'requested_networks',
    'request_level_params',
)
"""Fields of a request that hold for one attempt only."""


class Mapping(NamedTuple):
    """Where an instance is; ``cell_uuid`` is None until it is known."""

    instance_uuid: str
    cell_uuid: str | None
    project_id: str


_ID = instance_mappings.c.id
_MAPPING = (
    instance_mappings.c.instance_uuid,
    cell_mappings.c.uuid,
    instance_mappings.c.project_id,
)
_MAPPED = instance_mappings.outerjoin(
    cell_mappings, instance_mappings.c.cell_id == cell_mappings.c.id
)


def add(
    connection: sa.Connection,
    instance: Instance,
    request: RequestSpec,
    now: datetime.datetime,
) -> None:
    """Write that an instance is asked for, and that no cell has it yet."""
    uuid, project = instance.uuid, instance.project_id or ''
    connection.execute(
        sa.insert(build_requests).values(
            created_at=now,
            instance_uuid=uuid,
            project_id=project,
            instance=json.dumps(instance.obj_to_primitive()),
        )
    )
    connection.execute(
        sa.insert(instance_mappings).values(
            created_at=now,
            instance_uuid=uuid,
            project_id=project,
            user_id=instance.user_id,
            queued_for_delete=False,
        )
    )
    connection.execute(
        sa.insert(request_specs).values(
            created_at=now, instance_uuid=uuid, spec=spec_text(request)
        )
    )


def spec_text(request: RequestSpec) -> str:
    """Return a request as it is kept: without what holds for one attempt only."""
    kept = request.obj_clone()
    for name in NOT_KEPT:
        kept.__dict__.pop(f'_obj_{name}', None)
    group = kept.instance_group if 'instance_group' in kept else None
    if group is not None:
        group.members, group.hosts = None, None
    kept.obj_reset_changes(recursive=True)
    return json.dumps(kept.obj_to_primitive())


def has_build(connection: sa.Connection, uuid: str) -> bool:
    """Say whether an instance is still asked for: its owner may have deleted it."""
    b = build_requests.c
    query = sa.select(b.id).where(b.instance_uuid == uuid)
    return connection.execute(query).first() is not None


def waiting(
    connection: sa.Connection, before: datetime.datetime | None = None
) -> list[Instance]:
    """Return the instances that are asked for, or those since before some time."""
    b = build_requests.c
    query = sa.select(b.instance).where(b.instance.is_not(None)).order_by(b.id)
    if before is not None:
        query = query.where(b.created_at < before)
    found = [parse(json.loads(text)) for text in connection.execute(query).scalars()]
    return [each for each in found if isinstance(each, Instance)]


def delete_build(connection: sa.Connection, uuid: str) -> bool:
    """Take a build request away; False if somebody did it before."""
    gone = sa.delete(build_requests).where(build_requests.c.instance_uuid == uuid)
    return bool(connection.execute(gone).rowcount)


def delete_spec(connection: sa.Connection, uuid: str) -> None:
    """Take away the request that an instance was made by."""
    gone = sa.delete(request_specs).where(request_specs.c.instance_uuid == uuid)
    connection.execute(gone)


def spec(connection: sa.Connection, uuid: str) -> RequestSpec | None:
    """Return the request that an instance was made by; None if it is not kept."""
    r = request_specs.c
    text = connection.execute(sa.select(r.spec).where(r.instance_uuid == uuid)).scalar()
    found = None if text is None else parse(json.loads(text))
    return found if isinstance(found, RequestSpec) else None


def map_to_cell(
    connection: sa.Connection, uuid: str, cell_uuid: str, now: datetime.datetime
) -> bool:
    """Write which cell has an instance; False if it has no mapping any more."""
    c = cell_mappings.c
    cell = sa.select(c.id).where(c.uuid == cell_uuid).scalar_subquery()
    change = sa.update(instance_mappings).where(
        instance_mappings.c.instance_uuid == uuid
    )
    return bool(
        connection.execute(change.values(cell_id=cell, updated_at=now)).rowcount
    )


def unmap(
    connection: sa.Connection, uuid: str, *conditions: sa.ColumnElement[bool]
) -> None:
    """Take away the mapping of an instance, if it meets all conditions."""
    m = instance_mappings.c
    gone = sa.delete(instance_mappings).where(m.instance_uuid == uuid, *conditions)
    connection.execute(gone)


def mappings(
    connection: sa.Connection, *conditions: sa.ColumnElement[bool]
) -> Sequence[Mapping]:
    """Return the mappings that meet all conditions, the oldest first."""
    query = sa.select(*_MAPPING).select_from(_MAPPED).where(*conditions)
    return [Mapping._make(row) for row in connection.execute(query.order_by(_ID))]


def with_builds(
    connection: sa.Connection, *conditions: sa.ColumnElement[bool]
) -> list[tuple[Mapping, Instance | None]]:
    """Return mappings, each with what is asked for while no cell has it.

    A conductor maps an instance to its cell, and then takes its build request away. One
    statement sees one of the two in any case; two might see neither.
    """
    b = build_requests.c
    joined = _MAPPED.outerjoin(
        build_requests, b.instance_uuid == instance_mappings.c.instance_uuid
    )
    query = sa.select(*_MAPPING, b.instance).select_from(joined).where(*conditions)
    found = []
    for *mapping, text in connection.execute(query.order_by(_ID)):
        mapped = Mapping._make(mapping)
        wanted = None
        if mapped.cell_uuid is None and text is not None:
            wanted = parse(json.loads(text))
        found.append((mapped, wanted if isinstance(wanted, Instance) else None))
    return found
