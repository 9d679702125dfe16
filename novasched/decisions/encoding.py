# SPDX-License-Identifier: Apache-2.0
"""Records as they are written."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

from novasched.decisions import files
from novasched.decisions.comparison import ServerComparison
from novasched.decisions.record import SCHEDULED, DecisionRecord, encode

MOST_KNOWN = 8
"""Host lists and profiles whose encoded form is remembered."""
OBJECTS = 1024
"""Bytes that the objects of a record take beside their content."""
_MOST = 2**63 - 1


@dataclass(frozen=True)
class EncodedRecord:
    """A record as it is written; without a body, lists show it and no more does."""

    id: str
    head: tuple[Any, ...]
    body: bytes | None
    servers: tuple[tuple[str, str], ...]
    host_lists: Mapping[str, bytes]
    profiles: Mapping[str, bytes]
    is_success: bool
    is_reduced: bool
    compared: tuple[tuple[Any, ...], ...] = ()
    whole: bytes | None = None

    @property
    def size(self) -> int:
        """About the bytes of memory that it holds alone: lists and profiles are
        shared."""
        servers = sum(len(uuid) + len(host) for uuid, host in self.servers)
        head = sum(len(value) if isinstance(value, str) else 8 for value in self.head)
        blobs = len(self.body or b'') + len(self.whole or b'')
        return OBJECTS + blobs + servers + head

    @cached_property
    def shared(self) -> Mapping[str, bytes]:
        """Host lists and profiles by hash, which other records may have, too."""
        return {**self.host_lists, **self.profiles}


class RecordEncoder:
    """Encodes records, as far as ``keep`` says; any thread may call it.

    A host list or a profile is encoded once for all records that refer to it.
    """

    def __init__(self, keep: str = files.ALL) -> None:
        self._keep = keep
        self._known: dict[str, bytes] = {}

    def __call__(self, record: DecisionRecord) -> EncodedRecord | None:
        """Return a record as it is written; None if it is not written.

        If its body cannot be encoded, or is not kept, only the head and the servers are
        written; then it cannot wait for a diagnosis.
        """
        if self._keep == files.NONE:
            return None
        is_success = record.head.result == SCHEDULED
        is_kept = not (is_success and self._keep == files.FAILED)
        body: bytes | None = None
        host_lists: Mapping[str, bytes] = {}
        profiles: Mapping[str, bytes] = {}
        if is_kept and not record.body.is_of_head:
            try:
                host_lists = self._encoded(record.host_lists)
                profiles = self._encoded(record.profiles)
                body = encode(record.body)
            except (ValueError, TypeError, OverflowError):  # an odd value of a plugin
                host_lists = profiles = {}
        head = record.head
        if body is None and head.diagnosis:
            head = replace(head, diagnosis='')
        return EncodedRecord(
            id=head.id,
            head=tuple(_storable(getattr(head, name)) for name in files.HEAD),
            body=body,
            servers=tuple(
                (_storable(server.uuid or ''), _storable(server.host or ''))
                for server in record.body.servers
            ),
            host_lists=host_lists,
            profiles=profiles,
            is_success=is_success,
            is_reduced=is_kept and body is None,
            compared=tuple(map(_compared, record.body.shadow or ())),
            whole=record.whole,
        )

    def _encoded(
        self, values: Mapping[str, Sequence[str] | Mapping[str, Any]]
    ) -> dict[str, bytes]:
        """Return the parts that records refer to, by hash."""
        found: dict[str, bytes] = {}
        for key, value in values.items():
            made = self._known.get(key)
            if made is None:
                made = encode(
                    dict(value) if isinstance(value, Mapping) else list(value)
                )
                self._known[key] = made
            found[key] = made
        for oldest in list(self._known)[:-MOST_KNOWN]:
            self._known.pop(oldest, None)
        return found


def _compared(each: ServerComparison) -> tuple[Any, ...]:
    nova = each.nova
    took_ms = None if nova.took_s is None else int(nova.took_s * 1000)
    return tuple(
        value and _storable(value)
        for value in (
            each.server,
            each.verdict,
            each.cause,
            each.detail,
            each.ours,
            nova.host,
            nova.known_by,
            int(nova.seen_s * 1000),
            took_ms,
            ','.join(nova.refused),
            ','.join(each.weighers),
        )
    )


def _storable(value: Any) -> Any:
    """Return a value that SQLite takes: text in Unicode, numbers of 64 bits."""
    if isinstance(value, str):
        return value.encode('utf-8', 'replace').decode()
    return max(-_MOST, min(int(value), _MOST))
