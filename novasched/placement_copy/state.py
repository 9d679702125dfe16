# SPDX-License-Identifier: Apache-2.0
"""What was read of placement for the copy, and what is known of it now."""

from __future__ import annotations

from typing import NamedTuple

from novasched.providers.contents import Contents
from novasched.providers.seen import AsKnown
from novasched.providers.table import ProviderTable


class Copy(NamedTuple):
    """What was read of placement at ``as_of``, on the monotonic clock; later copies
    have higher numbers. ``as_known``: see providers.seen."""

    contents: Contents
    table: ProviderTable
    as_of: float
    number: int
    as_known: AsKnown


class Current(NamedTuple):
    """What is known now, and for how many seconds."""

    table: ProviderTable
    age_s: float
    contents: Contents

    @property
    def is_exact(self) -> bool:
        """Whether requests had it brought up to date before they gave up."""
        return self.contents.members is None

    @property
    def source(self) -> str:
        """The place that it was read from."""
        return 'mirror' if self.is_exact else 'api'
