# SPDX-License-Identifier: Apache-2.0
"""The allocation candidates query: its parts and how it is written.

Written for microversion 1.36 of placement.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from urllib.parse import urlencode

NONE: frozenset[str] = frozenset()


@dataclass(frozen=True)
class Group:
    """Resources that are asked for together.

    A group with a suffix is met by one provider; the one without may be met by
    several. ``member_of`` is a list of sets of aggregate uuids: one of each set.
    """

    suffix: str = ''
    resources: Mapping[str, int] = field(default_factory=dict)
    required: frozenset[str] = NONE
    forbidden: frozenset[str] = NONE
    member_of: tuple[frozenset[str], ...] = ()
    not_member_of: frozenset[str] = NONE
    in_tree: str | None = None

    @property
    def is_empty(self) -> bool:
        return not (
            self.resources
            or self.required
            or self.forbidden
            or self.member_of
            or self.not_member_of
        )

    def pairs(self) -> Iterator[tuple[str, str]]:
        """Yield the parameters; ``resources`` even where it is empty, as nova."""
        amounts = (f'{name}:{amount}' for name, amount in self.resources.items())
        yield f'resources{self.suffix}', _joined(amounts)
        if self.required or self.forbidden:
            yield f'required{self.suffix}', _traits(self.required, self.forbidden)
        for uuids in self.member_of:
            yield f'member_of{self.suffix}', f'in:{_joined(uuids)}'
        if self.not_member_of:
            yield f'member_of{self.suffix}', f'!in:{_joined(self.not_member_of)}'
        if self.in_tree is not None:
            yield f'in_tree{self.suffix}', self.in_tree


@dataclass(frozen=True)
class Query:
    """A whole query. ``limit`` None: all candidates.

    ``warnings`` are about what the flavor asks for and cannot have; ``notes``
    say what was made up for it.
    """

    groups: tuple[Group, ...]
    root_required: frozenset[str] = NONE
    root_forbidden: frozenset[str] = NONE
    same_subtree: tuple[frozenset[str], ...] = ()
    group_policy: str | None = None
    limit: int | None = None
    warnings: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()

    def encode(self) -> str:
        """Return the query string."""
        return urlencode(sorted(self._pairs()))

    def _pairs(self) -> Iterator[tuple[str, str]]:
        if self.limit is not None:
            yield 'limit', str(self.limit)
        if self.group_policy is not None:
            yield 'group_policy', self.group_policy
        if self.root_required or self.root_forbidden:
            yield 'root_required', _traits(self.root_required, self.root_forbidden)
        for suffixes in self.same_subtree:
            yield 'same_subtree', _joined(suffixes)
        for group in self.groups:
            yield from group.pairs()


def _joined(words: Iterable[str]) -> str:
    return ','.join(sorted(words))


def _traits(required: Iterable[str], forbidden: Iterable[str]) -> str:
    return ','.join([*sorted(required), *(f'!{trait}' for trait in sorted(forbidden))])
