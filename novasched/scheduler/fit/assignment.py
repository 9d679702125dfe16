# SPDX-License-Identifier: Apache-2.0
"""Whether every guest node can have a host node of its own, without trying all ways.

Sets of host nodes are bit masks of their positions.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence


def bits(mask: int) -> Iterator[int]:
    """Return the positions of a mask, lowest first."""
    while mask:
        low = mask & -mask
        yield low.bit_length() - 1
        mask ^= low


def completable(
    able: Sequence[int], free: int, kinds: Sequence[int], most: Sequence[int]
) -> bool:
    """Return True if each guest node can have a free host node that is able.

    ``able`` has a mask for each guest node. Of the host nodes of one kind no more
    are used than ``most`` says; ``kinds`` has the kind of each host node.
    """
    matching = _Matching(able, free, kinds, most)
    return all(matching.gain(guest, set(), set()) for guest in range(len(able)))


class _Matching:
    """A matching that grows by one guest node at a time, along augmenting paths."""

    def __init__(
        self, able: Sequence[int], free: int, kinds: Sequence[int], most: Sequence[int]
    ) -> None:
        self._able = [mask & free for mask in able]
        self._kinds = kinds
        self._left = list(most)
        self._guest_of: dict[int, int] = {}

    def gain(self, guest: int, seen: set[int], full: set[int]) -> bool:
        """Match one more guest node; return False if there is no way.

        ``seen`` are host nodes, ``full`` kinds, that were tried on this path.
        """
        for host in bits(self._able[guest]):
            if host in seen:
                continue
            seen.add(host)
            if self._vacate(host, seen, full):
                self._guest_of[host] = guest
                return True
        return False

    def _vacate(self, host: int, seen: set[int], full: set[int]) -> bool:
        """Make a host node available, if need be by moving another guest node."""
        kind = self._kinds[host]
        if host in self._guest_of:
            return self.gain(self._guest_of[host], seen, full)
        if self._left[kind]:
            self._left[kind] -= 1
            return True
        if kind in full:
            return False
        full.add(kind)
        return any(
            self._release(other, seen, full)
            for other in list(self._guest_of)
            if self._kinds[other] == kind and other not in seen
        )

    def _release(self, host: int, seen: set[int], full: set[int]) -> bool:
        seen.add(host)
        if not self.gain(self._guest_of[host], seen, full):
            return False
        del self._guest_of[host]
        return True
