# SPDX-License-Identifier: Apache-2.0
r"""Texts from outside without control characters, for terminals and logs.

Controls (C0, DEL, C1), bidirectional controls, separators of lines and lone surrogates
are shown as \x1b or \u202e: they could rewrite a screen or forge a line.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Mapping
from typing import Any, TextIO

CONTROLS = '\0-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069'
_LAYOUT = re.compile(f'[{CONTROLS}\ud800-\udfff]')
"""What layout does not use: newlines and tabs stay."""
_LINE = re.compile(f'[\n{CONTROLS}\ud800-\udfff]')

_UNSTYLED = re.compile(rf'(?!\x1b\[(?:0|1|2|1;31|1;32)m){_LAYOUT.pattern}')
"""The same, but the styles of inspection.text stay as well."""


def _shown(match: re.Match[str]) -> str:
    code = ord(match[0])
    if code == ord('\n'):
        return '\\n'
    return f'\\x{code:02x}' if code < 0x100 else f'\\u{code:04x}'


def line(text: str) -> str:
    """Return text of one line: newlines are shown as well."""
    return text if text.isprintable() else _LINE.sub(_shown, text)


def lines(text: str) -> str:
    """Return text whose newlines are layout."""
    return text if text.isprintable() else _LAYOUT.sub(_shown, text)


def values(value: Any) -> Any:
    """Return a copy of JSON in which each string, names included, is one line."""
    if isinstance(value, str):
        return line(value)
    if isinstance(value, Mapping):
        return {values(name): values(each) for name, each in value.items()}
    if isinstance(value, list | tuple):
        made = [values(each) for each in value]
        if isinstance(value, list):
            return made
        return value._make(made) if hasattr(value, '_make') else tuple(made)
    return value


class Stream:
    """An output that shows controls in all it is given, but our own styles.

    ``unescaped`` is the stream below, for what moves the cursor of a terminal.
    """

    def __init__(self, unescaped: TextIO) -> None:
        self.unescaped = unescaped

    def write(self, text: str) -> int:
        """Write text; DEL, which valid JSON may hold, as JSON escapes it."""
        shown = text
        if not text.isprintable():
            shown = _UNSTYLED.sub(_shown, text.replace('\x7f', '\\u007f'))
        self.unescaped.write(shown)
        return len(text)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.unescaped, name)


def unescaped(stream: Any) -> Any:
    """Return the stream below, for what moves the cursor of a terminal."""
    return stream.unescaped if isinstance(stream, Stream) else stream


class LogRecord(logging.LogRecord):
    """A record of which formatters get texts of one line, and tracebacks of many.

    They set what they add to it, such as names of a request's context, as attributes.
    """

    def __setattr__(self, name: str, value: Any) -> None:
        if isinstance(value, str) and not value.isprintable() and name not in STYLING:
            value = (lines if name in TRACEBACKS else line)(value)
        object.__setattr__(self, name, value)

    def getMessage(self) -> str:  # noqa: N802  as logging has it
        return line(super().getMessage())


TRACEBACKS = frozenset({'exc_text', 'stack_info'})
STYLING = frozenset({'color', 'reset_color'})
"""Attributes that handlers of oslo.log set for terminals."""


def in_logs() -> None:
    """Make log records show controls, whatever logs and formats them."""
    logging.setLogRecordFactory(LogRecord)
