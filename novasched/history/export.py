# SPDX-License-Identifier: Apache-2.0
"""Export of a history: all of it in one file, or one of its requests."""

from __future__ import annotations

import json
import os
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path

from novasched.decisions.anonymous import NEAR_HINT, Anonymiser, is_name, names_in
from novasched.decisions.history import Document
from novasched.history import reading
from novasched.history.encoding import text_of
from novasched.history.files import GZIP
from novasched.history.reading import Lines, RecordedRequest

OF_REQUEST = ('id', 'request_id')
"""Names that stand in one line only: they are not remembered."""


def request(path: Path, name: str) -> Document | None:
    """Return the first request that was decided of a name: the id of the decision or of
    the request, or a server. Raises as reading.read() does."""
    for item in reading.read(path):
        if isinstance(item, RecordedRequest) and item.is_decided:
            names = [item.line['id'], item.line['request_id']]
            if name in (*names, *(item.instance_uuids or ())):
                return item.document()
    return None


def export(
    path: Path, to: Path, is_anonymous: bool, progress: Callable[[int], None]
) -> int:
    """Write all lines of a history into one file; return the number of requests.

    ``progress`` gets the number of each. The end of a torn file is left out. Raises
    OSError, and ValueError for what is no history.
    """
    rewritten = _anonymous_lines(path) if is_anonymous else _lines(path)
    compressor = zlib.compressobj(wbits=GZIP)
    requests = 0
    descriptor = os.open(to, os.O_CREAT | os.O_TRUNC | os.O_WRONLY, 0o600)
    with os.fdopen(descriptor, 'wb') as file:
        for line in rewritten:
            if line.startswith(b'{"request"'):
                requests += 1
                progress(requests)
            file.write(compressor.compress(line))
        file.write(compressor.flush())
    return requests


def _lines(path: Path) -> Iterator[bytes]:
    for file in reading.files_of(path):
        for line in Lines(file):
            yield line + b'\n'


def _anonymous_lines(path: Path) -> Iterator[bytes]:
    """Yield the lines with names hashed, the same all over the history: it is read
    twice."""
    names: set[str] = set()
    keeps_addresses = False
    for text in _lines(path):
        keeps_addresses = keeps_addresses or NEAR_HINT.encode() in text
        line = {k: v for k, v in json.loads(text).items() if k not in OF_REQUEST}
        names.update(filter(is_name, names_in(line)))
    anonymiser = Anonymiser(names, keeps_addresses)
    for text in _lines(path):
        line = json.loads(text)
        copied = anonymiser.copied(line)
        if next(iter(line)) == 'history':
            copied |= {'stream': anonymiser.hashed(line['stream']), 'pid': 0}
            copied['novasched'] = line['novasched']
        for name in OF_REQUEST:
            if line.get(name):
                copied[name] = anonymiser.hashed(line[name])
        yield text_of([copied])
