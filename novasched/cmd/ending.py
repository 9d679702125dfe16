# SPDX-License-Identifier: Apache-2.0
"""The end of a program that is interrupted, or whose output is not read on."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from typing import Any

INTERRUPTED = 130
"""The exit code after Ctrl-C, as shells have it."""

UNREAD = 141
"""The exit code of a program whose output is not read on, as shells have it."""


def quietly(run: Callable[[], int]) -> int:
    """Run a program; return its exit code, also after Ctrl-C or on a closed pipe."""
    try:
        try:
            return run()
        finally:
            if sys.stdout is not None and not sys.stdout.closed:
                sys.stdout.flush()
    except KeyboardInterrupt:
        return INTERRUPTED
    except BrokenPipeError:
        # The interpreter writes what is left once more when it shuts down.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return UNREAD


def hook_interpreter() -> None:
    """Have Ctrl-C end the process quietly outside of ``quietly``, too.

    It may come while modules are imported, or when the interpreter shuts down.
    """
    for hook in ('excepthook', 'unraisablehook'):
        setattr(sys, hook, _ending(getattr(sys, hook)))


def _ending(hook: Callable[..., Any]) -> Callable[..., Any]:
    """Return a hook that ends the process after Ctrl-C, and else does as ``hook``."""

    def end(what: Any, *more: Any) -> Any:
        kind = what if isinstance(what, type) else what.exc_type
        if issubclass(kind, KeyboardInterrupt):
            os._exit(INTERRUPTED)
        return hook(what, *more)

    return end
