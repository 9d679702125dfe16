# SPDX-License-Identifier: Apache-2.0
"""The console: pages on what the schedulers decide, and why. Read-only.

WSGI servers load ``novasched.console:application``.
"""

from __future__ import annotations

from typing import Any


def __getattr__(name: str) -> Any:
    """Make ``application`` when a server loads it, in the thread that does."""
    if name != 'application':
        raise AttributeError(f'module {__name__!r} has no attribute {name!r}')
    from novasched.console import program

    made = globals()[name] = program.application_of_cloud()
    return made
