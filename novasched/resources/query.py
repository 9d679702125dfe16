# SPDX-License-Identifier: Apache-2.0
"""Allocation candidates query: its request groups and its encoding."""

from __future__ import annotations

import re
import uuid
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any
from urllib.parse import parse_qsl, urlencode

from novasched import errors

VERSION = '1.36'
"""The microversion of placement that answers such queries."""

NONE: frozenset[str] = frozenset()

_KEY = re.compile(
    '(resources|required|member_of|in_tree)([A-Za-z0-9_-]{0,64})'
    '|limit|group_policy|root_required|same_subtree'
)


@dataclass(frozen=True)
class Group:
    """Resources that are asked for together.

    A group with a suffix is met by one provider; the one without may be met by
    several. ``member_of`` is a list of sets of aggregate uuids: one of each set, and
    ``required_any`` one of traits, which microversion 1.39 of placement takes.
    """

    suffix: str = ''
    resources: Mapping[str, int] = field(default_factory=dict)
    required: frozenset[str] = NONE
    forbidden: frozenset[str] = NONE
    member_of: tuple[frozenset[str], ...] = ()
    not_member_of: frozenset[str] = NONE
    in_tree: str | None = None
    required_any: tuple[frozenset[str], ...] = ()

    @property
    def is_empty(self) -> bool:
        return not (
            self.resources
            or self.required
            or self.forbidden
            or self.member_of
            or self.not_member_of
        )

    @property
    def contradicts_itself(self) -> bool:
        """It requires a trait that it forbids."""
        required = (frozenset({name}) for name in self.required)
        return any(names <= self.forbidden for names in (*required, *self.required_any))

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
    """A whole query."""

    groups: tuple[Group, ...]
    root_required: frozenset[str] = NONE
    root_forbidden: frozenset[str] = NONE
    same_subtree: tuple[frozenset[str], ...] = ()
    group_policy: str | None = None
    limit: int | None = None  # None for all candidates
    for_ports: bool = False  # some group belongs to a port
    fallback: Query | None = None  # asked, too; its candidates come last
    warnings: tuple[str, ...] = ()  # about what the flavor asks for and cannot have
    notes: tuple[str, ...] = ()  # what was added without being asked for

    def encode(self) -> str:
        """Return the query string."""
        return urlencode(sorted(self.without_bare_group()._pairs()))

    def check(self) -> None:
        """Raise errors.InvalidCandidateQuery if the query contradicts itself."""
        suffixes = {group.suffix for group in self.groups}
        named = frozenset().union(*self.same_subtree)
        if not any(group.resources for group in self.groups):
            raise errors.InvalidCandidateQuery('no group asks for resources')
        for group in self.groups:
            if not group.resources and group.suffix not in named - {''}:
                raise errors.InvalidCandidateQuery(
                    f'group {group.suffix!r} has no resources and is in no same_subtree'
                )
            if group.contradicts_itself:
                raise errors.InvalidCandidateQuery(
                    f'group {group.suffix!r} requires a trait that it forbids'
                )
        if not named <= suffixes:
            raise errors.InvalidCandidateQuery('same_subtree names an unknown group')
        if self.root_required & self.root_forbidden:
            raise errors.InvalidCandidateQuery('root_required forbids what it requires')
        if len(suffixes - {''}) > 1 and self.group_policy is None:
            raise errors.InvalidCandidateQuery('several groups need a group_policy')

    def aggregates(self) -> frozenset[str]:
        """Return the uuids of all aggregates that it names."""
        of_groups = (
            uuids
            for group in self.groups
            for uuids in (*group.member_of, group.not_member_of)
        )
        return NONE.union(*of_groups)

    def terms_of_one(self) -> str | None:
        """Return the query string for the providers with all its traits and aggregates.

        None if they cannot be listed so. A candidate that is a tree of one provider is
        among them.
        """
        if any(group.required_any for group in self.groups):
            return None
        terms = Group(
            required=self.root_required.union(*(g.required for g in self.groups)),
            forbidden=self.root_forbidden.union(*(g.forbidden for g in self.groups)),
            member_of=tuple(uuids for g in self.groups for uuids in g.member_of),
            not_member_of=NONE.union(*(g.not_member_of for g in self.groups)),
        )
        return urlencode([pair for pair in terms.pairs() if pair[0] != 'resources'])

    def without_limit(self) -> Query:
        """Return the same query for all candidates."""
        fallback = self.fallback and self.fallback.without_limit()
        return replace(self, limit=None, fallback=fallback)

    def without_bare_group(self) -> Query:
        """Ask other groups for what the plain one asks, if it has no resources.

        Placement refuses such a group. Then every group must be in the tree that is
        asked for, and its root must have the traits. Aggregates stay: there is no
        other place to ask for them.
        """
        plain = next((group for group in self.groups if not group.suffix), Group())
        others = [group for group in self.groups if group.suffix]
        if plain.resources or plain.member_of or plain.not_member_of or not others:
            return self
        return replace(
            self,
            groups=tuple(
                replace(group, in_tree=group.in_tree or plain.in_tree)
                for group in others
            ),
            root_required=self.root_required | plain.required,
            root_forbidden=self.root_forbidden | plain.forbidden,
        )

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


def decode(text: str) -> Query:
    """Return the query of a query string. Raises errors.InvalidCandidateQuery for one
    that is malformed, where placement answers 400."""
    groups: dict[str, dict[str, Any]] = {}
    whole: dict[str, str] = {}
    subtrees = []
    for key, value in parse_qsl(text, keep_blank_values=True):
        matched = _KEY.fullmatch(key)
        if matched is None or not value or key in whole:
            raise _malformed(key)
        if key == 'same_subtree':
            subtrees.append(frozenset(value.split(',')))
        elif matched[1] is None:
            whole[key] = value
        else:
            group = groups.setdefault(matched[2], {'suffix': matched[2]})
            _decode_pair(group, matched[1], value)
    limit, policy = whole.get('limit'), whole.get('group_policy')
    if not re.fullmatch('[1-9][0-9]*', limit or '1'):
        raise _malformed('limit')
    if policy not in (None, 'none', 'isolate'):
        raise _malformed('group_policy')
    root = _signed(whole['root_required']) if 'root_required' in whole else (NONE, NONE)
    listed = tuple(Group(**fields) for fields in groups.values())
    size = None if limit is None else int(limit)
    return Query(listed, *root, tuple(subtrees), policy, size)


def _decode_pair(group: dict[str, Any], kind: str, value: str) -> None:
    """Add what one parameter says to the fields of a group."""
    if kind == 'resources':
        pairs = [item.split(':') for item in value.split(',')]
        if not all(len(p) == 2 and p[1].isdigit() and int(p[1]) for p in pairs):
            raise _malformed(kind)
        group['resources'] = {name: int(amount) for name, amount in pairs}
    elif kind == 'required' and value.startswith('in:'):
        names = frozenset(value.removeprefix('in:').split(','))
        group['required_any'] = (*group.get('required_any', ()), names)
    elif kind == 'required':
        required, forbidden = _signed(value)
        group['required'] = group.get('required', NONE) | required
        group['forbidden'] = group.get('forbidden', NONE) | forbidden
    elif kind == 'member_of':
        _decode_members(group, value)
    elif _is_uuid(value):
        group['in_tree'] = value
    else:
        raise _malformed(kind)


def _decode_members(group: dict[str, Any], value: str) -> None:
    uuids = frozenset(value.removeprefix('!').removeprefix('in:').split(','))
    if not all(map(_is_uuid, uuids)):
        raise _malformed('member_of')
    if value.startswith('!'):
        group['not_member_of'] = group.get('not_member_of', NONE) | uuids
    else:
        group['member_of'] = (*group.get('member_of', ()), uuids)


def _signed(value: str) -> tuple[frozenset[str], frozenset[str]]:
    """Return the required and the forbidden ones of a list of traits."""
    names = [name.strip() for name in value.split(',')]
    if not all(names):
        raise _malformed('a list of traits')
    forbidden = frozenset(name.lstrip('!') for name in names if name.startswith('!'))
    return frozenset(name for name in names if not name.startswith('!')), forbidden


def _is_uuid(text: str) -> bool:
    try:
        return str(uuid.UUID(text)) == text
    except ValueError:
        return False


def _malformed(what: str) -> errors.InvalidCandidateQuery:
    return errors.InvalidCandidateQuery(f'{what} is malformed')


def _joined(words: Iterable[str]) -> str:
    return ','.join(sorted(words))


def _traits(required: Iterable[str], forbidden: Iterable[str]) -> str:
    return ','.join([*sorted(required), *(f'!{trait}' for trait in sorted(forbidden))])
