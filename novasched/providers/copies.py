# SPDX-License-Identifier: Apache-2.0
"""How often a candidate can be taken, one request after the other."""

from __future__ import annotations

import numpy as np

from novasched.providers.candidates import CandidateSearch
from novasched.scheduler.columns import Ints


def copies(searched: CandidateSearch) -> Ints | None:
    """Return how often the candidate of each of the anchors of a search can be taken.

    None: some anchor has several candidates, or a provider serves several anchors.
    """
    if searched.shares or searched.most_of_root > 1:
        return None
    anchors, providers = searched.anchors, searched.providers
    wanted: dict[str, Ints] = {}
    for slot in searched.slots:
        rows = slot.providers[slot.spans(anchors)[0]]
        for name, amount in slot.resources.items():
            of_class = wanted.setdefault(name, np.zeros(len(providers), np.int64))
            np.add.at(of_class, rows, amount)
    found = np.full(len(providers), np.iinfo(np.int64).max)
    for name, amounts in wanted.items():
        inventory = providers.inventories[name]
        asked = amounts[inventory.rows]
        taking = asked > 0
        often = inventory.free[taking] // asked[taking]
        np.minimum.at(found, providers.roots[inventory.rows[taking]], often)
    return found[anchors]
