# SPDX-License-Identifier: Apache-2.0
"""Times as microseconds since 1970, and as ISO 8601."""

from __future__ import annotations

import datetime

SECONDS = '%Y-%m-%dT%H:%M:%SZ'
TIME = '%Y-%m-%dT%H:%M:%S.%fZ'
_EPOCH = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)
_US = datetime.timedelta(microseconds=1)


def time_of(at_us: int, form: str = SECONDS) -> str:
    """Return microseconds since 1970 as text, in UTC."""
    return (_EPOCH + at_us * _US).strftime(form)


def time_at(text: str) -> int:
    """Return microseconds since 1970 of ISO 8601; without a zone it is UTC. Raises
    ValueError, and OverflowError for what is before the calendar."""
    found = datetime.datetime.fromisoformat(text)
    if found.tzinfo is None:
        found = found.replace(tzinfo=datetime.UTC)
    return (found.astimezone(datetime.UTC) - _EPOCH) // _US
