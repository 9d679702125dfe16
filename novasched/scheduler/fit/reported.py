# SPDX-License-Identifier: Apache-2.0
"""What computes report, read with care: it may be anything."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

LARGEST = 2**53
"""A number from here on may be another one as a float."""


class Unreadable(ValueError):
    """A text is not what it should be; the message says at which error."""


@contextlib.contextmanager
def reading() -> Iterator[None]:
    """Raise Unreadable for whatever goes wrong with JSON of an unknown shape."""
    try:
        yield
    except (ArithmeticError, AttributeError, LookupError, RecursionError, TypeError,
            ValueError) as error:  # fmt: skip
        raise Unreadable(f'{type(error).__name__}: {error!s:.100}') from error


def number(value: Any, least: int = 1 - LARGEST, most: int = LARGEST - 1) -> int:
    """Return a whole number; text and fractions become one.

    Raises ValueError for one that is out of bounds, with which nothing could be
    reckoned; OverflowError, TypeError or ValueError for what is no number.
    """
    made = int(value)
    if not least <= made <= most:
        raise ValueError(f'a number is below {least} or above {most}')
    return made
