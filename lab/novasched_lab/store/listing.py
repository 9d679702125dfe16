# SPDX-License-Identifier: Apache-2.0
"""Instances as people look at them: what they are, why they failed, what was done."""

from __future__ import annotations

import datetime
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import sqlalchemy as sa

from novasched.db.tables import instances
from novasched_lab.db.server_tables import (
    instance_actions,
    instance_actions_events,
    instance_faults,
    instance_mappings,
    migrations,
)
from novasched_lab.store.events import Fault
from novasched_lab.store.instances import CHUNK

_i = instances.c


class Row(NamedTuple):
    """A live instance of a cell."""

    uuid: str
    name: str | None
    vm_state: str | None
    task_state: str | None
    host: str | None
    node: str | None
    zone: str | None
    project_id: str | None
    created_at: datetime.datetime | None
    launched_at: datetime.datetime | None


class Event(NamedTuple):
    """A step of an action; ``result`` is Success or Error."""

    event: str | None
    result: str | None
    host: str | None
    finished_at: datetime.datetime | None


class Done(NamedTuple):
    """Something that was done to an instance; ``message`` is Error if it failed."""

    action: str | None
    started_at: datetime.datetime | None
    finished_at: datetime.datetime | None
    message: str | None
    events: tuple[Event, ...]


_COLUMNS = (
    _i.uuid,
    _i.display_name,
    _i.vm_state,
    _i.task_state,
    _i.host,
    _i.node,
    _i.availability_zone,
    _i.project_id,
    _i.created_at,
    _i.launched_at,
)


def live(
    connection: sa.Connection, uuids: Sequence[str] | None = None
) -> dict[str, Row]:
    """Return the live instances of a cell, or some of them, by uuid; by age."""
    query = sa.select(*_COLUMNS).where(_i.deleted == 0).order_by(_i.id)
    if uuids is None:
        return {row[0]: Row._make(row) for row in connection.execute(query)}
    return {
        row[0]: Row._make(row)
        for part in _parts(uuids)
        for row in connection.execute(query.where(_i.uuid.in_(part)))
    }


def faults(connection: sa.Connection, uuids: Sequence[str]) -> dict[str, Fault]:
    """Return the newest fault of each instance that has one."""
    f = instance_faults.c
    query = sa.select(f.instance_uuid, f.message, f.details, f.code).order_by(f.id)
    return {
        uuid: Fault(message or '', details or '', code)
        for part in _parts(uuids)
        for uuid, message, details, code in connection.execute(
            query.where(f.instance_uuid.in_(part), f.deleted == 0)
        )
    }


def history(connection: sa.Connection, uuid: str) -> list[Done]:
    """Return what was done to an instance, the oldest first."""
    a, e = instance_actions.c, instance_actions_events.c
    actions = connection.execute(
        sa.select(a.id, a.action, a.start_time, a.finish_time, a.message)
        .where(a.instance_uuid == uuid)
        .order_by(a.id)
    ).all()
    events: dict[int, list[Event]] = {}
    query = sa.select(e.action_id, e.event, e.result, e.host, e.finish_time)
    for part in _parts([row[0] for row in actions]):
        found = query.where(e.action_id.in_(part)).order_by(e.id)
        for id_, *rest in connection.execute(found):
            events.setdefault(id_, []).append(Event._make(rest))
    return [Done(*row[1:], tuple(events.get(row[0], ()))) for row in actions]


def moves(connection: sa.Connection, uuid: str) -> list[Mapping[str, Any]]:
    """Return the moves of an instance, the oldest first."""
    m = migrations.c
    columns = (
        m.uuid,
        m.migration_type,
        m.status,
        m.source_compute,
        m.dest_compute,
        m.updated_at,
    )
    query = sa.select(*columns).where(m.instance_uuid == uuid, m.deleted == 0)
    rows = connection.execute(query.order_by(m.id)).mappings()
    return [{str(key): value for key, value in row.items()} for row in rows]


def mapped(uuids: Sequence[str]) -> Iterator[sa.ColumnElement[bool]]:
    """Yield conditions that together find the mappings of these instances."""
    for part in _parts(uuids):
        yield instance_mappings.c.instance_uuid.in_(part)


def _parts(values: Sequence[Any]) -> Iterator[Sequence[Any]]:
    for start in range(0, len(values), CHUNK):
        yield values[start : start + CHUNK]
