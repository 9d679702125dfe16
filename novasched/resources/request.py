# SPDX-License-Identifier: Apache-2.0
"""From a request to the query for allocation candidates."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from oslo_config import cfg

from novasched import errors
from novasched.objects.request_spec import RequestGroup, RequestSpec
from novasched.resources import extra_specs, untranslated
from novasched.resources.prefilters.requirements import NONE, Requirements
from novasched.resources.query import Group, Query

OPTS: dict[str, list[cfg.Opt]] = {
    'scheduler': [
        cfg.IntOpt(
            'max_placement_results',
            default=1000,
            min=1,
            help="""
The maximum number of placement results to request.

This limits the number of allocation candidates, not of hosts, that placement
returns for a request, and with it the memory and the time that a request takes
in a large deployment. Which candidates are cut off does not depend on how well
they suit. Requests that must see all hosts, such as those with a server group,
are not limited.
""",
        ),
    ],
}

_HINTS_THAT_NEED_ALL_HOSTS = ('group', 'same_host', 'different_host')

Groups = dict[str, Group]
"""Groups by suffix; '' is the one without."""


def limit_from_conf(conf: cfg.ConfigOpts) -> int:
    """Return how many candidates a query asks for at most."""
    limit: int = conf.scheduler.max_placement_results
    return limit


def build_query(
    request: RequestSpec,
    added: Requirements,
    nodes: Sequence[str] | None,
    limit: int | None,
) -> Query:
    """Return the query for all that a request needs; the request stays as it is.

    ``added`` is what prefilters added. ``nodes`` are the uuids of the compute
    nodes that the request names: None for a request that names none, several
    for a service host with many nodes. Raises errors.InvalidRequest for a
    requested group that is empty or whose suffix is missing or taken.
    """
    wishes = extra_specs.read(request.extra_specs)
    groups = _with_image_traits(wishes.groups, request)
    groups = _with_requested(groups, request, added.group_required)
    groups = _with_defaults(groups, request)
    groups = _trimmed(groups)
    groups = _with_destination(groups, request, added, nodes)
    policy = _policy(wishes, groups)
    return Query(
        groups=tuple(groups.values()),
        root_required=added.root_required | request.root_required,
        root_forbidden=added.root_forbidden | request.root_forbidden,
        same_subtree=tuple(frozenset(suffixes) for suffixes in request.same_subtree),
        group_policy=policy.value,
        limit=None if _needs_all(request, nodes) else limit,
        warnings=(
            *wishes.warnings,
            *policy.warnings,
            *untranslated.warnings(request),
        ),
        notes=policy.notes,
    )


def _with_image_traits(groups: Groups, request: RequestSpec) -> Groups:
    properties = request.image_properties
    traits = properties.traits_required if 'traits_required' in properties else None
    plain = groups.get('', Group())
    return {**groups, '': replace(plain, required=plain.required | set(traits or ()))}


def _with_requested(
    groups: Groups, request: RequestSpec, group_required: Mapping[str, frozenset[str]]
) -> Groups:
    """Add the groups of ports, device profiles and PCI aliases."""
    groups = dict(groups)
    for requested in request.requested_resources or ():
        group = _group_of(requested)
        if group.is_empty or not group.suffix:
            raise errors.InvalidRequest(
                f'request group {requested.requester_id} is empty or without a name'
            )
        if group.suffix in groups:
            raise errors.InvalidRequest(
                f'Duplicate request group suffix {group.suffix}.'
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
    if 'PCPU' in named:
        named.add('VCPU')
    defaults = {
        'VCPU': request.vcpus,
        'MEMORY_MB': request.memory_mb,
        'DISK_GB': _disk_gb(request),
    }
    missing = {name: n for name, n in defaults.items() if name not in named}
    plain = groups['']
    return {**groups, '': replace(plain, resources={**plain.resources, **missing})}


def _disk_gb(request: RequestSpec) -> int:
    swap_gb = -(-request.swap // 1024)
    from_volume = 'is_bfv' in request and request.is_bfv
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


def _with_destination(
    groups: Groups,
    request: RequestSpec,
    added: Requirements,
    nodes: Sequence[str] | None,
) -> Groups:
    """Narrow the plain group to where the request must and must not go."""
    must, must_not = [], set(added.not_member_of)
    destination = request.requested_destination
    if destination is not None:
        must += [frozenset(item.split(',')) for item in destination.aggregates or ()]
        must_not |= set(destination.forbidden_aggregates or ())
    must += added.member_of
    in_tree = nodes[0] if nodes is not None and len(nodes) == 1 else None
    if not must and not must_not and in_tree is None:
        return groups
    plain = replace(
        groups.get('', Group()),
        member_of=tuple(must),
        not_member_of=frozenset(must_not),
        in_tree=in_tree,
    )
    return {**groups, '': plain}


def _needs_all(request: RequestSpec, nodes: Sequence[str] | None) -> bool:
    if nodes is not None and len(nodes) > 1:
        return True
    hints = (request.hint(name) for name in _HINTS_THAT_NEED_ALL_HOSTS)
    return any(hint is not None for hint in hints)


@dataclass(frozen=True)
class _Policy:
    value: str | None
    warnings: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()


def _policy(wishes: extra_specs.Wishes, groups: Groups) -> _Policy:
    """Choose a policy where placement needs one and the flavor cannot know that.

    A flavor with several groups of its own should have one; there the query is
    sent as it is, and refused.
    """
    suffixed = [suffix for suffix in groups if suffix]
    if wishes.group_policy is not None or len(suffixed) < 2:
        return _Policy(wishes.group_policy)
    warning = (
        'The request has several numbered resource groups and no group policy, '
        'which placement does not accept. Add group_policy to the extra specs of '
        'the flavor.'
    )
    if sum(1 for suffix in wishes.groups if suffix) > 1:
        return _Policy(None, (warning,))
    note = "The policy 'none' is used for groups that do not come from the flavor."
    return _Policy('none', (warning,), (note,))
