# SPDX-License-Identifier: Apache-2.0
"""A seat that one process of a machine has at a time, as long as it lives.

It is the name of a socket: no file is left behind, and the kernel frees the seat
when its process ends, however it ends.
"""

from __future__ import annotations

import errno
import hashlib
import socket
import weakref


class Seat:
    """A seat with a name; the name is hashed, so it may hold a secret."""

    def __init__(self, name: str) -> None:
        digest = hashlib.sha256(name.encode()).hexdigest()
        self._address = f'\0novasched-{digest[:32]}'
        self._taken = False

    def take(self) -> bool:
        """Take the seat, and keep it; False if another process has it."""
        self._taken = self._taken or self._bind()
        return self._taken

    def _bind(self) -> bool:
        made = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        try:
            made.bind(self._address)
        except OSError as problem:
            made.close()
            if problem.errno != errno.EADDRINUSE:
                raise
            return False
        weakref.finalize(self, made.close)
        return True
