# SPDX-License-Identifier: Apache-2.0
"""The record of one request: its head, which lists show, and its body.

docs/reference/decisions.md has every field.
"""

from __future__ import annotations

import zlib
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, NamedTuple

import msgpack  # type: ignore[import-untyped]

from novasched.decisions.body import RecordBody
from novasched.runtime.typed_json import as_map

SCHEDULED, UNSCHEDULABLE, ERROR = 'scheduled', 'unschedulable', 'error'
"""Results of requests."""
WAITING, MADE = 'waiting', 'made'
"""States of the placement diagnosis of a record; '' is none."""
DIAGNOSED_WITHIN_S = 3600.0
"""How long a record waits for a placement diagnosis."""
ALPHABET = '0123456789abcdefghjkmnpqrstvwxyz'
"""Base32 of Crockford, in lower case: no i, l, o, u."""
EPOCH_MS = 1_577_836_800_000
"""2020-01-01, from which ids count."""
ID_LENGTH = 15
LEVEL = 1
"""Of compression: the fastest."""
LONG_OUTCOMES = 4096
"""Bytes of outcomes, one for each host, that are worth a part of the stream."""
HEADER, WINDOW = b'\x78\x01', 1 << zlib.MAX_WBITS
"""How a stream of zlib begins, at that level, and how far back it refers."""


def new_id(time_s: float, chance: int) -> str:
    """Return the id of a record made at a time since 1970; ``chance`` has 24 bits.

    Ids sort by time.
    """
    number = (max(0, int(time_s * 1000) - EPOCH_MS) % (1 << 41)) << 24 | chance
    letters = [ALPHABET[number >> shift & 31] for shift in range(60, -1, -5)]
    return 'd-' + ''.join(letters)


def time_of_id(id: str) -> int:
    """Return when a record was made, in us since 1970, by its whole id. Raises
    ValueError."""
    number = 0
    for letter in id.removeprefix('d-'):
        number = number << 5 | ALPHABET.index(letter)
    return ((number >> 24) + EPOCH_MS) * 1000


@dataclass(frozen=True)
class Head:
    """The columns of a record: lists show them, and records are found by them."""

    id: str
    at: int  # in microseconds since 1970
    request_id: str = ''
    global_request_id: str = ''
    project_id: str = ''
    user_id: str = ''
    flavor: str = ''
    zone: str = ''
    result: str = ''  # scheduled, unschedulable or error
    blocker: str = ''
    plugin: str = ''
    code: str = ''  # blocker, plugin and code say why a request was not scheduled
    hosts: int = 0  # how many are known
    candidates: int = -1  # how many placement offered; -1 if it was not asked
    servers: int = 1
    took_us: int = 0
    worker: str = ''  # host:pid
    diagnosis: str = ''  # empty for none, else waiting or made

    @property
    def why(self) -> str:
        """The reason why there is no host; empty if there is one."""
        is_scheduled = self.result == SCHEDULED
        return '' if is_scheduled else self.code or self.plugin or self.blocker


class Servers(NamedTuple):
    """The servers of a decision, and the hosts that were picked for them, each once;
    both in the order of the request."""

    uuids: Sequence[str] = ()
    hosts: Sequence[str] = ()


@dataclass(frozen=True)
class DecisionRecord:
    """A record with all that it refers to."""

    head: Head
    body: RecordBody = field(default_factory=RecordBody)
    host_lists: Mapping[str, Sequence[str]] = field(default_factory=dict)
    """Names of hosts by the hash in decisions; each list is written once to a file."""
    profiles: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    """What the operator chose, by the hash in the body; likewise."""
    whole: bytes | None = None
    """The whole request, as history.encoded() makes it; it does not travel."""

    @property
    def profile(self) -> Mapping[str, Any] | None:
        """What the operator had chosen; None if it is not kept."""
        return self.profiles.get(self.body.profile)

    def to_primitive(self) -> dict[str, Any]:
        """Return the record as it travels between schedulers."""
        body: Any = self.body
        if self.body.is_of_head:  # schedulers of before look for what is missing
            body = {'servers': self.body.servers}
            if self.body.shadow is not None:
                body['shadow'] = self.body.shadow
        made = {**vars(self), 'head': asdict(self.head), 'body': encode(body)}
        del made['whole']
        return made


def pack(value: Any) -> bytes:
    """Return a value as bytes that are not compressed; what is no Unicode is replaced.

    Raises ValueError, TypeError and OverflowError for what plugins may have made.
    """
    packed: bytes = msgpack.packb(
        value, default=as_map, use_single_float=True, unicode_errors='replace'
    )
    return packed


def encode(value: Any) -> bytes:
    """Return a body, or whatever else is kept, as bytes: one stream of zlib."""
    packed, outcomes = pack(value), _outcomes(value)
    if len(outcomes) < LONG_OUTCOMES:
        return zlib.compress(packed, LEVEL)
    start = packed.index(outcomes)
    return _compressed(packed, start, start + len(outcomes))


def _outcomes(value: Any) -> bytes:
    """Return the outcomes of the first decision of a body."""
    decisions = value.whole_decisions if isinstance(value, RecordBody) else ()
    return next((made.outcomes for made in decisions), b'')


def _compressed(packed: bytes, start: int, end: int) -> bytes:
    """Return bytes as zlib compresses them, but as runs alone from start to end.

    There its search for repetitions takes more bytes than it saves. What comes after
    still refers to all that came before.
    """
    made = [HEADER]
    for first, last, strategy, flush in (
        (0, start, zlib.Z_DEFAULT_STRATEGY, zlib.Z_SYNC_FLUSH),
        (start, end, zlib.Z_RLE, zlib.Z_SYNC_FLUSH),
        (end, len(packed), zlib.Z_DEFAULT_STRATEGY, zlib.Z_FINISH),
    ):
        stream = zlib.compressobj(
            LEVEL,
            wbits=-zlib.MAX_WBITS,
            strategy=strategy,
            zdict=packed[max(0, first - WINDOW) : first],
        )
        made += [stream.compress(packed[first:last]), stream.flush(flush)]
    return b''.join([*made, zlib.adler32(packed).to_bytes(4, 'big')])


def decode(encoded: bytes) -> Any:
    """Decode. Raises ValueError."""
    try:
        return msgpack.unpackb(zlib.decompress(encoded), strict_map_key=False)
    except (zlib.error, msgpack.UnpackException) as problem:
        raise ValueError(f'not a record: {problem}') from problem
