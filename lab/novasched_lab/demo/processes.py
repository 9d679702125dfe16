# SPDX-License-Identifier: Apache-2.0
"""Programs that run beside the demo, and end with it."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from novasched import errors

START_S = 120.0
STOP_S = 30.0
LAST_LINES = 3

RUN = 'import sys; from {0} import main; sys.exit(main(sys.argv[1:]))'
MODULES = {
    'compute': 'novasched_lab.cmd.compute',
    'conductor': 'novasched_lab.cmd.conductor',
    'scheduler': 'novasched.cmd.scheduler',
}


class Process:
    """A program whose output goes to a file; a context that stops it."""

    def __init__(self, name: str, command: Sequence[str | Path], log: Path) -> None:
        self.name = name
        self._log = log
        with log.open('wb') as file:
            self._process = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=file,
                stderr=subprocess.STDOUT,
                start_new_session=True,  # Ctrl-C is ours alone: we stop it in order
            )

    def __enter__(self) -> Process:
        return self

    def __exit__(self, *unused: object) -> None:
        self.stop()

    def end(self) -> None:
        """Tell it to stop, and do not wait."""
        if self._process.poll() is None:
            self._process.terminate()

    def stop(self) -> None:
        """Tell it to stop, and after a while make it."""
        self.end()
        try:
            self._process.wait(STOP_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()

    def wait_until(self, so: Callable[[], bool], timeout_s: float = START_S) -> None:
        """Wait until it is ready; raises errors.SetupError if it ends, or does not."""
        end = time.monotonic() + timeout_s
        while not so():
            code = self._process.poll()
            if code is not None:
                raise errors.SetupError(
                    f'{self.name} ended with {code}: {self._last()}'
                )
            if time.monotonic() > end:
                raise errors.SetupError(
                    f'{self.name} is not ready after {timeout_s:.0f} s: {self._last()}'
                )
            time.sleep(0.2)

    def _last(self) -> str:
        lines = self._log.read_text(errors='replace').strip().splitlines()
        return ' / '.join(lines[-LAST_LINES:]) or 'it said nothing'


def program(name: str, directory: Path, *arguments: str | Path) -> Process:
    """Start one of our programs, by the last part of its name."""
    command = [sys.executable, '-c', RUN.format(MODULES[name]), *arguments]
    return Process(f'novasched-{name}', command, directory / f'{name}.log')
