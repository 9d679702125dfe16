# SPDX-License-Identifier: Apache-2.0
"""A line of the journal: one byte for its state, then the intent as JSON.

The state is overwritten in place, which needs no room on the disk, and is never half
done.
"""

from __future__ import annotations

import dataclasses
import json
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from novasched.ports import Intent

OPEN, ANSWERING, SETTLED = b'o', b'a', b's'
ROUNDED_S = 0.01
_BOOT_ID = Path('/proc/sys/kernel/random/boot_id')


class Moment(NamedTuple):
    """A time that no clock's change can shift: seconds since a start of the machine.

    ``boot_id`` is None where nobody knows which start it was.
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
    """Return what tells the time."""
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


def parse(content: bytes) -> Iterator[Record]:
    """Yield the records of a file; a line that is not whole was never acted upon."""
    offset = 0
    for line in content.split(b'\n')[:-1]:
        record = _record(line, offset)
        if record is not None:
            yield record
        offset += len(line) + 1


def _record(line: bytes, offset: int) -> Record | None:
    try:
        fields = json.loads(line[1:])
        moment = Moment(fields['boot'], float(fields['uptime']))
        intent = Intent(**{name: fields[name] for name in _FIELDS})
    except (ValueError, KeyError, TypeError):
        return None
    return Record(intent, moment, line[:1], offset)


_FIELDS = [one.name for one in dataclasses.fields(Intent)]
