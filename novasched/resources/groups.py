# SPDX-License-Identifier: Apache-2.0
"""Request groups of a request, independent of any host.

Extra specs name resources and traits: ``resources[S]:CLASS=amount``,
``trait[S]:TRAIT=required|forbidden`` and ``group_policy=none|isolate``; S is the suffix
of a group, or missing.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

import os_resource_classes as classes  # type: ignore[import-untyped]

from novasched import errors
from novasched.objects.request_spec import RequestGroup, RequestSpec
from novasched.resources.cpu import cpus
from novasched.resources.features import FEATURES, FeatureDemand, Features
from novasched.resources.query import NONE, Group

Groups = dict[str, Group]
"""Groups by suffix; '' is the one without."""

_KEY = re.compile(r'^(resources|trait)([a-zA-Z0-9_-]{1,64})?:(.*)$')
_POLICIES = ('none', 'isolate')
_STANDARD = frozenset(classes.STANDARDS)


@dataclass
class ExtraSpecGroups:
    """Groups by suffix, as extra specs name them. Zero amounts are kept.

    A group may be empty: there is one wherever a suffix is named, be it with
    nonsense. ``warnings`` say which extra specs were ignored, and why.
    """

    groups: Groups = field(default_factory=dict)
    group_policy: str | None = None
    warnings: list[str] = field(default_factory=list)


TOO_MUCH = 2**31
"""More than placement lets a server take of one provider; what is asked beyond it is
asked as this."""


def read_extra_specs(extra_specs: Mapping[str, str]) -> ExtraSpecGroups:
    """Read the extra specs of a flavor; keys that are not ours are left alone."""
    parsed = ExtraSpecGroups()
    for key, value in extra_specs.items():
        if key == 'group_policy':
            if value in _POLICIES:
                parsed.group_policy = value
            else:
                parsed.warnings.append(
                    f"Invalid group_policy '{value}'. "
                    "Valid values are 'none' and 'isolate'."
                )
        elif match := _KEY.match(key):
            kind, suffix, name = match.groups(default='')
            group = parsed.groups.get(suffix, Group(suffix))
            read = _with_amount if kind == 'resources' else _with_trait
            try:
                group = read(group, name, value)
            except ValueError as problem:
                parsed.warnings.append(str(problem))
            parsed.groups[suffix] = group
    return parsed


def _with_amount(group: Group, name: str, value: str) -> Group:
    if name not in _STANDARD and not name.startswith('CUSTOM_'):
        raise ValueError(f"Received an invalid ResourceClass '{name}' in extra_specs.")
    try:
        amount = min(int(value), TOO_MUCH)
    except ValueError:
        amount = -1
    if amount < 0:
        raise ValueError(
            f"Resource amounts must be nonnegative integers. Received '{value}'"
        )
    return replace(group, resources={**group.resources, name: amount})


def _with_trait(group: Group, name: str, value: str) -> Group:
    if value == 'required':
        return replace(group, required=group.required | {name})
    if value == 'forbidden':
        return replace(group, forbidden=group.forbidden | {name})
    raise ValueError(
        f"Only (required, forbidden) traits are supported. Received '{value}'."
    )


@dataclass(frozen=True)
class RequestedGroups:
    """Request groups by suffix, before prefilters and destination narrow them.

    ``own_suffixes`` are those that the flavor itself names, with nonsense or not;
    ``cpus_are_dedicated`` when every guest CPU is to be.
    """

    groups: Groups
    own_suffixes: frozenset[str]
    group_policy: str | None
    cpus_are_dedicated: bool
    warnings: tuple[str, ...]


def asked_by(
    request: RequestSpec,
    group_required: Mapping[str, frozenset[str]],
    shares_cpus: bool = False,
    features: Features = FEATURES,
) -> RequestedGroups:
    """Return all that a request asks for; ``group_required`` adds traits by suffix.

    With ``shares_cpus``, CPU policies mean nothing; ``features`` are those that the
    release of the cloud knows. Raises errors.InvalidRequestGroup
    for a requested group that is empty or without a name, and errors.InvalidDemand,
    or one below it, for what is nonsense.
    """
    parsed = read_extra_specs(request.extra_specs)
    groups = _with_image_traits(parsed.groups, request)
    dedicated = False
    if not shares_cpus:
        wanted = cpus(request)
        groups, dedicated = _with(groups, wanted.demand), wanted.are_dedicated
    groups = _with_requested(groups, request, group_required)
    groups = _with_defaults(groups, request)
    demands = [found for found in (each(request) for each in features) if found]
    for demand in demands:
        groups = _with(groups, demand)
    return RequestedGroups(
        groups=_trimmed(groups),
        own_suffixes=frozenset(suffix for suffix in parsed.groups if suffix),
        group_policy=parsed.group_policy,
        cpus_are_dedicated=dedicated,
        warnings=(
            *parsed.warnings,
            *(warning for demand in demands for warning in demand.warnings),
        ),
    )


def _with(groups: Groups, demand: FeatureDemand) -> Groups:
    """Add to the plain group; amounts of a demand replace those there."""
    plain = groups['']
    return {
        **groups,
        '': replace(
            plain,
            resources={**plain.resources, **demand.resources},
            required=plain.required | demand.required,
            forbidden=plain.forbidden | demand.forbidden,
        ),
    }


def _with_image_traits(groups: Groups, request: RequestSpec) -> Groups:
    traits = request.image_properties.get('traits_required')
    plain = groups.get('', Group())
    return {**groups, '': replace(plain, required=plain.required | set(traits or ()))}


def _with_requested(
    groups: Groups, request: RequestSpec, group_required: Mapping[str, frozenset[str]]
) -> Groups:
    """Add the groups of ports, device profiles and PCI aliases."""
    groups = dict(groups)
    for requested in request.requested_resources or ():
        group = _group_of(requested)
        if not group.suffix:
            raise errors.InvalidRequestGroup(
                'Missing requester_id in RequestGroup! This is probably a programmer '
                f'error. {requested}'
            )
        if group.is_empty:
            raise errors.InvalidRequestGroup(
                'Refusing to add no-op RequestGroup with requester_id='
                f'{group.suffix}. This is a probably a programmer error.'
            )
        if group.suffix in groups:
            raise errors.RequestGroupSuffixConflict(
                f'Duplicate request group suffix {group.suffix}.', suffix=group.suffix
            )
        more = group_required.get(group.suffix, NONE)
        groups[group.suffix] = replace(group, required=group.required | more)
    return groups


def _group_of(requested: RequestGroup) -> Group:
    return Group(
        suffix=requested.requester_id or '',
        resources=requested.resources,
        required=frozenset(requested.required_traits),
        forbidden=frozenset(requested.forbidden_traits),
        member_of=tuple(frozenset(uuids) for uuids in requested.aggregates),
        not_member_of=frozenset(requested.forbidden_aggregates),
        in_tree=requested.in_tree,
    )


def _with_defaults(groups: Groups, request: RequestSpec) -> Groups:
    """Add what the flavor says itself, where no group speaks of it.

    An amount of zero speaks of it, too: so flavors turn a default off.
    """
    named = {name for group in groups.values() for name in group.resources}
    if classes.PCPU in named:
        named.add(classes.VCPU)
    defaults = {
        classes.VCPU: request.vcpus,
        classes.MEMORY_MB: request.memory_mb,
        classes.DISK_GB: _disk_gb(request),
    }
    missing = {name: n for name, n in defaults.items() if name not in named}
    return _with(groups, FeatureDemand(resources=missing))


def _disk_gb(request: RequestSpec) -> int:
    swap_gb = -(-request.swap // 1024)
    from_volume = request.if_set('is_bfv')
    return request.ephemeral_gb + swap_gb + (0 if from_volume else request.root_gb)


def _trimmed(groups: Groups) -> Groups:
    """Drop amounts of zero, and groups that ask for nothing then."""
    trimmed = {}
    for suffix, group in groups.items():
        amounts = {name: n for name, n in group.resources.items() if n}
        group = replace(group, resources=amounts)
        if not group.is_empty:
            trimmed[suffix] = group
    return trimmed
