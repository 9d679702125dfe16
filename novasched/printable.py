# SPDX-License-Identifier: Apache-2.0
r"""Texts from outside without control characters and passwords, for terminals and logs.

Controls (C0, DEL, C1, bidirectional), line separators and lone surrogates are shown as
\x1b or \u202e. They could rewrite a screen or forge a line.
"""

from __future__ import annotations

import dataclasses
import logging
import re
from collections.abc import Mapping
from typing import Any, TextIO

CONTROLS = '\0-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069'
_LAYOUT = re.compile(f'[{CONTROLS}\ud800-\udfff]')
"""What layout does not use: newlines and tabs stay."""
_LINE = re.compile(f'[\n{CONTROLS}\ud800-\udfff]')

_UNSTYLED = re.compile(rf'(?!\x1b\[(?:0|1|2|1;31|1;32)m){_LAYOUT.pattern}')
"""The same, but the styles of inspection.texts.lines stay as well."""


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


_CREDENTIALS = re.compile(r'(://[^:/@\s]*):\S*@')
_IN_QUERY = re.compile(r'([?&](?:pass|passwd|pwd)=)[^&\s]*')


def mask(text: str) -> str:
    """Return text without the passwords of URLs and of assignments."""
    from oslo_utils import strutils

    masked = _IN_QUERY.sub(r'\1****', _CREDENTIALS.sub(r'\1:****@', text))
    return strutils.mask_password(masked, '****')


def values(value: Any) -> Any:
    """Return a copy of JSON, or of a dataclass, in which each string is one line."""
    if isinstance(value, str):
        return line(value)
    if isinstance(value, Mapping):
        return {values(name): values(each) for name, each in value.items()}
    if isinstance(value, list | tuple):
        made = [values(each) for each in value]
        if isinstance(value, list):
            return made
        return value._make(made) if hasattr(value, '_make') else tuple(made)
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        found = {
            each.name: values(getattr(value, each.name))
            for each in dataclasses.fields(value)
        }
        return dataclasses.replace(value, **found)
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
    Passwords of URLs are masked. Where a message changes by that, it stands in place of
    its format and arguments, which some formatters show as well.
    """

    def __init__(self, *given: Any, **named: Any) -> None:
        super().__init__(*given, **named)
        try:
            message = super().getMessage()
        except Exception:  # noqa: BLE001  the handler reports what cannot be formatted
            return
        shown = _message(message)
        if shown != message:
            self.msg, self.args = shown, ()

    def __setattr__(self, name: str, value: Any) -> None:
        if isinstance(value, str) and ('://' in value or not value.isprintable()):
            value = self._shown(name, value)
        self.__dict__[name] = value

    @staticmethod
    def _shown(name: str, value: str) -> str:
        if name in AS_GIVEN:
            return value
        return (lines if name in TRACEBACKS else line)(mask(value))

    def getMessage(self) -> str:  # noqa: N802  as logging has it
        return _message(super().getMessage())


def _message(text: str) -> str:
    return line(mask(text) if '://' in text else text)


TRACEBACKS = frozenset({'exc_text', 'stack_info'})
AS_GIVEN = frozenset({'msg', 'color', 'reset_color'})
"""The format of a message, and what handlers of oslo.log set for terminals."""


def in_logs() -> None:
    """Make log records show controls, whatever logs and formats them."""
    logging.setLogRecordFactory(LogRecord)
