# SPDX-License-Identifier: Apache-2.0
"""The programs, one module each, and how all of them end.

Ctrl-C and a closed pipe end them quietly.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
import warnings
from collections.abc import Callable, Sequence
from typing import Any

INTERRUPTED = 130
"""The exit code after Ctrl-C, as shells have it."""

UNREAD = 141
"""The exit code of a program whose output is not read on, as shells have it."""


def quietly(run: Callable[[list[str]], int], argv: Sequence[str] | None) -> int:
    """Run a program; return its exit code, also after Ctrl-C or on a closed pipe.

    ``argv`` None stands for the arguments of the process.
    """
    try:
        try:
            return run(list(sys.argv[1:] if argv is None else argv))
        finally:
            if sys.stdout is not None and not sys.stdout.closed:
                sys.stdout.flush()
    except KeyboardInterrupt:
        return INTERRUPTED
    except BrokenPipeError:
        # The interpreter writes what is left once more when it shuts down.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return UNREAD


def _ending(hook: Callable[..., Any]) -> Callable[..., Any]:
    """Return a hook that ends the process after Ctrl-C, and else does as ``hook``."""

    def end(what: Any, *more: Any) -> Any:
        kind = what if isinstance(what, type) else what.exc_type
        if issubclass(kind, KeyboardInterrupt):
            os._exit(INTERRUPTED)
        return hook(what, *more)

    return end


# Before anything that takes long to import: Ctrl-C may come while modules are imported,
# or when the interpreter shuts down.
for _hook in ('excepthook', 'unraisablehook'):
    setattr(sys, _hook, _ending(getattr(sys, _hook)))

# It asks for a report, which daemons make once they can, and would end them before.
if threading.current_thread() is threading.main_thread():
    signal.signal(signal.SIGUSR2, signal.SIG_IGN)

# The libraries import eventlet where it is installed, whether it is used or not: among
# threads it may not be, and a program would take longer to start. See daemon.
sys.modules.setdefault('eventlet', None)  # type: ignore[arg-type]

# The ten lines that it prints hide ours, and who chose it knows.
warnings.filterwarnings('ignore', r'\s*Eventlet is deprecated')
