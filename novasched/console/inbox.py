# SPDX-License-Identifier: Apache-2.0
"""What a client has sent: collected until a request is whole, then read by a thread.

Every request is framed here, by its own Content-Length alone: what another server in
front may have framed otherwise is refused.
"""

from __future__ import annotations

import re
from http import HTTPStatus

MOST_HEAD = 16 * 1024
MOST_BODY = 16 * 1024
END = b'\r\n\r\n'
A_LENGTH = re.compile(rb'[0-9]{1,18}')
BODILESS = (b'GET ', b'HEAD ')


class Inbox:
    """Bytes of a connection. A reader gets those of one whole request at a time."""

    def __init__(self) -> None:
        self._content = bytearray()
        self._released = 0
        self.refusal: HTTPStatus | None = None
        """Why the request that is released cannot be framed."""

    @property
    def is_begun(self) -> bool:
        return bool(self._content)

    def add(self, content: bytes) -> None:
        self._content += content

    def release(self) -> bool:
        """Give the next request to the reader if it is whole, or can be refused."""
        end = self._content.find(END, 0, MOST_HEAD + len(END))
        if end < 0:
            # A head that is too long is for the reader to refuse.
            is_refused = len(self._content) > MOST_HEAD
            self._released = len(self._content) if is_refused else 0
            return is_refused
        head = bytes(self._content[:end])
        length = body_length(head)
        end += len(END)
        if isinstance(length, HTTPStatus):
            self.refusal = length
        elif length <= MOST_BODY:  # else refused by the reader
            end += length
        if len(self._content) < end:
            return False
        self._released = end
        return True

    def recv_into(self, buffer: memoryview) -> int:
        """Fill a buffer with what is released; 0: there is no more."""
        count = min(len(buffer), self._released)
        buffer[:count] = self._content[:count]
        del self._content[:count]
        self._released -= count
        return count


def body_length(head: bytes) -> int | HTTPStatus:
    """Return the length of the body behind a head, or why it has none that is certain.

    Two servers may see two requests in what is refused here. A body of GET is of no
    use, and no browser sends a form in chunks.
    """
    first, *lines = head.lstrip(b'\r\n').split(b'\r\n')
    lengths, is_chunked = [], False
    for line in lines:
        name, _, value = line.partition(b':')
        if name != name.strip() or b'\n' in line or b'\r' in line:
            return HTTPStatus.BAD_REQUEST
        if name.lower() == b'content-length':
            lengths.append(value.strip())
        elif name.lower() == b'transfer-encoding':
            is_chunked = True
    if is_chunked:
        return HTTPStatus.BAD_REQUEST if lengths else HTTPStatus.LENGTH_REQUIRED
    if not lengths:
        return 0
    if len(lengths) > 1 or not A_LENGTH.fullmatch(lengths[0]):
        return HTTPStatus.BAD_REQUEST
    length = int(lengths[0])
    return HTTPStatus.BAD_REQUEST if length and first.startswith(BODILESS) else length
