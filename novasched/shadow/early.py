# SPDX-License-Identifier: Apache-2.0
"""Claims that nova had made before we decided: they are not there for our decision."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from keystoneauth1.adapter import Adapter

from novasched.objects.context import RequestContext
from novasched.placement.allocations import held_by, usages
from novasched.placement_copy import PlacementCopy
from novasched.placement_copy.own_claims import OwnClaims
from novasched.ports import QueryFailed
from novasched.providers.table import Amounts


@dataclass(eq=False)
class EarlyClaims:
    """Takes claims out of the copy of placement for as long as a request lasts.

    ``copy`` returns the copy, or None if there is none that can be used.
    """

    adapter: Adapter
    own_claims: OwnClaims
    copy: Callable[[], PlacementCopy | None]
    now_s: Callable[[], float]

    def take_out(self, context: RequestContext, consumers: Sequence[str]) -> list[str]:
        """Take out what consumers hold; return those whose claims the copy showed.

        A claim that the copy does not show must stay: the copy would have too much
        room.
        """
        freed = dict[str, Amounts]()
        for consumer in consumers:
            if consumer in self.own_claims:  # another tap of a reload has done it
                continue
            held = held_by(self.adapter, context, consumer)
            if isinstance(held, QueryFailed) or not held.allocations:
                continue
            if self._shows(context, held.allocations):
                freed[consumer] = {
                    provider: {name: -amount for name, amount in amounts.items()}
                    for provider, amounts in held.allocations.items()
                }
        self.own_claims.add(freed, self.now_s())  # the copy then shows other usages
        return [*freed]

    def put_back(self, consumers: Sequence[str]) -> None:
        """Show the claims of consumers again."""
        self.own_claims.forget(consumers)

    def _shows(self, context: RequestContext, amounts: Amounts) -> bool:
        """Return whether the copy has the usages that placement has now."""
        copy = self.copy()
        now = usages(self.adapter, context, amounts)
        if copy is None or isinstance(now, QueryFailed):
            return False
        rows = copy.table.rows_by_uuid
        return all(
            provider in rows
            and copy.table.used(rows[provider], name) == now[provider].get(name, 0)
            for provider, by_name in amounts.items()
            for name in by_name
        )
