# SPDX-License-Identifier: Apache-2.0
"""A line of the journal: one byte for its state, then the intent as JSON.

The state is overwritten in place, which needs no room on the disk, and is never half
done.
"""

from __future__ import annotations

import json
import math
import re
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from types import NoneType
from typing import Any, NamedTuple

from novasched.ports import Intent

OPEN, ANSWERING, SETTLED = b'o', b'a', b's'
ROUNDED_S = 0.01
_BOOT_ID = Path('/proc/sys/kernel/random/boot_id')


class Moment(NamedTuple):
    """A time that no clock's change can shift: seconds since a start of the machine.

    ``boot_id`` is None where the start is not known.
    """

    boot_id: str | None
    uptime_s: float

    def since(self, earlier: Moment) -> float | None:
        """Return the seconds between two moments; None: there was a start between, or
        a container with a clock of its own."""
        if self.boot_id is None or self.boot_id != earlier.boot_id:
            return None
        seconds = self.uptime_s - earlier.uptime_s
        return None if seconds < -ROUNDED_S else seconds


def name_of_this_boot(path: Path = _BOOT_ID) -> str | None:
    """Return what names this start of the machine, to all its containers."""
    try:
        return path.read_text().strip()
    except OSError:
        return None


def clock_of_this_boot(path: Path = _BOOT_ID) -> Callable[[], Moment]:
    """Return a function that reads both clocks."""
    boot_id = name_of_this_boot(path)
    return lambda: Moment(boot_id, time.clock_gettime(time.CLOCK_BOOTTIME))


@dataclass(frozen=True)
class Record:
    """An intent, when it was written, and where its state is in the file."""

    intent: Intent
    written: Moment
    state: bytes = OPEN
    offset: int = 0

    def line(self) -> bytes:
        """Return what is written down."""
        fields = {**vars(self.intent), 'boot': self.written.boot_id}
        fields['uptime'] = round(self.written.uptime_s, 3)
        return self.state + json.dumps(fields).encode() + b'\n'

    def holds(self) -> dict[str, dict[str, int]]:
        """Return what the consumer holds once it is claimed: what it held already
        stays as it is."""
        before: Any = (self.intent.before or {}).get('allocations', {})
        held = {provider: dict(part['resources']) for provider, part in before.items()}
        wanted = self.intent.allocations
        return {**{name: dict(part) for name, part in wanted.items()}, **held}

    def added(self) -> list[str]:
        """Return the providers of which the consumer held nothing before."""
        before = (self.intent.before or {}).get('allocations', {})
        return sorted(set(self.intent.allocations) - set(before))


class Content(NamedTuple):
    """The lines of a file; ``odd`` is the number of those that cannot be read."""

    records: list[Record]
    odd: int


def parse(content: bytes) -> Content:
    """Read the lines of a file.

    A last line without an end was never acted upon, nor must a settled one be.
    """
    records, odd, offset = [], 0, 0
    for line in content.split(b'\n')[:-1]:
        try:
            records.append(_record(line, offset))
        except _ODD:
            odd += line[:1] != SETTLED
        offset += len(line) + 1
    return Content(records, odd)


_ODD = (ValueError, KeyError, TypeError, OverflowError, RecursionError)
_STATES = (OPEN, ANSWERING, SETTLED)
_UUID = re.compile('[0-9A-Za-z-]+')
"""Of consumers and providers, which become part of a URL, and of a command."""


def _record(line: bytes, offset: int) -> Record:
    """Read a line in full; fields of a newer version are ignored."""
    state, fields = line[:1], _of_type(json.loads(line[1:].decode()), dict)
    if state not in _STATES:
        raise ValueError('a state of another version')
    within_s = fields.get('undo_within_s')
    intent = Intent(
        _of_type(fields['request_id'], str, NoneType),
        _uuid(fields['consumer_uuid']),
        _of_type(fields['project_id'], str, NoneType),
        _amounts(fields['allocations']),
        _before(fields['before']),
        _of_type(fields['generation'], int, NoneType),
        None if within_s is None else _seconds(within_s),
    )
    boot_id = _of_type(fields['boot'], str, NoneType)
    return Record(intent, Moment(boot_id, _seconds(fields['uptime'])), state, offset)


def _of_type(found: Any, *types: type) -> Any:
    """Return it if it is of such a type; a bool is no number."""
    if type(found) not in types:
        raise TypeError(f'{type(found).__name__} is none of {types}')
    return found


def _uuid(found: Any) -> str:
    if not _UUID.fullmatch(found):
        raise ValueError('no uuid')
    return str(found)


def _seconds(found: Any) -> float:
    if not math.isfinite(_of_type(found, int, float)):
        raise ValueError('no time')
    return float(found)


def _amounts(found: Any) -> dict[str, dict[str, int]]:
    return {
        _uuid(provider): {
            name: _of_type(amount, int) for name, amount in _of_type(part, dict).items()
        }
        for provider, part in _of_type(found, dict).items()
    }


def _before(found: Any) -> dict[str, Any] | None:
    if found is None:
        return None
    held = _amounts(
        {
            provider: _of_type(part, dict)['resources']
            for provider, part in _of_type(found['allocations'], dict).items()
        }
    )
    before: dict[str, Any] = {
        name: _of_type(found[name], str, NoneType)
        for name in ('project_id', 'user_id')
        if name in found
    }
    before['allocations'] = {name: {'resources': held[name]} for name in held}
    return before
