# SPDX-License-Identifier: Apache-2.0
"""Times as microseconds since 1970, and as ISO 8601."""

from __future__ import annotations

import datetime
import re

SECONDS = '%Y-%m-%dT%H:%M:%SZ'
TIME = '%Y-%m-%dT%H:%M:%S.%fZ'
EXAMPLES = 'such as 90m, 7d or 2026-11-22T12:00Z'
_EPOCH = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)
_US = datetime.timedelta(microseconds=1)
_AGO = re.compile(r'(\d+)([smhdw])')
_UNIT_S = {'s': 1, 'm': 60, 'h': 3600, 'd': 86400, 'w': 604800}


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


def moment(text: str, now_s: float) -> int:
    """Return the time that an age, such as 90m or 7d, or ISO 8601 means, in us since
    1970. Raises as time_at() does."""
    if ago := _AGO.fullmatch(text):
        age = datetime.timedelta(seconds=int(ago[1]) * _UNIT_S[ago[2]])
        text = (datetime.datetime.fromtimestamp(now_s, datetime.UTC) - age).isoformat()
    return time_at(text)
