# SPDX-License-Identifier: Apache-2.0
"""A copy of what placement knows of all providers, at one time."""

from __future__ import annotations

from dataclasses import dataclass

from novasched import errors
from novasched.providers.contents import Contents, build
from novasched.providers.table import ProviderTable


@dataclass(frozen=True)
class PlacementCopy:
    """What was read of placement at ``as_of``, seconds since 1970."""

    contents: Contents
    table: ProviderTable
    as_of: float

    @classmethod
    def of(cls, contents: Contents, as_of: float) -> PlacementCopy:
        """Make the table of contents. Raises errors.StoreFailed where their rows do not
        fit together."""
        try:
            return cls(contents, build(contents), as_of)
        except errors.InconsistentProviders as problem:
            text = f'is inconsistent: {problem}'
            raise errors.StoreFailed('Placement', text) from problem

    @property
    def source(self) -> str:
        """The place that it was read from."""
        return 'database' if self.contents.members is None else 'api'
