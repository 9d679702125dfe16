# SPDX-License-Identifier: Apache-2.0
"""A bar that shows how far a wait is, on terminals."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import TextIO


@contextlib.contextmanager
def bar(stream: TextIO, text: str, total: int) -> Iterator[Callable[[int], None]]:
    """Show a bar while the context is entered; give what moves it to a number.

    Where the stream is no terminal, nothing is shown.
    """
    if not stream.isatty():
        yield lambda done: None
        return
    from rich import console, progress

    columns = (
        progress.TextColumn('{task.description}'),
        progress.BarColumn(),
        progress.MofNCompleteColumn(),
        progress.TimeElapsedColumn(),
    )
    shown = console.Console(file=stream)
    with progress.Progress(*columns, console=shown, transient=True) as running:
        task = running.add_task(text, total=total)
        yield lambda done: running.update(task, completed=done)
