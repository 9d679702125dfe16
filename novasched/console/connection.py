# SPDX-License-Identifier: Apache-2.0
"""A client of the console: what it has sent, and what it has not read yet.

Every request is framed here, by its own Content-Length alone: what another server in
front may have framed otherwise is refused.
"""

from __future__ import annotations

import contextlib
import re
import socket
from http import HTTPStatus
from typing import Any

from novasched.runtime.clock import SYSTEM_CLOCK

MOST_HEAD = 16 * 1024
MOST_BODY = 16 * 1024
MOST_DISCARDED = 1024 * 1024
"""Bytes that are read of a client after its last answer."""
PIECE = 256 * 1024
"""Bytes that a connection is sent before it is the turn of others."""
CLIENT_S = 10
"""How long a client may take to begin a request, and to read an answer."""
REQUEST_S = 2
"""How long a client may take from the first byte of a request to its last."""
END = b'\r\n\r\n'
A_LENGTH = re.compile(rb'[0-9]{1,18}')
BODILESS = (b'GET ', b'HEAD ')


class Inbox(bytearray):
    """Bytes of a connection, from which one request at a time is taken."""

    refusal: HTTPStatus | None = None
    """Why the request that was taken cannot be framed."""

    def take(self) -> bytes:
        """Remove and return the next request; empty: it is not whole yet.

        Of one that is too long, or cannot be framed, its head is enough to refuse it.
        """
        end = self.find(END, 0, MOST_HEAD + len(END))
        if end < 0:
            if len(self) <= MOST_HEAD:
                return b''
            end = len(self)
        else:
            length = body_length(bytes(self[:end]))
            end += len(END)
            if isinstance(length, HTTPStatus):
                self.refusal = length
            elif length <= MOST_BODY:
                end += length
        if len(self) < end:
            return b''
        request = bytes(self[:end])
        del self[:end]
        return request


class Connection:
    """A client. It belongs to one thread at a time."""

    def __init__(self, sock: Any, client: Any) -> None:
        sock.setblocking(False)
        self.socket = sock
        self.client = client
        """Its address and port; a unix socket has none."""
        self.inbox = Inbox()
        self.request = b''
        self.events = 0
        self.to_discard = 0
        self.give(b'')

    @property
    def address(self) -> str:
        return str(self.client[0]) if self.client else ''

    def give(self, answer: bytes, is_last: bool = False) -> None:
        """Let the client read; after the last answer its connection ends."""
        self.answer, self.sent, self.is_last = answer, 0, is_last
        self.deadline_s = SYSTEM_CLOCK.monotonic() + CLIENT_S

    def send(self) -> bool:
        """Send what the client takes; return whether it has all. Raises OSError."""
        piece = memoryview(self.answer)[self.sent : self.sent + PIECE]
        with contextlib.suppress(BlockingIOError):
            self.sent += self.socket.send(piece)
        if self.sent < len(self.answer):
            return False
        self.give(b'', self.is_last)
        return True

    def end(self) -> None:
        """Say that no more will come. Raises OSError.

        What the client still sends must be read: the system would take what it has not
        read yet from it.
        """
        self.to_discard = MOST_DISCARDED
        self.deadline_s = SYSTEM_CLOCK.monotonic() + REQUEST_S
        socket.socket.shutdown(self.socket, socket.SHUT_WR)

    def discard(self) -> None:
        """Read what is not wanted, until the client ends or nothing is there. Raises
        OSError, also when the connection may be closed."""
        while self.to_discard > 0:
            content = self.socket.recv(MOST_HEAD)
            if not content:
                break
            self.to_discard -= len(content)
        raise ConnectionResetError

    def receive(self) -> None:
        """Read what is there. Raises OSError, also when the client has ended."""
        content = self.socket.recv(MOST_HEAD)
        if not content:
            raise ConnectionResetError
        if not self.inbox:
            self.deadline_s = SYSTEM_CLOCK.monotonic() + REQUEST_S
        self.inbox += content


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
