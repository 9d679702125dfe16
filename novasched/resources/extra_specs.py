# SPDX-License-Identifier: Apache-2.0
"""Resources and traits that the extra specs of a flavor name.

``resources[S]:CLASS=amount``, ``trait[S]:TRAIT=required|forbidden`` and
``group_policy=none|isolate``; S is the suffix of a group, or missing.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

import os_resource_classes  # type: ignore[import-untyped]

from novasched.resources.query import Group

_KEY = re.compile(r'^(resources|trait)([a-zA-Z0-9_-]{1,64})?:(.*)$')
_POLICIES = ('none', 'isolate')
_STANDARD = frozenset(os_resource_classes.STANDARDS)


@dataclass
class ExtraSpecGroups:
    """Groups by suffix, as extra specs name them. Zero amounts are kept.

    A group may be empty: there is one wherever a suffix is named, be it with
    nonsense. ``warnings`` say which extra specs were ignored, and why.
    """

    groups: dict[str, Group] = field(default_factory=dict)
    group_policy: str | None = None
    warnings: list[str] = field(default_factory=list)


def read(extra_specs: Mapping[str, str]) -> ExtraSpecGroups:
    """Read the extra specs of a flavor; keys that are not ours are left alone."""
    parsed = ExtraSpecGroups()
    for key, value in extra_specs.items():
        if key == 'group_policy':
            _read_policy(parsed, value)
        elif match := _KEY.match(key):
            kind, suffix, name = match.groups(default='')
            group = parsed.groups.setdefault(suffix, Group(suffix))
            read_one = _read_amount if kind == 'resources' else _read_trait
            problem = read_one(parsed, group, name, value)
            if problem is not None:
                parsed.warnings.append(problem)
    return parsed


def _read_policy(parsed: ExtraSpecGroups, value: str) -> None:
    if value in _POLICIES:
        parsed.group_policy = value
    else:
        parsed.warnings.append(
            f"Invalid group_policy '{value}'. Valid values are 'none' and 'isolate'."
        )


def _read_amount(
    parsed: ExtraSpecGroups, group: Group, name: str, value: str
) -> str | None:
    if name not in _STANDARD and not name.startswith('CUSTOM_'):
        return f"Received an invalid ResourceClass '{name}' in extra_specs."
    try:
        amount = int(value)
    except ValueError:
        amount = -1
    if amount < 0:
        return f"Resource amounts must be nonnegative integers. Received '{value}'"
    resources = {**group.resources, name: amount}
    parsed.groups[group.suffix] = replace(group, resources=resources)
    return None


def _read_trait(
    parsed: ExtraSpecGroups, group: Group, name: str, value: str
) -> str | None:
    if value == 'required':
        group = replace(group, required=group.required | {name})
    elif value == 'forbidden':
        group = replace(group, forbidden=group.forbidden | {name})
    else:
        return f"Only (required, forbidden) traits are supported. Received '{value}'."
    parsed.groups[group.suffix] = group
    return None
