# SPDX-License-Identifier: Apache-2.0
"""Requests that never cease, to see that none gets lost."""

import threading

from tests.live.peer import PeerError


class Steady:
    """Asks for hosts, without claims, in a few threads until it is stopped."""

    def __init__(self, client, threads=4):
        """Begin."""
        self._client = client
        self._ended = threading.Event()
        self.answered = 0
        self.lost = []
        self._lock = threading.Lock()
        self._threads = [threading.Thread(target=self._ask) for _ in range(threads)]
        for thread in self._threads:
            thread.start()

    def _ask(self):
        while not self._ended.is_set():
            try:
                self._client.select(level='4.3')
            except PeerError as problem:
                self.lost.append(problem)
            else:
                with self._lock:
                    self.answered += 1

    def more(self, count):
        """Give a check that so many more have been answered since now."""
        wanted = self.answered + count
        return lambda: self.answered >= wanted

    def stop(self):
        """End when all answers are there."""
        self._ended.set()
        for thread in self._threads:
            thread.join()
