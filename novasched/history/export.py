# SPDX-License-Identifier: Apache-2.0
"""Export of a history: all of it in one file, or one of its requests."""

from __future__ import annotations

import json
import os
import tempfile
import zlib
from collections.abc import Callable, Iterable, Iterator
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
    to, files, requests = to.resolve(), reading.sized_files(path), 0
    if to.exists() and not to.is_file():
        raise ValueError(f'{to} is no file')
    rewritten = _rewriter(files) if is_anonymous else bytes
    descriptor, made = tempfile.mkstemp(dir=to.parent)
    try:
        with os.fdopen(descriptor, 'wb') as written:
            for file in files:  # a gzip stream each: workers are told apart
                compressor = zlib.compressobj(wbits=GZIP)
                for line in _lines([file]):
                    if line.startswith(b'{"request"'):
                        requests += 1
                        progress(requests)
                    written.write(compressor.compress(rewritten(line)))
                written.write(compressor.flush())
        os.replace(made, to)
    except BaseException:
        os.unlink(made)
        raise
    return requests


def _lines(files: Iterable[tuple[Path, int]]) -> Iterator[bytes]:
    for file, size in files:
        for line in Lines(file, end=size):
            yield line + b'\n'


def _rewriter(files: Iterable[tuple[Path, int]]) -> Callable[[bytes], bytes]:
    """Return a function that hashes the names of a line, alike in all these files."""
    names: set[str] = set()
    keeps_addresses = False
    for text in _lines(files):
        keeps_addresses = keeps_addresses or NEAR_HINT.encode() in text
        line = {k: v for k, v in json.loads(text).items() if k not in OF_REQUEST}
        names.update(filter(is_name, names_in(line)))
    anonymiser = Anonymiser(names, keeps_addresses)

    def rewritten(text: bytes) -> bytes:
        line = json.loads(text)
        copied = anonymiser.copied(line)
        if next(iter(line)) == 'history':
            copied |= {'stream': anonymiser.hashed(line['stream']), 'pid': 0}
            copied['novasched'] = line['novasched']
        for name in OF_REQUEST:
            if line.get(name):
                copied[name] = anonymiser.hashed(line[name])
        return text_of([copied])

    return rewritten
