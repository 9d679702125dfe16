# SPDX-License-Identifier: Apache-2.0
"""How large a test is: fewer random examples at first, and more in all tests.

The profile of hypothesis says it (tests/conftest.py): ``quick`` a quarter of what a
test names, ``all`` as many, ``hours`` thirty times as many.
"""

from __future__ import annotations

from typing import Any

from hypothesis import settings

FEWEST = 3


def scaled(most: int, fewest: int = FEWEST) -> int:
    """Return how much of what a test names the profile goes through."""
    return max(fewest, most * settings.default.max_examples // 100)


def examples(most: int, **more: Any) -> settings:
    """Go through so many examples, as far as the profile does."""
    return settings(max_examples=scaled(most), **more)
