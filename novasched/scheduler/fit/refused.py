# SPDX-License-Identifier: Apache-2.0
"""Why one node of a host cannot take one node of a guest."""

from __future__ import annotations

from typing import NamedTuple

from novasched.scheduler.reasons import Code


class Refused(NamedTuple):
    """A reason for one pair of nodes.

    ``have`` is the number that ``text`` begins with, ``want`` the number that would
    do; both are empty where the text is about something else.
    """

    code: Code
    text: str
    have: str = ''
    want: str = ''

    @classmethod
    def too_few(cls, code: Code, have: int, want: int, things: str) -> Refused:
        """Return 'have of want things'; a negative number is told as 0."""
        have = max(have, 0)
        return cls(code, f'{have} of {want} {things}', str(have), str(want))
