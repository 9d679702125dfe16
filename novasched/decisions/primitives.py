# SPDX-License-Identifier: Apache-2.0
"""Decisions as they travel between machines: as primitives."""

from __future__ import annotations

import base64
import socket
from collections.abc import Mapping
from dataclasses import asdict, fields
from pathlib import Path
from typing import Any

from novasched import errors
from novasched.decisions.body import body_of
from novasched.decisions.reading import MOST_ROWS, Criteria
from novasched.decisions.record import (
    DecisionRecord,
    Head,
    decode,
    encode,
)

_TIMES = ('since', 'until')
_CRITERIA = {
    **dict.fromkeys((field.name for field in fields(Criteria)), str),
    **dict.fromkeys(_TIMES, int),
    'differs': bool,
}
_HEAD = {field.name for field in fields(Head)}


def origin_of(directory: Path | None, process: str) -> str:
    """Return the id of a log among the logs of all machines.

    A log in memory belongs to one process alone.
    """
    return f'{socket.gethostname()}:{directory or process}'


def criteria_of(found: Any) -> Criteria:
    """Return criteria that have travelled. Raises errors.InvalidRequest."""
    if found is not None and not isinstance(found, dict):
        raise errors.InvalidRequest('criteria are no map')
    for name, value in (found or {}).items():
        kind = _CRITERIA.get(name)
        is_known = kind is not None and type(value) is kind
        if not is_known or (kind is int and not 0 <= value <= MOST_ROWS):
            raise errors.InvalidRequest(f'there is no criterion {name} = {value!r}')
    return Criteria(**(found or {}))


def primitive_of(criteria: Criteria) -> dict[str, Any]:
    """Return criteria as they travel."""
    return {name: v for name, v in asdict(criteria).items() if v is not None}


def head_of(found: Mapping[str, Any]) -> Head:
    """Return a head that has travelled; a later release may know more of it."""
    return Head(**{name: value for name, value in found.items() if name in _HEAD})


def packed(record: DecisionRecord) -> str:
    """Return a record as text: bytes do not travel."""
    return base64.b64encode(encode(record.to_primitive())).decode('ascii')


def unpacked(text: str) -> DecisionRecord:
    """Return a record that has travelled. Raises ValueError."""
    try:
        found = decode(base64.b64decode(text))
        return DecisionRecord(
            head_of(found['head']),
            body_of(decode(found['body'])),
            found['host_lists'],
            found['profiles'],
        )
    except (KeyError, TypeError) as problem:
        raise ValueError(f'not a record: {problem!r}') from problem
