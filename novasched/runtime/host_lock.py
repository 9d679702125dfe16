# SPDX-License-Identifier: Apache-2.0
"""Host-wide lock, for one worker to run a task."""

from __future__ import annotations

import errno
import hashlib
import socket
import weakref


class HostLock:
    """Host-wide lock, held by one process until it ends, however it ends.

    It is the name of an abstract socket: no file is left behind, and the kernel
    releases it. File locks of oslo.concurrency and fasteners need a directory that all
    users can write, and leave files that others may not open. The name is hashed, so
    may be secret.
    """

    def __init__(self, name: str) -> None:
        digest = hashlib.sha256(name.encode()).hexdigest()
        self._address = f'\0novasched-{digest[:32]}'
        self._held = False

    def acquire(self) -> bool:
        """Take the lock, and keep it; False if another process has it."""
        if self._held:
            return True
        made = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        try:
            made.bind(self._address)
        except OSError as problem:
            made.close()
            if problem.errno != errno.EADDRINUSE:
                raise
            return False
        weakref.finalize(self, made.close)
        self._held = True
        return True
