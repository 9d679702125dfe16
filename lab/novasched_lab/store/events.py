# SPDX-License-Identifier: Apache-2.0
"""What happened to an instance: faults, and actions with their events."""

from __future__ import annotations

import datetime
from typing import Any, NamedTuple

import sqlalchemy as sa

from novasched.objects.context import RequestContext
from novasched_lab.db.server_tables import (
    instance_actions,
    instance_actions_events,
    instance_faults,
)

LONGEST = 255


class Fault(NamedTuple):
    """Why an instance failed; ``message`` is what its owner sees."""

    message: str
    details: str = ''
    code: int = 500


def add_fault(
    connection: sa.Connection,
    uuid: str,
    fault: Fault,
    host: str | None,
    now: datetime.datetime,
) -> None:
    """Write a fault; a message that is too long is cut."""
    _add(
        connection,
        instance_faults,
        now,
        instance_uuid=uuid,
        code=fault.code,
        message=fault.message[:LONGEST],
        details=fault.details,
        host=host,
    )


def last_fault(connection: sa.Connection, uuid: str) -> Fault | None:
    """Return the newest fault of an instance; None if it has none."""
    f = instance_faults.c
    row = connection.execute(
        sa.select(f.message, f.details, f.code)
        .where(f.instance_uuid == uuid, f.deleted == 0)
        .order_by(f.id.desc())
    ).first()
    return None if row is None else Fault(row[0] or '', row[1] or '', row[2])


def start_action(
    connection: sa.Connection,
    context: RequestContext,
    uuid: str,
    action: str,
    now: datetime.datetime,
) -> None:
    """Write that a user began to do something to an instance."""
    _add(
        connection,
        instance_actions,
        now,
        instance_uuid=uuid,
        action=action,
        request_id=context.request_id,
        user_id=context.user_id,
        project_id=context.project_id,
        start_time=now,
    )


def add_event(
    connection: sa.Connection,
    uuid: str,
    event: str,
    host: str,
    error: str | None,
    now: datetime.datetime,
) -> bool:
    """Write how a step of the last action of an instance ended; False without one.

    ``error`` None means that it went well; otherwise the action failed with it.
    """
    a = instance_actions.c
    action = connection.execute(
        sa.select(a.id).where(a.instance_uuid == uuid).order_by(a.id.desc())
    ).scalar()
    if action is None:
        return False
    _add(
        connection,
        instance_actions_events,
        now,
        action_id=action,
        event=event,
        host=host,
        start_time=now,
        finish_time=now,
        result='Success' if error is None else 'Error',
        traceback=error,
        details=error,
    )
    ended = {'message': 'Error'} if error is not None else {}
    connection.execute(
        sa.update(instance_actions)
        .where(a.id == action)
        .values(updated_at=now, finish_time=now, **ended)
    )
    return True


def _add(
    connection: sa.Connection, table: sa.Table, now: datetime.datetime, **values: Any
) -> None:
    stamps = {'created_at': now, 'updated_at': now, 'deleted': 0}
    connection.execute(sa.insert(table).values(**stamps, **values))
