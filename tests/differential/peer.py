# SPDX-License-Identifier: Apache-2.0
"""The peer's side: one process of its Python that decides on many clouds or fits."""

import json
import subprocess
from pathlib import Path

from novasched.releases import named
from tests.live.peer import peer_program


class Peer:
    """The process; `ask` sends it clouds, `answers` waits for what it says.

    While it thinks, so may we. ``program`` is what it runs, on ``asked``: clouds, or
    fits. ``filters`` and ``weighers`` are the names of all that it has, where its
    program names them. ``release`` is what we know of its release.
    """

    def __init__(self, scratch, program='peer_decisions.py', asked='clouds'):
        program = Path(__file__).with_name(program)
        self._asked = asked
        self._log = Path(scratch) / 'peer.log'
        with self._log.open('w') as log:
            self._process = subprocess.Popen(
                [peer_program('python'), program, Path(scratch) / 'cell.sqlite'],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
            )
        names = self._read()
        self.version = names['version']
        self.release = named(self.version.partition('.')[0])
        self.filters = names.get('filters', ())
        self.weighers = names.get('weighers', ())

    def ask(self, asked):
        """Send clouds; the answers to those before must have been read."""
        self._process.stdin.write(json.dumps({self._asked: asked}) + '\n')
        self._process.stdin.flush()

    def answers(self):
        """Return the answers to the clouds that were sent, in their order."""
        return self._read()['answers']

    def _read(self):
        line = self._process.stdout.readline()
        if not line:
            raise EOFError(f'the peer ended: {self._log.read_text()[-2000:]}')
        return json.loads(line)

    def close(self):
        """End the process."""
        with self._process:
            self._process.kill()
